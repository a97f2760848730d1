package workflow

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
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
			var got []TransitionID
			for _, inner := range g.Loops {
				if g.Transitions[outer].Resets(g.Transitions[inner]) {
					got = append(got, inner)
				}
			}
			require.ElementsMatch(t, want, got)
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

// TestManyLoops: the loops of a chain that all lead back to its first node, or
// each around all before it, take memory that goes with loops and nodes, not
// with the square of the loops; beyond a bound they are refused.
func TestManyLoops(t *testing.T) {
	const n = 4000
	around := func(i int) (from, to int) { return i, 0 } // loop i contains all before
	g, err := Compile(loopChain(n, n, around))
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

	most := maxLoops / ((limits.MaxNodes + 63) / 64)
	d := loopChain(limits.MaxNodes, most+1, func(i int) (int, int) { return i % limits.MaxNodes, i % limits.MaxNodes })
	problems := d.Check()
	require.Equal(t, 1, len(problems)) //nolint:testifylint // not printed whole
	require.Equal(t, problem.TooLarge, problems[0].Code)
	d.Transitions = d.Transitions[:len(d.Transitions)-1]
	require.Empty(t, d.Check())
}

// loopChain is a chain of n nodes with some loops, given by their ends.
func loopChain(n, loops int, ends func(i int) (from, to int)) *Definition {
	id := func(i int) NodeID { return NodeID(fmt.Sprint("n", i)) }
	d := &Definition{Name: "x", Start: id(0)}
	for i := range n {
		d.Nodes = append(d.Nodes, Node{ID: id(i), Task: "t"})
		if i > 0 {
			d.Transitions = append(d.Transitions, Transition{From: id(i - 1), To: id(i)})
		}
	}
	for i := range loops {
		from, to := ends(i)
		d.Transitions = append(d.Transitions, Transition{ID: TransitionID(fmt.Sprint("loop", i)), From: id(from), To: id(to), Loop: &Loop{MaxIterations: 2}})
	}
	return d
}
