package store

import (
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/workflow"
)

// History returns the journal of a run as of one commit: the file's part, then
// the log's, from record 1 without a gap. Its checksums are verified on the
// way. An error ends it.
func (d *Dir) History(id workflow.RunID) decision.History {
	return func(yield func(decision.Record, error) bool) {
		snap, err := d.openSnapshot(id)
		if err != nil {
			yield(decision.Record{}, err)
			return
		}
		defer snap.closeFile()
		for e, err := range snap.journalEntries(d) {
			var r decision.Record
			if err == nil {
				if r, err = e.Decode(runfile.ValuesOf(snap.file, &e)); err != nil {
					err = &CorruptError{Run: id, File: d.pathOf(snap.sourceOf(&e)), What: "a record cannot be read", Err: err}
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// journalEntries yields all records of a run, checked.
func (s *snapshot) journalEntries(d *Dir) iter.Seq2[runfile.Entry, error] {
	return func(yield func(runfile.Entry, error) bool) {
		last := int64(0)
		for e, err := range runfile.CheckedJournal(s.file, s.Run) {
			if err != nil {
				yield(runfile.Entry{}, &CorruptError{Run: s.Run, File: d.pathOf(s.File), What: "its journal is damaged", Err: err})
				return
			}
			if !yield(e, nil) {
				return
			}
			last = e.Seq
		}
		if last != s.Flushed {
			yield(runfile.Entry{}, &CorruptError{Run: s.Run, File: d.pathOf(s.File), What: "its journal ends too early"})
			return
		}
		for i := range s.entries { // checked by readIndex
			if !yield(s.entries[i], nil) {
				return
			}
		}
	}
}

// sourceOf returns the file that a record is in.
func (s *snapshot) sourceOf(e *runfile.Entry) string {
	if e.Seq <= s.Flushed {
		return s.File
	}
	return indexFile
}

// Events returns what has happened in a run behind a sequence, as of one
// commit: the file's events, then those of the log's records. An error ends it.
func (d *Dir) Events(id workflow.RunID, after int64) iter.Seq2[decision.Event, error] {
	return func(yield func(decision.Event, error) bool) {
		snap, err := d.openSnapshot(id)
		if err != nil {
			yield(decision.Event{}, err)
			return
		}
		defer snap.closeFile()
		flushed := runfile.ReadEvents(snap.file, after)
		for e, err := range flushed {
			if err != nil {
				err = &CorruptError{Run: id, File: d.pathOf(snap.File), What: "its events are damaged", Err: err}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		later, err := d.laterEvents(snap)
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
func (d *Dir) laterEvents(s *snapshot) (out []decision.Event, err error) {
	if len(s.entries) == 0 {
		return nil, nil
	}
	_, err = d.replayState(s, func(es []decision.Event) { out = append(out, es...) })
	return out, err
}
