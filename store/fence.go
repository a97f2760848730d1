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
// of an engine that did not close. A commit that is under way is waited for. What
// the files hold at that moment is what a crash would leave.
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
func (d *Dir) rewriteFiles() error {
	probe := func(db *sqlite.Conn) error { _, err := index.ReadEpoch(db); return err }
	if err := d.probeIndex(probe); err != nil {
		return d.indexError(err) // it is not dead: SQLite's lock is held
	}
	if err := d.clearTmp(); err != nil { // a link there may lead anywhere
		return err
	}
	for _, name := range []string{indexWAL, indexFile} {
		if err := d.copyFile(name, path.Join(tmpDir, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{indexWAL, indexFile} {
		if err := d.root.Rename(path.Join(tmpDir, name), name); err != nil {
			return err
		}
	}
	return d.syncDir(".")
}

// copyFile copies a file of the directory into a new one and syncs it.
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
