package workflow

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
)

// The loops of a definition are bounded, since the graph has a set of nodes for each.
func TestLoopsAreBounded(t *testing.T) {
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
		d.Nodes = append(d.Nodes, Node{ID: id(i), Task: "t", Unmatched: UnmatchedEnd})
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
