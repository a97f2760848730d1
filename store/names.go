package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// checkNames refuses what stands in the directory under a name that the engine
// writes to and is not what it would have made: SQLite would follow a link, wait
// for a pipe, or take a rollback journal that is not ours for the truth.
func (d *Dir) checkNames() error {
	at := func(name string) error {
		return checkName(d.pathOf(name), func(string) (os.FileInfo, error) { return d.root.Lstat(name) })
	}
	for _, name := range []string{indexFile, indexWAL, indexFile + "-shm", indexFile + ".new"} {
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
