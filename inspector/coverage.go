package inspector

import (
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// The bounds of counting which transitions runs took: their journals are planned anew for it.
const (
	countedRecords = 2_000  // of one run; those with more are left out
	countedOfAll   = 10_000 // of all runs of a page that are not counted yet
	keptTaken      = 1_000  // runs whose transitions are remembered
)

// A takenKey is a run up to a record, and a definition by its hash.
//
// Two runs of one definition have the same hash, whatever its version is called. The record is part of it, since a run takes more as it
// goes on.
type takenKey struct {
	life runLife
	seq  int64
	hash string
}

// A takenSet has the transitions of a definition that a run took; nil of one that never had that definition.
// A nil set is kept as well: that a run does not count is worth remembering.
type takenSet map[workflow.TransitionID]bool

// countTaken counts how many of the last runs took each transition of the definition that is shown, of those that have the same
// definition and a journal that is not too long.
//
// It sets Counted and Never of the body, and Taken of sum, by which the edges are labelled. If no run counts, sum says nothing of
// transitions, which is not the same as that none was taken.
func (b *definitionsBody) countTaken(p *page, g *compiled.Graph, sum *diagram.Run, runs []gridRun) error {
	left := int64(countedOfAll)
	sum.Taken = map[workflow.TransitionID]int{}
	for i := range runs {
		ov := &runs[i]
		// Only what is not remembered costs anything of the bound of a page. Runs beyond it are counted when the page is loaded again.
		key := takenKey{runLife{ov.Run, ov.began.UnixMilli()}, ov.Seq, g.Hash}
		one, ok := p.s.taken.find(key)
		// It would take too long: the run does not count, and Counted says how many do.
		if !ok && (ov.Seq > countedRecords || ov.Seq > left) {
			continue
		}
		if !ok {
			left -= ov.Seq
			var err error
			if one, err = p.takenBy(ov.Run, g.Hash); err != nil {
				if err := p.r.Context().Err(); err != nil {
					return err
				}
				continue // it was purged meanwhile, or is damaged: its own page says so
			}
			p.s.taken.keepValue(key, one)
		}
		if one == nil {
			continue
		}
		b.Counted++
		for id := range one {
			sum.Taken[id]++
		}
	}
	if b.Counted == 0 {
		sum.Taken = nil
		return nil
	}
	sum.Counted = b.Counted
	// Never is in the order of the definition.
	for i := range g.Definition.Transitions {
		if id := g.Definition.Transitions[i].ID; sum.Taken[id] == 0 {
			b.Never = append(b.Never, id)
		}
	}
	return nil
}

// takenBy returns which transitions of a definition a run took.
//
// A run that was patched has had several definitions: only the transitions count that it took while it had this one.
func (p *page) takenBy(id workflow.RunID, hash string) (takenSet, error) {
	if p.redacted {
		return nil, nil //nolint:nilnil // what stands for its values would take others
	}
	rec, err := p.recording(p.r.Context(), id)
	if err != nil {
		return nil, err
	}
	var c replay.Coverage
	if err := c.Add(rec); err != nil {
		return nil, err
	}
	for _, d := range c.Definitions() {
		if d.Hash != hash {
			continue
		}
		out := takenSet{}
		for _, t := range d.Transitions {
			if t.Taken > 0 {
				out[t.Transition] = true
			}
		}
		return out, nil
	}
	return nil, nil //nolint:nilnil // it never had that definition
}
