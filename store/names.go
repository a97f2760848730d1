package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pawl-run/pawl/internal/socket"
)

// checkNames refuses what stands in the directory under a name that the engine
// writes to and is not what it would have made: SQLite would follow a link, wait
// for a pipe, or take a rollback journal that is not ours for the truth.
//
// SQLite opens files by their names and not below the root that the directory was opened as, so
// the names are looked at before.
func (d *Dir) checkNames() error {
	at := func(name string) error {
		return checkName(d.pathOf(name), func(string) (os.FileInfo, error) { return d.root.Lstat(name) })
	}
	for _, name := range []string{indexFile, indexWAL, sumsFile, redoFile, indexFile + "-shm", indexFile + ".new"} {
		if err := at(name); err != nil {
			return err
		}
	}
	const journal = indexFile + "-journal"
	switch is, err := d.hasName(journal); {
	case err != nil:
		return err
	case is:
		return &CorruptError{File: d.pathOf(journal), What: "an engine makes no such file, and SQLite would change pawl.db by it"}
	}
	info, err := d.root.Lstat(runsDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !info.IsDir():
		return &CorruptError{File: d.pathOf(runsDir), What: "it is not a directory"}
	}
	return err
}

// ourNames are what an engine makes in its directory, or finds there on a new disk or in
// a repository that keeps an empty folder.
var ourNames = []string{
	lockName, indexFile, indexFile + ".new", indexFile + "-shm", indexWAL, sumsFile, redoFile, indexFile + "-journal", savedIndex, tailFile, oldTailFile, runsDir, tmpDir, blobsDir, unfinishedFile,
	socket.File, socket.NewFile,
	"lost+found", ".DS_Store", ".gitignore", ".gitkeep",
}

// checkForeign refuses a folder that is not empty and in which no engine has been: its
// files would lie among those of somebody else. Files that came into an engine's directory
// later harm nobody.
//
// It is for the slip of a path: an engine in a home directory or a repository would lay its files
// among those that are there.
func (d *Dir) checkForeign() error {
	if _, err := os.Lstat(d.pathOf(indexFile)); !errors.Is(err, fs.ErrNotExist) {
		return err // it is there, or cannot be looked for
	}
	text, err := readLockText(d.pathOf(lockName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && isLockRecord(text) {
		return nil
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(ourNames, e.Name()) {
			return fmt.Errorf("%w: there is %s; use an empty or a new folder, such as %s", ErrForeign, e.Name(), d.pathOf("data"))
		}
	}
	return nil
}

// readLockText reads the lock file, if it is a file, before the lock is taken.
func readLockText(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLockRecord {
		return "", err
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// hasName reports whether anything has a name in the directory.
func (d *Dir) hasName(name string) (bool, error) {
	_, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// checkName refuses a name that is not that of a regular file, or of one that has another
// name as well, under which somebody else may write to it.
func checkName(path string, lstat func(string) (os.FileInfo, error)) error {
	info, err := lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &CorruptError{File: filepath.Clean(path), What: "it is not a regular file but " + info.Mode().Type().String()}
	case linkCount(info) > 1:
		return &CorruptError{File: filepath.Clean(path), What: "it has another name as well: it is a hard link"}
	}
	return nil
}
