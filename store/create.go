package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/testhook"
)

// unfinishedFile is in a directory that is being made from another one, until all else is in it and durable.
const unfinishedFile = index.UnfinishedFile

const unfinishedText = "This copy was never finished. Remove the folder, and make another copy.\n"

// newDirectory makes a directory, whole and durable or not at all: build fills one of another name beside it, which is marked as unfinished.
//
// The steps, with what a crash leaves behind each of them:
//
//  1. a folder beside into, whose first file says UNFINISHED: Open refuses it.
//  2. build fills it: likewise.
//  3. all names in it are synced, and then UNFINISHED is removed: a whole directory, under the name that it was built under.
//  4. it is renamed to into, and that name is synced.
//
// An error removes the folder, also one after the renaming, which is taken back. Nobody ever sees a part of a directory under
// the name.
func newDirectory(hook *testhook.Hook, into string, build func(building string) error) error {
	if err := checkVacant(into); err != nil {
		return err
	}
	into, err := filepath.Abs(into)
	if err != nil {
		return err
	}
	building, err := os.MkdirTemp(filepath.Dir(into), filepath.Base(into)+".partial-")
	if err != nil {
		return err
	}
	hook.Hit("backup.folder")
	if err = markUnfinished(building); err == nil {
		err = checkReplaceable(into, building)
	}
	if err == nil {
		hook.Hit("backup.unfinished")
		err = build(building)
	}
	if err == nil {
		err = nameDirectory(hook, building, into)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(building))
	}
	return nil
}

// markUnfinished marks an empty directory before anything else is in it.
func markUnfinished(building string) error {
	if err := writeSynced(filepath.Join(building, unfinishedFile), []byte(unfinishedText)); err != nil {
		return err
	}
	return syncPath(building)
}

// nameDirectory gives a directory, durably, the name at which nothing is but perhaps an empty directory; or the directory keeps
// its own. The contents of its files are durable already. Removing the empty directory that may be there fails if something came
// into it meanwhile.
func nameDirectory(hook *testhook.Hook, building, into string) error {
	if err := syncDirs(building); err != nil {
		return err
	}
	hook.Hit("backup.synced")
	if err := os.Remove(filepath.Join(building, unfinishedFile)); err != nil {
		return err
	}
	if err := syncPath(building); err != nil {
		return err
	}
	hook.Hit("backup.whole")
	if err := os.Remove(into); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrNotEmpty, err)
	}
	hook.Hit("backup.name")
	if err := os.Rename(building, into); err != nil {
		return err
	}
	hook.Hit("backup.named")
	if err := syncPath(filepath.Dir(into)); err != nil {
		return errors.Join(err, os.Rename(into, building))
	}
	return nil
}

// checkFinished refuses a directory that a crash kept from being finished: it may lack anything.
func (d *Dir) checkFinished() error {
	path := filepath.Join(d.path, unfinishedFile)
	switch _, err := os.Lstat(path); {
	case d.options.building || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return &CorruptError{File: path, What: "the directory is a copy that was never finished"}
}

// checkVacant checks that nothing is at a path but perhaps an empty directory.
func checkVacant(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a link: name the directory itself", ErrNotEmpty, path)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a directory", ErrNotEmpty, path)
	}
	switch entries, err := os.ReadDir(path); {
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%w: the directory %s is not empty", ErrNotEmpty, path)
	}
	return nil
}

// checkReplaceable checks that the empty directory which may be at a path can be replaced when the copy is whole. full is a
// directory beside it that is not empty, to which nothing can be renamed: the system says so, unless it has a reason before that,
// such as a mount point.
func checkReplaceable(path, full string) error {
	err := syscall.Rename(path, full) // os.Rename would not ask the system
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w: %s is a mount point: name a directory in it", ErrNotEmpty, path)
	}
	return &os.LinkError{Op: "rename", Old: path, New: full, Err: err}
}

// syncDirs makes all names below a directory durable: the contents of the files were synced as they were written.
func syncDirs(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return syncPath(path)
	})
}

// writeSynced makes a file, durably. To sync each by itself disturbs the commits of others less than to sync everything at the end, which would hold them up.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return fillSynced(f, bytes.NewReader(data))
}

// fillSynced writes what it reads into a new file, durably, and closes that.
func fillSynced(to *os.File, from io.Reader) error {
	_, err := io.Copy(to, from)
	if err == nil {
		err = to.Sync()
	}
	if closed := to.Close(); err == nil {
		err = closed
	}
	return err
}

// syncPath makes a file, or the names in a directory, durable.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	_ = f.Close() // it was only read
	return err
}

// prepareFolders makes the folders and removes files that were being built. The files in tmp/ are of an earlier life: files of runs that were being
// built, copies of pawl.db for a base, and files that only took room. The reserve stays, see disk.go.
func (d *Dir) prepareFolders() error {
	if err := d.clearTmp(); err != nil {
		return err
	}
	if err := d.root.Mkdir(runsDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncDir(".")
}

// checkIndex checks pawl.db, or makes it. The checks come in this order: that a log is there which must be there; that pawl.db is of the last life, its pages and rows are sound where no hash says so,
// and the redo log that it names is there, and whole; that it has the hash that it was closed with; that the log would not change it then; and that it has as
// many runs and records as it was closed with. Each presupposes the ones before it. None changes anything, so that a directory which is refused can be looked
// at, or be put right, as it was found.
//
// A log without an epoch in the lock record means that somebody has removed the lock file, or that an Open was cut short. In the first case an engine may still
// have pawl.db open: see rewriteFiles.
func (d *Dir) checkIndex() error {
	data, err := d.readStart(indexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return d.createIndex()
	}
	if err != nil {
		return err
	}
	if err := d.checkFormat(data); err != nil {
		return err
	}
	was, err := d.readLockRecord()
	if d.was = was; err != nil {
		return err
	}
	for _, check := range []func(lockRecord) error{d.checkLogPresent, d.checkEpoch, d.checkIndexHash, d.checkStaleLog, d.checkFingerprint} {
		if err := check(was); err != nil {
			return err
		}
	}
	d.erase = was.isLeftOpen() // what the last engine purged before it died
	d.eraseTail = d.erase
	log, err := d.hasName(indexWAL)
	if err == nil && log && was.epoch == 0 {
		err = d.rewriteFiles()
	}
	return err
}

// createIndex makes pawl.db, whole or not at all, in a directory without runs. A crash before the renaming leaves pawl.db.new, which the next Open writes anew. A directory with runs or a log, and without pawl.db, has lost it: an empty
// one in its place would hide that.
func (d *Dir) createIndex() error {
	for _, name := range []string{runsDir, indexWAL, redoFile} {
		is, err := d.hasName(name)
		if err != nil {
			return err
		}
		if is {
			return &CorruptError{File: d.pathOf(indexFile), What: "it is missing, but there is " + name}
		}
	}
	data, err := index.NewDatabase()
	if err != nil {
		return fmt.Errorf("create %s: %w", indexFile, err)
	}
	const building = indexFile + ".new"
	if err := d.writeFile(building, data, true); err != nil {
		return err
	}
	d.hook.Hit("open.create")
	if err := d.checkOwnerAtOpen(); err != nil {
		return err
	}
	if err := d.root.Rename(building, indexFile); err != nil {
		return err
	}
	if err := d.syncDir("."); err != nil {
		return err
	}
	// The maker of the directory may not have made its name durable. Where the folder above may not be read, that is not ours to do.
	if err := syncAbove(d.path); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// makeLogDurable makes the write-ahead log, if it is missing, and its name durable: SQLite does not tell if it could not.
// The first commit syncs the contents of the log, and not that it has a name: a loss of power could take the name, with all that was acknowledged. The check
// that a log must be there would then refuse the directory, and rightly so.
func (d *Dir) makeLogDurable() error {
	is, err := d.hasName(indexWAL)
	if err == nil && !is {
		if err = d.writeFile(indexWAL, nil, false); err == nil {
			err = d.syncDir(".")
		}
	}
	return err
}

// warnOfAccess logs a warning if users other than that of the process can change files of the directory, which an engine makes for its user alone. It
// only warns: whether others can do harm there is for the operator to judge.
func (d *Dir) warnOfAccess() {
	info, err := os.Stat(d.path)
	if err != nil {
		d.options.Logger.Warn("who can write into the engine directory cannot be told", "directory", d.path, "error", err)
		return
	}
	for _, text := range accessWarnings(info.Mode(), ownerOf(info), os.Geteuid()) {
		d.options.Logger.Warn(text, "directory", d.path, "mode", info.Mode().String())
	}
}

// accessWarnings returns one warning for each group of other users who can change files of a
// directory. owner and user are numeric ids, or -1 where the system has no such ids.
func accessWarnings(mode fs.FileMode, owner, user int) (out []string) {
	if owner != user && owner >= 0 {
		out = append(out, "the engine directory belongs to another user, who can replace everything in it: chown it, or use one of your own")
	}
	if mode.Perm()&0o002 != 0 {
		out = append(out, "everybody on this machine can write into the engine directory: chmod it to 0700")
	}
	return out
}
