package workflow

// loops finds, for every transition with a loop, the loops that it resets:
// those whose natural loop is strictly contained in its own. The natural loop
// of a back edge is its target and the nodes that reach its source without
// passing the target (Aho, Lam, Sethi and Ullman, Compilers, 9.6.6).
func (b *builder) loops() {
	g := b.graph
	bodies := map[TransitionID]map[NodeID]bool{}
	incoming := map[NodeID][]NodeID{}
	if len(g.Loops) < 2 {
		return
	}
	for _, t := range g.Definition.Transitions {
		incoming[t.To] = append(incoming[t.To], t.From)
	}
	for _, id := range g.Loops {
		t := g.Transitions[id]
		bodies[id] = naturalLoop(t.From, t.To, incoming)
	}
	for _, outer := range g.Loops {
		for _, inner := range g.Loops {
			if strictlyContains(bodies[outer], bodies[inner]) {
				t := g.Transitions[outer]
				t.Resets = append(t.Resets, inner)
			}
		}
	}
}

func naturalLoop(source, target NodeID, incoming map[NodeID][]NodeID) map[NodeID]bool {
	body := map[NodeID]bool{target: true}
	work := []NodeID{source}
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if body[n] {
			continue
		}
		body[n] = true
		work = append(work, incoming[n]...)
	}
	return body
}

func strictlyContains(outer, inner map[NodeID]bool) bool {
	if len(inner) >= len(outer) {
		return false
	}
	for n := range inner {
		if !outer[n] {
			return false
		}
	}
	return true
}
