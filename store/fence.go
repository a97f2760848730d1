package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// Fence makes everything fail with ErrClosed from now on, as if the process had
// died: a commit that has not begun never happens, and Close leaves the lock record
// of an engine that did not close. A commit that is under way is waited for. The
// files then hold what a crash at that moment would leave.
//
// It stops an engine dead within a process: tests let another engine open the directory as after
// kill -9, and see what it finds. Requests in the queue of the committer are answered with
// ErrClosed, as is every reader. The lock is not given back before Close.
func (d *Dir) Fence() {
	if d.remote != nil {
		d.remote.stop(ErrClosed) // a commit may wait for the log
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead == nil {
		d.dead = ErrClosed
	}
}

// checkOwner returns ErrFenced unless the lock file, where the directory was opened, is
// still the one that we hold. If somebody has removed it, or has moved the directory
// away, the directory may have another owner by now. Any other error says that the
// lock file could not be read.
//
// The lock of the file proves that nobody else has this file locked, and not that it still is the
// lock file of the directory. A person who removes LOCK, or moves the directory away and puts
// another one in its place, lets a second engine take a lock of its own, while both believe that
// they own the directory. So every transaction asks before its first statement and before its
// answer, a frame of the redo log, which has an epoch of its own, before its answer, and every stage of a flush. It is one call of the system.
//
// That the lock file cannot be looked at, say because the process has no descriptor left, proves
// nothing: the call fails, and the directory goes on.
func (d *Dir) checkOwner() error {
	same, err := isFileAt(d.lockPath, d.owned)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is gone", ErrFenced, d.lockPath)
	case err != nil:
		return fmt.Errorf("cannot tell who owns the directory: %w", err)
	case !same:
		return fmt.Errorf("%w: %s is another file now", ErrFenced, d.lockPath)
	}
	return nil
}

// checkOwnerAtOpen is checkOwner while the directory is being opened.
func (d *Dir) checkOwnerAtOpen() error {
	err := d.checkOwner()
	if errors.Is(err, ErrFenced) {
		return fmt.Errorf("%w: %s was taken away", ErrLocked, d.lockPath)
	}
	return err
}

// rewriteFiles puts pawl.db and its write-ahead log into new files with the same
// contents. It is called where a lock file was removed while pawl.db was in use:
// its owner, if it is not dead but stopped, still has the old files open and
// writes into them when it continues, wherever it was. A crash in between leaves
// files of the same contents.
//
// A stopped owner is a process that was suspended, or a machine that slept. When it continues in
// the middle of a write, its bytes go into files that have no name any more. Its next look at the
// lock file tells it that it is fenced.
//
// The log is renamed first. A crash between the two leaves the new log beside the old pawl.db,
// and both pairs have the same content.
func (d *Dir) rewriteFiles() error {
	probe := func(db *sqlite.Conn) error { _, err := index.ReadEpoch(db); return err }
	if err := d.probeIndex(probe); err != nil {
		return d.indexError(err) // it is not dead: SQLite's lock is held
	}
	if err := d.clearTmp(); err != nil { // a link there may lead anywhere
		return err
	}
	names := []string{indexWAL, indexFile}
	if has, err := d.hasName(redoFile); err != nil {
		return err
	} else if has {
		names = append([]string{redoFile}, names...)
	}
	for _, name := range names {
		if err := d.copyFile(name, path.Join(tmpDir, name)); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := d.root.Rename(path.Join(tmpDir, name), name); err != nil {
			return err
		}
	}
	return d.syncDir(".")
}

// copyFile copies a file of the directory into a new one and syncs it.
//
// The copy must be durable before it takes the name of the original.
func (d *Dir) copyFile(from, to string) error {
	in, err := d.openRegular(from)
	if err != nil {
		return err
	}
	out, err := d.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	if err == nil {
		_, err = io.Copy(out, in)
		if err == nil {
			err = out.Sync()
		}
		if closed := out.Close(); err == nil {
			err = closed
		}
	}
	_ = in.Close() // it was only read
	return err
}
