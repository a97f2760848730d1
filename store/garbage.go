package store

import "sync"

// The garbage is everything in pawl.db that is still to be dropped.
type garbage struct {
	mu     sync.Mutex
	spills []int64 // numbers of spills that no record names
	spans  []span  // of dead records
}

func (g *garbage) addSpills(spills ...int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spills = append(g.spills, spills...)
}

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

func (g *garbage) addSpans(spans []span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spans = append(g.spans, spans...)
}

func (g *garbage) takeSpans() (spans []span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	spans, g.spans = g.spans, nil
	return spans
}

// A span is the records of a run from one sequence to another that are in its file and
// still in the log: dead records.
type span struct{ num, first, last int64 }
