package rescue

import (
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/store"
)

// restoreOutbox copies the events that are not published yet.
func (r *repairer) restoreOutbox() error {
	if !r.HasIndex() {
		return nil
	}
	const atOnce = 64
	var rows []store.OutboxRow
	var kept error
	keep := func() {
		if len(rows) > 0 && kept == nil {
			kept = r.to.KeepOutboxRows(rows)
		}
		rows = rows[:0]
	}
	err := r.EachOutboxRow(func(row *store.OutboxRow) {
		if row.Err != nil {
			r.addDamage(row.Run, index.File, row.Err, "tell whoever takes the events of this run to read them again")
		} else if rows = append(rows, *row); len(rows) == atOnce {
			keep()
		}
	})
	if err != nil {
		r.addDamage("", index.File, err, "events that were not published are lost: tell whoever takes them")
	}
	keep()
	return kept
}
