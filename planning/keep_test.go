package planning_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A rerun that an older engine has recorded is planned again by its rules. Up to version 4 the token behind a group's join
// was named by the origin of the group, and what no token of the fork stood for was not noted.
func TestRerunsOfOlderVersions(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: fan}, {id: work, task: t}, {id: next, task: t}]
transitions:
  - {from: s, to: pay}
  - {from: s, to: fan}
  - {from: fan, to: work, siblingGroup: g}
  - {from: work, to: next, synchronization: {siblingGroup: g}}
`))
	_, err := p.send(state.Start{As: "r"})
	require.NoError(t, err)
	const pay, origin, work, next, added workflow.TokenID = 2, 3, 4, 5, 6
	require.Equal(t, workflow.NodeID("work"), p.state.Token(work).Node)
	for _, test := range []struct {
		rules  int
		behind workflow.TokenID
		kept   bool
		unkept []workflow.NodeID
	}{
		{rules: 4, behind: origin, kept: true},
		{rules: 4, behind: work},
		{rules: planning.Version, behind: work, kept: true, unkept: []workflow.NodeID{"work"}},
		{rules: planning.Version, behind: origin, unkept: []workflow.NodeID{"next", "work"}},
	} {
		p.state.Rules = test.rules
		plan, err := planning.Step(p.state, state.RunForked{
			Run: "f", From: workflow.ForkPoint{Run: "r", Record: 1}, Token: pay,
			Kept: []state.KeptEnd{{Token: work}, {Token: next}, {Token: added}},
			Made: []state.KeptToken{{Token: next, Parent: test.behind, Node: "next"}, {Token: added, Parent: origin, Node: "work"}},
		}, p.now)
		require.NoError(t, err)
		require.Equal(t, test.unkept, plan.Unkept, "%+v", test)
		require.Equal(t, test.kept, strings.Contains(text(plan), "complete-token t5\n"), "%+v:\n%s", test, text(plan))
	}
}

// TestRerunKeepsALongLineage: a rerun that keeps 20,000 iterations of a loop does not go back to its beginning for each.
func TestRerunKeepsALongLineage(t *testing.T) {
	const n = 20_000
	p := newPlayer(t, compile(t, `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: work, task: t}]
transitions:
  - {from: s, to: pay}
  - {from: s, to: work}
  - {from: work, to: work, loop: {maxIterations: 1000000}}
`))
	p.quick = true
	_, err := p.send(state.Start{As: "r"})
	require.NoError(t, err)
	const pay, first workflow.TokenID = 2, 3
	require.Equal(t, workflow.NodeID("work"), p.state.Token(first).Node)
	m := state.RunForked{Run: "f", From: workflow.ForkPoint{Run: "r", Record: 1}, Token: pay}
	for id := first; id < first+n; id++ {
		m.Kept = append(m.Kept, state.KeptEnd{Token: id})
		m.Made = append(m.Made, state.KeptToken{Token: id + 1, Parent: id, Node: "work"})
	}
	turns := harness.CountTurns(func() { _, err = p.send(m) })
	require.NoError(t, err)
	require.Equal(t, first+n, p.state.NextToken-1, "all are kept")
	require.Less(t, turns, int64(n))
}
