package store

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

const deleteRun = `DELETE FROM runs WHERE num = ? AND status >= 4`

// Purge forgets a run that has ended: its row, its records and its file, and the
// outcomes that are kept under keys that begin with keys, unless it is "". It
// waits for filing of the run. It fails with ErrRunNotFound and ErrNotEnded.
func (d *Dir) Purge(id workflow.RunID, keys string) error {
	d.filer.wait(id)
	r, err := d.row(id)
	if damage := (*CorruptError)(nil); err != nil && !errors.As(err, &damage) {
		return fmt.Errorf("purge: %w", err)
	}
	if err := d.update(func(db *sqlite.Conn) error { return purge(db, &r, keys) }); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	if err := d.harden(); err != nil {
		return fmt.Errorf("purge run %q: %w", string(id), err)
	}
	for _, s := range []slot{1, 2} {
		if err := d.discard(fileName(id, r.nonce, s)); err != nil {
			return fmt.Errorf("purge run %q: %w", string(id), err)
		}
	}
	return nil
}

func purge(db *sqlite.Conn, r *row, keys string) error {
	n, err := db.Exec(deleteRun, r.num)
	if err != nil {
		return err
	}
	if n == 0 {
		return refuse("%w: %q", ErrNotEnded, string(r.Run))
	}
	if _, err = db.Exec(dropRefs, r.num); err != nil {
		return err
	}
	if err := dropOutcomes(db, keys); err != nil {
		return err
	}
	_, err = db.Exec(trimLog, logKey(r.num, 0), logKey(r.num, maxSeq))
	return err
}
