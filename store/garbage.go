package store

import "sync"

// The garbage is everything in pawl.db that is still to be dropped.
//
// It is a list in memory of work that may be done at any time or never: the next Open finds the
// same in the tables. The zero value is empty. A caller that takes an entry and cannot drop it
// adds it again.
type garbage struct {
	mu     sync.Mutex
	spills []int64 // numbers of spills that no record names
	spans  []span  // of dead records
}

// addSpills remembers spills that nothing names any more, or never did.
func (g *garbage) addSpills(spills ...int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spills = append(g.spills, spills...)
}

// takeSpill gives one spill to the caller, who drops it.
func (g *garbage) takeSpill() (spill int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.spills) - 1
	if n < 0 {
		return 0, false
	}
	spill, g.spills = g.spills[n], g.spills[:n]
	return spill, true
}

// addSpans remembers dead records.
func (g *garbage) addSpans(spans []span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spans = append(g.spans, spans...)
}

// takeSpans gives all spans to the caller, in the order in which they were added.
func (g *garbage) takeSpans() (spans []span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	spans, g.spans = g.spans, nil
	return spans
}

// A span is the records of a run from one sequence to another that are in its file and
// still in the log: dead records.
type span struct{ num, first, last int64 }
