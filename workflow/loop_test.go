package workflow

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestResets compares the loops that a loop resets with the definition of a
// natural loop, on any graph.
func TestResets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "nodes")
		id := func(i int) NodeID { return NodeID(fmt.Sprint(i)) }
		d := &Definition{Name: "x", Start: id(0)}
		for i := range n {
			d.Nodes = append(d.Nodes, Node{ID: id(i), Task: "t"})
			if i > 0 { // reachable
				d.Transitions = append(d.Transitions, Transition{From: id(rapid.IntRange(0, i-1).Draw(t, "parent")), To: id(i)})
			}
		}
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			e := Transition{From: id(rapid.IntRange(0, n-1).Draw(t, "from")), To: id(rapid.IntRange(0, n-1).Draw(t, "to"))}
			if rapid.Bool().Draw(t, "loop") {
				e.Loop = &Loop{MaxIterations: 2}
			}
			d.Transitions = append(d.Transitions, e)
		}
		g, err := Compile(d)
		require.NoError(t, err)
		for _, outer := range g.Loops {
			var want []TransitionID
			for _, inner := range g.Loops {
				a, b := modelLoop(g, outer), modelLoop(g, inner)
				if len(b) < len(a) && subset(b, a) {
					want = append(want, inner)
				}
			}
			require.ElementsMatch(t, want, g.Transitions[outer].Resets)
		}
	})
}

func subset(a, b map[NodeID]bool) bool {
	for n := range a {
		if !b[n] {
			return false
		}
	}
	return true
}

func modelLoop(g *Graph, id TransitionID) map[NodeID]bool {
	t := g.Transitions[id]
	nodes := map[NodeID]bool{t.To: true, t.From: true}
	for grown := true; grown; {
		grown = false
		for i := range g.Definition.Transitions {
			e := &g.Definition.Transitions[i]
			if nodes[e.To] && e.To != t.To && !nodes[e.From] {
				nodes[e.From], grown = true, true
			}
		}
	}
	return nodes
}
