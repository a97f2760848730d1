package store

import (
	"context"
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/workflow"
)

// History returns the journal of a run as of one commit: the file's part, then
// the log's, from record 1 without a gap. Its checksums are verified on the
// way. An error ends it.
//
// It is what a run can be replayed from, and is read without its owner.
func (d *Dir) History(id workflow.RunID) decision.History {
	return d.HistoryUntil(context.Background(), id, 0)
}

// HistoryUntil is History without the records up to a sequence, which are read but not decoded, and until ctx is done, with whose error it
// ends then.
//
// The records before are read because the chain of checksums begins with the first one.
func (d *Dir) HistoryUntil(ctx context.Context, id workflow.RunID, after int64) decision.History {
	return func(yield func(decision.Record, error) bool) {
		snap, err := d.openSnapshot(ctx, id)
		if err != nil {
			yield(decision.Record{}, err)
			return
		}
		defer snap.Close()
		for e, err := range snap.Journal() {
			if err == nil && e.Seq <= after {
				continue
			}
			var r decision.Record
			if err == nil {
				if r, err = snap.DecodeEntry(&e); err != nil {
					err = snap.damageOf(snap.sourceOf(e.Seq), "a record cannot be read", err)
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Events returns what has happened in a run behind a sequence, as of one
// commit: the file's events, then those of the log's records. An error ends it.
//
// The events of flushed records are rows of the file; those of records in the log are derived
// again, by applying these.
func (d *Dir) Events(id workflow.RunID, after int64) iter.Seq2[decision.Event, error] {
	return d.EventsUntil(context.Background(), id, after)
}

// EventsUntil is Events until ctx is done, with whose error it ends then.
func (d *Dir) EventsUntil(ctx context.Context, id workflow.RunID, after int64) iter.Seq2[decision.Event, error] {
	return func(yield func(decision.Event, error) bool) {
		snap, err := d.openSnapshot(ctx, id)
		if err != nil {
			yield(decision.Event{}, err)
			return
		}
		defer snap.Close()
		flushed := runfile.ReadEvents(snap.Content, after)
		for e, err := range flushed {
			if err != nil {
				err = snap.damageOf(snap.File, "its events are damaged", err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		if len(snap.entries) > 0 {
			if _, err := d.GraphUntil(ctx, snap.Definition); err != nil { // which they are derived with
				yield(decision.Event{}, err)
				return
			}
		}
		later, err := snap.laterEvents()
		if err != nil {
			yield(decision.Event{}, err)
			return
		}
		for _, e := range later {
			if e.Seq > after && !yield(e, nil) {
				return
			}
		}
	}
}

// laterEvents derives the events of the log's records.
func (s *Snapshot) laterEvents() (out []decision.Event, err error) {
	if len(s.entries) == 0 {
		return nil, nil
	}
	_, err = s.Replay(func(es []decision.Event) { out = append(out, es...) })
	return out, err
}
