package rescue

import (
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/store"
)

// restoreOutbox copies the events that are not published yet.
//
// An event in the outbox was committed and is not told to others yet. Leaving it out would make
// a gap in what they see, which they could not notice; told twice it does no harm, since each
// has its sequence. They go over in small packs, each in its own commit: the whole outbox may
// not fit into memory.
func (r *repairer) restoreOutbox() error {
	if !r.HasIndex() {
		return nil
	}
	const atOnce = 64
	var rows []store.OutboxRow
	var kept error
	// keep stores the pack that is gathered. After an error it does nothing more, and the error
	// is returned at the end.
	keep := func() {
		if len(rows) > 0 && kept == nil {
			kept = r.to.KeepOutboxRows(rows)
		}
		rows = rows[:0]
	}
	// A row that is damaged costs its events only. Their run still has them in its journal,
	// which whoever takes events can read.
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
