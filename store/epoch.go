package store

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// checkEpoch refuses a pawl.db, or a write-ahead log, of an older time, and, where no
// hash is known, a pawl.db of which the pages do not agree. It changes neither.
func (d *Dir) checkEpoch(m lockRecord) error {
	unsealed := m.hash == ""
	if m.epoch == 0 && !unsealed {
		return nil
	}
	found, wrong, err := d.probeEpoch(unsealed)
	switch {
	case err != nil:
	case wrong != "":
		err = &CorruptError{File: d.pathOf(indexFile), What: wrong}
	case m.epoch != 0 && found != m.epoch:
		err = &CorruptError{File: d.pathOf(indexFile), What: fmt.Sprintf("it is of another time: its epoch is %v, not %v", found, m.epoch)}
	}
	return d.indexError(err)
}

// probeEpoch reads the epoch as readEpoch does and leaves neither pawl.db nor its
// write-ahead log changed. It fails with SQLite's own error if somebody has locked pawl.db.
func (d *Dir) probeEpoch(check bool) (found workflow.Epoch, wrong string, err error) {
	log, err := d.hasName(indexWAL)
	if err != nil {
		return 0, "", err // the log may be there
	}
	found, wrong, err = d.readEpoch(check)
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
	return found, wrong, err
}

// readEpoch returns the epoch in pawl.db, 0 if there is none, and, if check is set, what
// is wrong with pawl.db.
func (d *Dir) readEpoch(check bool) (found workflow.Epoch, wrong string, err error) {
	db, err := sqlite.OpenReadOnly(d.pathOf(indexFile), `PRAGMA busy_timeout=0; PRAGMA cell_size_check=ON;`)
	if err != nil {
		return 0, "", err
	}
	if check {
		wrong, err = index.CheckIntegrity(db)
		if err == nil && wrong == "" {
			wrong, err = index.ChangedRow(db)
		}
	}
	if err == nil && wrong == "" {
		found, err = index.ReadEpoch(db)
	}
	if closed := db.Close(); err == nil {
		err = closed
	}
	return found, wrong, err
}
