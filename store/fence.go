package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
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
		err = fillSynced(out, in)
	}
	_ = in.Close() // it was only read
	return err
}

// checkEpoch refuses a pawl.db, or a write-ahead log, of an older time, and, where no
// hash is known, a pawl.db whose pages do not agree or with a row that has changed.
// It changes neither.
//
// The epoch tells a pawl.db that was put back from a backup, or a log that belongs to another
// one: their rows are sound, and the runs in them would go on from an earlier moment without
// anybody's knowledge, doing their tasks once more. The rows are checked where the last engine
// did not close: then there is no hash of pawl.db, and the log may have been damaged with it.
func (d *Dir) checkEpoch(m lockRecord) error {
	unsealed := m.hash == ""
	if m.epoch == 0 && !unsealed {
		return nil
	}
	if unsealed {
		var err error
		if d.found, err = d.sumIndex(io.Discard); err != nil {
			return err
		}
	}
	var found state.Epoch
	wrong := ""
	err := d.probeIndex(func(db *sqlite.Conn) (err error) {
		if unsealed {
			wrong, err = d.checkUnsealed(db, m)
		}
		if err == nil && wrong == "" {
			found, err = index.ReadEpoch(db)
		}
		if err == nil && wrong == "" && (m.epoch == 0 || found == m.epoch) {
			err = d.checkRedo(db, m)
		}
		return err
	})
	switch {
	case err != nil:
	case wrong != "":
		err = &CorruptError{File: d.pathOf(indexFile), What: wrong}
	case m.epoch != 0 && found != m.epoch:
		err = &CorruptError{File: d.pathOf(indexFile), What: fmt.Sprintf("it is of another time: its epoch is %v, not %v", found, m.epoch)}
	}
	return d.indexError(err)
}

// checkUnsealed returns what is wrong with a pawl.db without a known hash, "" if
// nothing. It looks at what has changed since the last mark, or at everything if that
// cannot be told.
//
// It is what an Open after a crash takes most of its time for, so a row is only checked if its
// page may have changed since it was checked last: see sums.go.
func (d *Dir) checkUnsealed(db *sqlite.Conn, m lockRecord) (wrong string, err error) {
	if older, err := d.isOlder(db); err != nil || older { // its rows are checked when they are what this program knows
		if err == nil {
			wrong, err = index.IntegrityFaults(db)
		}
		return wrong, err
	}
	if m.epoch != 0 && d.found != nil {
		changed, marked, err := d.changedSince(d.found)
		if err != nil {
			return "", err
		}
		if marked {
			if wrong, err = index.AlteredSchema(db); err == nil && wrong == "" {
				wrong, err = index.ChangedRowOn(db, maps.Values(changed))
			}
			return wrong, err
		}
	}
	if wrong, err = index.CheckIntegrity(db); err == nil && wrong == "" {
		wrong, err = index.ChangedRow(db)
	}
	return wrong, err
}

// checkFingerprint refuses a pawl.db that was closed and has other runs than the engine had
// when it closed it.
//
// The number of runs and the sum of their sequences say so in words that help a person: which
// backup it is that lies there. It is the last check, of a pawl.db that has passed all others.
func (d *Dir) checkFingerprint(m lockRecord) error {
	if m.state != stateClosed || m.fingerprint == "" || d.older { // the hash of all of it has been checked
		return nil
	}
	var wrong string
	err := d.probeIndex(func(db *sqlite.Conn) (err error) { wrong, err = compareFingerprint(db, m.fingerprint); return err })
	if err == nil && wrong != "" {
		err = &CorruptError{File: d.pathOf(indexFile), What: wrong}
	}
	return d.indexError(err)
}

// compareFingerprint returns what is wrong if a pawl.db has another fingerprint, or "".
func compareFingerprint(db *sqlite.Conn, want string) (wrong string, err error) {
	found, err := index.FingerprintOf(db)
	if err == nil && found != want {
		wrong = fmt.Sprintf("it is of another moment: its runs and records are %s, not %s", found, want)
	}
	return wrong, err
}

// probeIndex calls read with a connection to pawl.db, and leaves neither that nor its
// write-ahead log changed. It fails with SQLite's own error if somebody has locked pawl.db.
//
// SQLite reads the log as well, so read sees what an engine would see that opens the directory.
// Files that a reader leaves are removed, or the checks that follow would take them for an
// engine's.
func (d *Dir) probeIndex(read func(*sqlite.Conn) error) error {
	log, err := d.hasName(indexWAL)
	if err != nil {
		return err // the log may be there
	}
	err = d.readUnopened(read)
	// A reader leaves shared memory behind, and an empty log if there was none.
	litter := []string{indexFile + "-shm"}
	if !log {
		litter = append(litter, indexWAL)
	}
	for _, name := range litter {
		if gone := d.root.Remove(name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// readUnopened calls read with a connection that only reads.
//
// The connection is closed in any case, so that no lock of SQLite's stays behind.
func (d *Dir) readUnopened(read func(*sqlite.Conn) error) error {
	db, err := sqlite.OpenReadOnly(d.pathOf(indexFile), `PRAGMA busy_timeout=0; PRAGMA cell_size_check=ON;`)
	if err != nil {
		return err
	}
	err = read(db)
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}
