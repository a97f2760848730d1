package store

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

const deleteRun = `DELETE FROM runs WHERE num = ? AND status >= 4 RETURNING workflow, status, tenant, file_size, filed`

// Purge erases a run that has ended: its row, its records and its file, the
// outcomes that are kept under keys that begin with keys, unless it is "", and its
// definition, if no other run has it and it is not published; that may wait for later
// purges, or for Close. The log keeps what is erased until its next checkpoint, and pages that
// became free until they are used again, or Close. It
// waits for flushes of the run. It fails with ErrRunNotFound and ErrNotEnded, and with
// ErrCorrupt if its row does not tell whether it has ended, and which its files are.
//
// The rows go in one transaction, and from then on the run is not there: a crash behind it leaves
// files that nothing names, under a name that is never used again. They are removed last, when it
// is durable that nothing names them; before that, a loss of power could bring back a row whose
// file is gone.
//
// A row that is damaged in other parts may be purged all the same, so that an operator can get
// rid of a run that cannot be read.
func (d *Dir) Purge(id workflow.RunID, keys string) error {
	d.flusher.waitForRun(id)
	r, err := d.readRow(id)
	if damage := (*CorruptError)(nil); err != nil && (!errors.As(err, &damage) || !r.Sound[index.RowState] || !r.Sound[index.RowStart]) {
		return fmt.Errorf("purge: %w", err)
	}
	var spills []int64
	err = d.updateIndex(func(db *sqlite.Conn) (err error) {
		spills, err = d.deleteRunRows(db, &r, keys)
		d.definitions.noteUnused(r.Definition) // before a collection drops the row that says so
		return err
	})
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	d.dropSpills(spills)
	if err := d.collectDefinitions(false); err != nil {
		d.options.Logger.Warn("unused definitions are not deleted yet", "file", d.pathOf(indexFile), "error", err)
	}
	d.eraseLog()
	if err := d.syncLog(); err != nil {
		return fmt.Errorf("purge run %q: %w", string(id), err)
	}
	for _, s := range []index.Slot{1, 2} {
		if err := d.removeRunFile(index.FileName(id, r.Nonce, s)); err != nil {
			return fmt.Errorf("purge run %q: %w", string(id), err)
		}
	}
	return nil
}

// deleteRunRows deletes the rows of a run, and returns the spills of its records.
//
// The statement itself looks whether the run has ended, within the transaction: what was read
// before may be old. It returns what the counts need of the row that it deletes.
func (d *Dir) deleteRunRows(db *sqlite.Conn, r *index.Row, keys string) (spills []int64, err error) {
	var tenant string
	var size, filed int64
	found := false
	if err := d.moveRunOf(db, r.Num, 0); err != nil {
		return nil, err
	}
	err = db.ExecEach(deleteRun, func(gone *sqlite.Row) error { // r was read before the transaction
		found = true
		d.counts.countRun(gone.Text(0), workflow.RunStatus(gone.Int64(1)), -1)
		tenant, size, filed = gone.Text(2), gone.Int64(3), gone.Int64(4)
		return nil
	}, r.Num)
	if err == nil && !found {
		err = refuseRequest("%w: %q", ErrNotEnded, string(r.Run))
	}
	if err == nil {
		err = d.tenants.countPurged(db, r.Num, filed, tenant, size)
	}
	if err != nil {
		return nil, err
	}
	if err := d.notePurgedRedo(db, r.Num); err != nil {
		return nil, err
	}
	for _, text := range []string{dropRefs, dropLabels} {
		if _, err = db.Exec(text, r.Num); err != nil {
			return nil, err
		}
	}
	// If the process dies before the definition was looked at, the next Open asks about it.
	if _, err = db.Exec(putPurged, index.RowWithCRC(r.Definition)...); err != nil {
		return nil, err
	}
	if err := dropOutcomes(db, keys); err != nil {
		return nil, err
	}
	return trimLog(db, r.Num, index.MaxSeq)
}
