package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

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
	var found workflow.Epoch
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
