package compiled

import (
	"cmp"
	"slices"

	"github.com/pawl-run/pawl/internal/edges"
	"github.com/pawl-run/pawl/workflow"
)

// addTransitions makes the graph's transitions, in the order of the definition, which is the order in which matches
// of a tier are followed.
func (b *builder) addTransitions() {
	d := b.graph.Definition
	for i := range d.Transitions {
		t := &d.Transitions[i]
		gt := &Transition{Transition: t, Condition: b.compileProgram(t.Condition)}
		if t.Foreach != nil {
			gt.Collection = b.compileProgram(t.Foreach.Collection)
		}
		if s := t.Synchronization; s != nil && s.Merge != nil {
			gt.Source = b.compileProgram(s.Merge.Source)
		}
		if t.Loop != nil {
			b.graph.Loops = append(b.graph.Loops, t.ID)
		}
		b.connectNodes(gt)
	}
}

// addNeeds makes the transitions of a dag that nodes' needs are short for. They follow those of the definition, in
// the order of the nodes; their ids are FROM->TO, numbered as ids by default are. A needs on a node says that it
// comes after those nodes, whatever they bring: the transitions have no condition and follow a success.
func (b *builder) addNeeds() {
	d := b.graph.Definition
	all := slices.Clone(d.Transitions)
	for i := range d.Nodes {
		// The zero transition between two nodes is followed on success, without a condition.
		for _, from := range d.Nodes[i].Needs {
			all = append(all, workflow.Transition{From: from, To: d.Nodes[i].ID})
		}
	}
	if len(all) == len(d.Transitions) {
		return
	}
	// The ids of the definition's own transitions are complete, and stay.
	edges.NameEdges(len(all), func(i int) (id *workflow.TransitionID, from, to workflow.NodeID) {
		return &all[i].ID, all[i].From, all[i].To
	})
	// They are in a slice of their own, to which the graph keeps pointers.
	for i := range all[len(d.Transitions):] {
		b.connectNodes(&Transition{Transition: &all[len(d.Transitions)+i]})
	}
}

// connectNodes adds a transition to the nodes that it joins. Both lists are in definition order, since transitions
// are added in it.
func (b *builder) connectNodes(t *Transition) {
	b.graph.Transitions[t.ID] = t
	to, from := b.graph.Nodes[t.To], b.graph.Nodes[t.From]
	from.Outgoing = append(from.Outgoing, t)
	to.Incoming = append(to.Incoming, t)
}

// groupByTier sorts what leaves each node by when it is tried. A transition with outcome always is tried with both
// ends.
func (b *builder) groupByTier() {
	// Each node by itself: the order of the map makes no difference.
	for _, n := range b.graph.Nodes {
		var success, failure []*Transition
		for _, t := range n.Outgoing {
			if t.Outcome != workflow.OnError {
				// The zero outcome is success.
				success = append(success, t)
			}
			if t.Outcome == workflow.OnError || t.Outcome == workflow.OnAlways {
				failure = append(failure, t)
			}
		}
		n.Success, n.Failure = byTier(success), byTier(failure)
	}
}

// byTier groups transitions by priority, lowest first, in definition order. The sort is stable, so that within a tier
// the definition's order stays.
func byTier(ts []*Transition) [][]*Transition {
	slices.SortStableFunc(ts, func(a, b *Transition) int { return cmp.Compare(a.Priority, b.Priority) })
	var out [][]*Transition
	for i, t := range ts {
		if i == 0 || t.Priority != ts[i-1].Priority {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], t)
	}
	return out
}
