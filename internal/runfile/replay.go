package runfile

import (
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Definitions remembers compiled definitions.
type Definitions interface {
	Known(hash string) *workflow.Graph // nil if it is not remembered
	AddDefinition(*workflow.Graph) *workflow.Graph
}

// RestoreState returns the state that a file holds, an empty one if the file is nil. The run
// began with the definition g. An error says why the rows in the file are not a state.
func RestoreState(c Source, id workflow.RunID, g *workflow.Graph, known Definitions) (s *state.State, err error) {
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
	if hash := rows.Facts.Definition; hash != "" {
		if g, err = patchedGraph(c, hash, rows.Facts.Patches+1, known); err != nil {
			return nil, err
		}
	}
	return state.Restore(g, rows), nil
}

// patchedGraph returns the compiled definition that the last patch made.
func patchedGraph(c Source, hash string, revision int, known Definitions) (*workflow.Graph, error) {
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

// ApplyEntries applies the records behind a file to s, the state in the file, and reports
// their events. It fails if one of them cannot be decoded, or does not fit the state.
func ApplyEntries(s *state.State, entries []Entry, decode func(*Entry) (decision.Record, error), happened func([]decision.Event)) error {
	for i := range entries {
		r, err := decode(&entries[i])
		if err == nil {
			err = ApplyRecord(s, &r, happened)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ApplyRecord applies a record to s and reports its events. A record that no planner
// would make is an error.
func ApplyRecord(s *state.State, r *decision.Record, happened func([]decision.Event)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("record %d: %v", r.Seq, p)
		}
	}()
	for _, dec := range r.Decisions {
		happened(decision.Apply(s, dec, r))
	}
	return nil
}

// ValuesOf finds the large values of a record: it brings those of its own, or
// they are in the file.
func ValuesOf(c Source, e *Entry) codec.Lookup {
	if e.Values != nil {
		return e.Values.Lookup
	}
	return func(hash string) (any, error) { return ReadValue(c, hash) }
}

// CheckedJournal yields the records in a file, as far as each follows the one before. A nil
// file has none.
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
