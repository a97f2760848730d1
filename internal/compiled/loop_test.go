package compiled

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/workflow"
)

// TestResets compares the loops that a loop resets with the definition of a
// natural loop, on any graph.
func TestResets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "nodes")
		id := func(i int) workflow.NodeID { return workflow.NodeID(fmt.Sprint(i)) }
		d := &workflow.Definition{Name: "x", Start: id(0)}
		for i := range n {
			d.Nodes = append(d.Nodes, workflow.Node{ID: id(i), Task: "t"})
			if i > 0 { // reachable
				d.Transitions = append(d.Transitions, workflow.Transition{From: id(rapid.IntRange(0, i-1).Draw(t, "parent")), To: id(i)})
			}
		}
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			e := workflow.Transition{From: id(rapid.IntRange(0, n-1).Draw(t, "from")), To: id(rapid.IntRange(0, n-1).Draw(t, "to"))}
			if rapid.Bool().Draw(t, "loop") {
				e.Loop = &workflow.Loop{MaxIterations: 2}
			}
			d.Transitions = append(d.Transitions, e)
		}
		g, err := Compile(workflow.Bounds{}, d)
		require.NoError(t, err)
		for _, outer := range g.Loops {
			var want []workflow.TransitionID
			for _, inner := range g.Loops {
				a, b := modelLoop(g, outer), modelLoop(g, inner)
				if len(b) < len(a) && subset(b, a) {
					want = append(want, inner)
				}
			}
			var got []workflow.TransitionID
			for _, inner := range g.Loops {
				if g.Transitions[outer].Resets(g.Transitions[inner]) {
					got = append(got, inner)
				}
			}
			require.ElementsMatch(t, want, got)
		}
	})
}

func subset(a, b map[workflow.NodeID]bool) bool {
	for n := range a {
		if !b[n] {
			return false
		}
	}
	return true
}

func modelLoop(g *Graph, id workflow.TransitionID) map[workflow.NodeID]bool {
	t := g.Transitions[id]
	nodes := map[workflow.NodeID]bool{t.To: true, t.From: true}
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

// TestManyLoops: the loops of a chain that all lead back to its first node, or
// each around all before it, take memory that goes with loops and nodes, not
// with the square of the loops; beyond a bound they are refused.
func TestManyLoops(t *testing.T) {
	const n = 4000
	around := func(i int) (from, to int) { return i, 0 } // loop i contains all before
	g, err := Compile(workflow.Bounds{}, loopChain(n, n, around))
	require.NoError(t, err)
	words := 0
	for _, id := range g.Loops {
		words += len(g.Transitions[id].body.set)
	}
	require.LessOrEqual(t, words, n*(n+63)/64)
	outer, inner := g.Transitions[g.Loops[n-1]], g.Transitions[g.Loops[7]]
	require.True(t, outer.Resets(inner))
	require.False(t, inner.Resets(outer))
	require.False(t, inner.Resets(inner))
}

// loopChain is a chain of n nodes with some loops, given by their ends.
func loopChain(n, loops int, ends func(i int) (from, to int)) *workflow.Definition {
	id := func(i int) workflow.NodeID { return workflow.NodeID(fmt.Sprint("n", i)) }
	d := &workflow.Definition{Name: "x", Start: id(0)}
	for i := range n {
		d.Nodes = append(d.Nodes, workflow.Node{ID: id(i), Task: "t"})
		if i > 0 {
			d.Transitions = append(d.Transitions, workflow.Transition{From: id(i - 1), To: id(i)})
		}
	}
	for i := range loops {
		from, to := ends(i)
		d.Transitions = append(d.Transitions, workflow.Transition{ID: workflow.TransitionID(fmt.Sprint("loop", i)), From: id(from), To: id(to), Loop: &workflow.Loop{MaxIterations: 2}})
	}
	return d
}
