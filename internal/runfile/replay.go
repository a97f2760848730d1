package runfile

import (
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Definitions remembers compiled definitions. Runs of one definition share its graph. AddDefinition returns the one
// to share, which another goroutine may have added first. A directory of package store is one.
type Definitions interface {
	Known(hash string) *compiled.Graph // nil if it is not remembered
	AddDefinition(*compiled.Graph) *compiled.Graph
}

// RestoreState returns the state that a file holds, an empty one if the file is nil. The run began with the
// definition g. An error says why the rows in the file are not a state. Counters, lines and indexes follow from the
// rows, so that the file cannot contradict them. But rows may contradict each other, and then state.Restore panics: a
// file that somebody has damaged must not end the host.
func RestoreState(c Source, id workflow.RunID, g *compiled.Graph, known Definitions) (s *state.State, err error) {
	if c == nil {
		return state.NewState(id, g), nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	rows, err := ReadRows(c)
	if err != nil {
		return nil, err
	}
	// The run was patched: its rows are of its latest definition. The hash is in the facts, so that a revision of
	// another run does not pass.
	if hash := rows.Facts.Definition; hash != "" {
		if g, err = patchedGraph(c, hash, rows.Facts.Patches+1, known); err != nil {
			return nil, err
		}
	}
	return state.Restore(g, rows), nil
}

// patchedGraph returns the compiled definition that the last patch made. It is compiled only if no other run has it
// already.
func patchedGraph(c Source, hash string, revision int, known Definitions) (*compiled.Graph, error) {
	if g := known.Known(hash); g != nil {
		return g, nil
	}
	doc, err := ReadRevision(c, revision)
	if err != nil {
		return nil, err
	}
	g, err := CompileDefinition(doc, hash)
	if err != nil {
		return nil, fmt.Errorf("revision %d of the definition: %w", revision, err)
	}
	return known.AddDefinition(g), nil
}

// ApplyEntries applies the records behind a file to s, the state in the file, and reports their events. It fails if
// one of them cannot be decoded, or does not fit the state. This is how a run is loaded: the file may be behind what
// is committed, never ahead of it. Decisions are applied as they were recorded, and not planned anew: another version
// of the planner would perhaps decide otherwise, and what was decided has been acted upon.
func ApplyEntries(s *state.State, entries []*Entry, decode func(*Entry) (decision.Record, error), happened func([]decision.Event)) error {
	for _, e := range entries {
		r, err := decode(e)
		if err == nil {
			err = ApplyRecord(s, &r, happened)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ApplyRecord applies a record to s and reports its events. A record that no planner would make is an error. The
// events of records that are not in a file yet are not stored for it: they are derived from the decisions each time,
// with the same numbers.
func ApplyRecord(s *state.State, r *decision.Record, happened func([]decision.Event)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("record %d: %v", r.Seq, p)
		}
	}()
	// Each decision is applied to the state that the ones before it have left, as the actor did it when the record
	// was made.
	for _, dec := range r.Decisions {
		happened(decision.Apply(s, dec, r))
	}
	return nil
}

// ValuesOf finds the large values of a record: it brings those of its own, or they are in the file. A record in the
// log brings its values, since the file may not have them yet. One from the journal of a file has none of its own.
func ValuesOf(c Source, e *Entry) codec.Lookup {
	if e.Values != nil {
		return e.Values.Lookup
	}
	return func(hash string) (any, error) { return ReadValue(c, hash) }
}

// CheckedJournal yields the records in a file, as far as each follows the one before. A nil file has none. The record
// that does not follow is yielded with an error, and is the last one.
func CheckedJournal(c Source, id workflow.RunID) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		seq, sum := int64(0), FirstSum(id)
		for e, err := range ReadJournal(c) {
			if err == nil {
				err = e.CheckFollows(seq, sum)
			}
			if !yield(e, err) || err != nil {
				return
			}
			seq, sum = e.Seq, e.Sum
		}
	}
}
