package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A mark is what the lock file says about pawl.db. SQLite takes a lost or an
// older write-ahead log for the truth; the mark tells.
type mark struct {
	state markState
	epoch workflow.Epoch // in pawl.db; 0: nothing is said
}

// A markState says how the last engine has left pawl.db.
type markState string

const (
	markClosed markState = "closed"
	markOpen   markState = "open"   // an engine has it, or died with it
	markSynced markState = "synced" // likewise, and syncs every commit
)

const markFormat = "%s %016x\n"

// mark writes m to the lock file, for good.
func (d *Dir) mark(m mark) error {
	text := fmt.Sprintf(markFormat, m.state, uint64(m.epoch))
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	failpoint.Hit("mark.torn")
	if _, err := d.lock.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return d.lock.Sync()
}

// readMark reads the lock file. What is not a mark, as after a crash while one
// was written, says nothing.
func (d *Dir) readMark() (mark, error) {
	text, err := io.ReadAll(io.NewSectionReader(d.lock, 0, 64))
	if err != nil {
		return mark{}, err
	}
	var state string
	var epoch uint64
	_, err = fmt.Sscanf(string(text), markFormat, &state, &epoch)
	if err != nil || fmt.Sprintf(markFormat, state, epoch) != string(text) { // a part of an epoch is another one
		return mark{state: markClosed}, nil
	}
	return mark{markState(state), workflow.Epoch(epoch)}, nil
}

// checkLog finds that the write-ahead log was deleted or damaged: one is there
// from the first commit of an engine until it closes.
func (d *Dir) checkLog(m mark) error {
	if m.state == markClosed {
		return nil
	}
	log, err := d.readFile(indexWAL)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &CorruptError{File: d.at(indexWAL), What: "it is missing, but the last engine did not close"}
	case err != nil:
		return err
	case m.state != markSynced:
		return nil // the order of its frames on disk tells nothing
	}
	if err := sqlite.CheckWAL(log); err != nil {
		return &CorruptError{File: d.at(indexWAL), What: "commits would be lost", Err: err}
	}
	return nil
}

// checkEpoch finds that pawl.db, or its write-ahead log, is an older one. It
// changes neither.
func (d *Dir) checkEpoch(m mark) error {
	if m.epoch == 0 {
		return nil
	}
	found, err := d.probeEpoch()
	if err == nil && found != m.epoch {
		err = &CorruptError{File: d.at(indexFile), What: fmt.Sprintf("it is of another time: its epoch is %v, not %v", found, m.epoch)}
	}
	return d.indexError(err)
}

// probeEpoch returns the epoch in pawl.db, and fails with SQLite's own error if
// somebody has locked it. It changes neither pawl.db nor its write-ahead log.
func (d *Dir) probeEpoch() (workflow.Epoch, error) {
	_, noLog := d.root.Lstat(indexWAL)
	found, err := d.readEpoch()
	// A reader leaves shared memory behind, and an empty log if there was none.
	litter := []string{indexFile + "-shm"}
	if noLog != nil {
		litter = append(litter, indexWAL)
	}
	for _, name := range litter {
		if gone := d.root.Remove(name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return found, err
}

// readEpoch returns the epoch in pawl.db, 0 if there is none.
func (d *Dir) readEpoch() (found workflow.Epoch, err error) {
	db, err := sqlite.OpenReadOnly(d.at(indexFile), `PRAGMA busy_timeout=0`)
	if err != nil {
		return 0, err
	}
	err = db.Each(getEpoch, func(r *sqlite.Row) error {
		found = workflow.Epoch(r.Int64(0))
		return nil
	})
	if closed := db.Close(); err == nil {
		err = closed
	}
	return found, err
}
