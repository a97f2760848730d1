package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/socket"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// makeDir makes a directory and those above it, as far as there are none, and
// their names durable.
//
// The names of the folders above are synced from the top: a directory whose own name is not
// durable could be lost with everything that was acknowledged in it.
func makeDir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if above := filepath.Dir(path); above != path {
		if err := makeDir(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !isDir(path) {
		return err
	}
	return syncAbove(path)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// syncAbove makes the name of a directory durable.
func syncAbove(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

// openRegular opens a file below the directory for reading, and nothing that
// only looks like one.
//
// It never follows a link, which somebody may have laid to have the engine read or replace a file
// elsewhere, and never waits for a pipe.
func (d *Dir) openRegular(name string) (*os.File, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		folder := filepath.Dir(name)
		if at, e := d.root.Lstat(folder); e == nil && !at.IsDir() {
			err = &CorruptError{File: d.pathOf(folder), What: "it is not a directory but " + at.Mode().Type().String()}
		}
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &CorruptError{File: d.pathOf(name), What: "it is not a regular file but " + info.Mode().Type().String()}
	}
	return d.root.OpenFile(name, os.O_RDONLY|noFollow, 0)
}

// readStart returns the first bytes of a file: as many as there are, up to a
// database's header.
func (d *Dir) readStart(name string) ([]byte, error) {
	f, err := d.openRegular(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, sqlite.HeaderSize))
	_ = f.Close() // it was only read
	return data, err
}

// readFile returns a whole file.
//
// A file that has become shorter meanwhile is an error, io.ErrUnexpectedEOF.
func (d *Dir) readFile(name string) ([]byte, error) {
	f, err := d.openRegular(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	_ = f.Close() // it was only read
	return data, err
}

// readSparse is readFile for a file that may be zeros mostly, which take no memory: what is not written to is not there.
func (d *Dir) readSparse(name string) ([]byte, error) {
	f, err := d.openRegular(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	piece, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := 0; at < len(data); at += len(piece) {
		some := piece[:min(len(piece), len(data)-at)]
		if _, err := io.ReadFull(f, some); err != nil {
			return data, err
		}
		if !bytes.Equal(some, zeros[:len(some)]) {
			copy(data[at:], some)
		}
	}
	return data, nil
}

// createFile opens a new file for writing. It makes the folder tmp/ again, which somebody may have taken for litter.
func (d *Dir) createFile(name string, flag int) (*os.File, error) {
	flag |= os.O_WRONLY | os.O_CREATE | noFollow
	f, err := d.root.OpenFile(name, flag, 0o600)
	if errors.Is(err, fs.ErrNotExist) && path.Dir(name) == tmpDir {
		_ = d.root.Mkdir(tmpDir, 0o700) // or another worker makes it
		f, err = d.root.OpenFile(name, flag, 0o600)
	}
	return f, err
}

// writeFile writes a new file.
//
// A file that is to be synced with others is written without sync, and synced later.
func (d *Dir) writeFile(name string, data []byte, sync bool) error {
	f, err := d.createFile(name, os.O_TRUNC)
	if err != nil {
		return err
	}
	d.hook.Hit("disk.write")
	if _, err = f.Write(data); err == nil && sync {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// syncFile makes the contents of a file durable.
func (d *Dir) syncFile(name string) error {
	f, err := d.openRegular(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	_ = f.Close() // it was only read
	return err
}

// syncDir makes the names in a directory durable.
func (d *Dir) syncDir(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	_ = f.Close() // it was only read
	return err
}

// syncLog makes the commits so far durable, if they are not synced one by one. Files
// that they do not name any more may be removed only then.
//
// At PowerLoss each commit has synced it. One sync follows the other: the system tells of an error once, and a second sync, which
// would not learn of it, finds the directory failed.
func (d *Dir) syncLog() error {
	if d.options.Durability != ProcessCrash {
		return nil
	}
	d.syncing.Lock()
	defer d.syncing.Unlock()
	if err := d.Err(); err != nil {
		return err
	}
	f, err := d.openRegular(indexWAL)
	if err != nil {
		return err
	}
	if err = d.hook.Stage(string(syncing)); err == nil {
		err = f.Sync()
	}
	_ = f.Close() // it was only read
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		err = d.failForGood(syncFailed(d.pathOf(indexWAL), err))
	}
	return err
}

// checkHeader checks that data starts like one of our databases.
func (d *Dir) checkHeader(data []byte, name string, id, version uint32) error {
	h, ok := sqlite.ParseHeader(data)
	switch {
	case len(data) == 0:
		return &CorruptError{File: d.pathOf(name), What: "it is empty"}
	case !ok:
		return &CorruptError{File: d.pathOf(name), What: "it is not a database"}
	case h.ApplicationID != id:
		return &CorruptError{File: d.pathOf(name), What: fmt.Sprintf("it belongs to another program: application_id %#x", h.ApplicationID)}
	case h.UserVersion > version, h.UserVersion > 0 && h.UserVersion < version:
		return &VersionError{File: d.pathOf(name), Version: h.UserVersion, Known: version}
	case h.UserVersion != version:
		return &CorruptError{File: d.pathOf(name), What: fmt.Sprintf("no version of pawl wrote format %d", h.UserVersion)}
	}
	return nil
}

// sumFile returns the SHA-256 of a file, and its size.
func (d *Dir) sumFile(name string) (sum [sha256.Size]byte, size int, err error) {
	f, err := d.openRegular(name)
	if err != nil {
		return sum, 0, err
	}
	h := sha256.New()
	n, err := pace.Copy(h, f)
	_ = f.Close() // it was only read
	h.Sum(sum[:0])
	return sum, int(n), err
}

func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := pace.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

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

// A directory keeps some room of the disk for itself, in a file with nothing in it. On a disk that is full nobody can
// open a directory: SQLite needs some room to read pawl.db, and a commit needs some in its log. So nothing could be purged,
// where a purge is what would help. An opening for maintenance that finds no room gives the reserve up. Close makes it
// again where there is room by then, as does each Open.
//
// The runs of an engine do not get it: they would use it up within moments. A purge does, while no other commit comes between.

const (
	// reserveFile lies in the folder that each Open empties of everything else: in no copy of the directory, and of no
	// use to anybody.
	reserveFile = tmpDir + "/" + index.ReserveFile
	// reserveBytes is more than an opening and a closing take, and enough for some purges in between; each purge gives more
	// back than it takes.
	reserveBytes = 256 << 10
)

// makeReserve makes the reserve, if it is not there. Without room for it the directory has no reserve.
func (d *Dir) makeReserve() {
	if d.options.building {
		return
	}
	if err := d.ensureReserve(); err != nil {
		d.options.Logger.Warn("nothing is kept in reserve for commands on a full disk", "file", d.pathOf(reserveFile), "error", err)
	}
}

// restoreReserve makes the reserve again that a purge of an engine was given, once so much was given back. Until the disk has much
// more room than that the log stays short: a long one would take what purges give back. The lock is held.
func (d *Dir) restoreReserve() {
	if !d.shortLog.Load() || d.options.scarce {
		return
	}
	if d.ensureReserve() == nil && (!tellsRoom || d.hasRoom(reserveLeave)) {
		d.shortLog.Store(false)
	}
}

// hasRoom reports whether the disk has room for so many bytes.
func (d *Dir) hasRoom(bytes int64) bool {
	f, err := d.root.Open(".")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // nothing was written
	return hasRoom(f, bytes)
}

// ensureReserve makes the reserve, if it is not there.
func (d *Dir) ensureReserve() error {
	_, err := d.root.Lstat(reserveFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.writeReserve()
	}
	return err
}

// writeReserve writes the file of the reserve, or leaves none.
func (d *Dir) writeReserve() error {
	f, err := d.createFile(reserveFile, os.O_EXCL)
	if err != nil {
		return err
	}
	if err = errors.Join(fillReserve(f), f.Close()); err != nil {
		err = errors.Join(err, d.root.Remove(reserveFile)) // it is not whole, and the next Open looks again
	}
	return err
}

// fillReserve gives a file its blocks on the disk.
func fillReserve(f *os.File) error {
	err := allocateBlocks(f, reserveBytes)
	info, failed := f.Stat()
	if err == nil && failed == nil && info.Size() == reserveBytes {
		return nil
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	_, err = f.Write(make([]byte, reserveBytes)) // where blocks cannot be asked for
	return err
}

// dropReserve gives the reserve up, and fails with ErrNoSpace if it is missing.
func (d *Dir) dropReserve() error {
	info, err := d.root.Lstat(reserveFile)
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		err = d.root.Remove(reserveFile)
		d.shortLog.Store(err == nil)
		return err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w, and nothing is kept in reserve: make some KiB of room elsewhere on this disk", ErrNoSpace)
}

// noteRoom takes note of whether a commit found room on the disk.
func (d *Dir) noteRoom(err error) {
	if full := errors.Is(err, ErrNoSpace); (full || err == nil) && full != d.full.Load() {
		d.full.Store(full)
	}
}

// IsFull reports whether the last commit found no room on the disk, and there is none by now either; false where the system does not tell that.
func (d *Dir) IsFull() bool {
	return d.full.Load() && tellsRoom && !d.hasRoom(reserveBytes)
}

// clearTmp makes an empty folder for files that are being built, but for the reserve.
func (d *Dir) clearTmp() error {
	info, err := d.root.Lstat(tmpDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !info.IsDir() {
		if err := d.root.RemoveAll(tmpDir); err != nil { // a link may lead anywhere
			return err
		}
		return d.root.Mkdir(tmpDir, 0o700)
	}
	entries, err := d.listFolder(tmpDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(tmpDir, e.Name())
		if name == reserveFile && e.Type().IsRegular() {
			continue
		}
		if err := d.root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}
