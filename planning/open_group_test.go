package planning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A group that has fired waits for an open group in its straggler, which has no token: a patch of its join is refused as long as that
// goes on, by planners since version 5.
func TestPatchOfAJoinWhoseStragglerGathers(t *testing.T) {
	const source = `
name: w
start: s
nodes: [{id: s}, {id: a, task: t}, {id: b}, {id: c, task: t}, {id: d, task: t}, {id: next, task: t}]
transitions:
  - {from: s, to: a, siblingGroup: outer}
  - {from: s, to: b, siblingGroup: outer}
  - {id: aj, from: a, to: next, synchronization: {siblingGroup: outer, strategy: any, remaining: ignore}}
  - {id: bj, from: d, to: next, synchronization: {siblingGroup: outer, strategy: any, remaining: ignore}}
  - {from: b, to: c, siblingGroup: inner, foreach: {collection: "[]"}, open: true}
  - {from: c, to: d, synchronization: {siblingGroup: inner}}
`
	remove := []any{operation("remove", "/transitions/aj/synchronization"), operation("remove", "/transitions/bj/synchronization")}
	cancel := []any{operation("add", "/transitions/aj/synchronization/remaining", "cancel"), operation("add", "/transitions/bj/synchronization/remaining", "cancel")}
	p := newPlayer(t, compile(t, source))
	_, err := p.send(state.Start{})
	require.NoError(t, err)
	require.NoError(t, p.complete(2, nil))
	p.state.Rules = 4
	_, err = planning.Step(p.state, state.Patch{Base: 1, Ops: cancel}, p.now)
	require.NoError(t, err, "journals may have it")
	p.state.Rules = 0
	for _, ops := range [][]any{remove, cancel} {
		_, err = p.send(state.Patch{Base: 1, Ops: ops})
		require.ErrorContains(t, err, "outer")
	}
	_, err = p.send(state.CloseGroup{Group: "inner"})
	require.NoError(t, err)
	last := p.state.Token(p.state.NextToken - 1)
	require.Equal(t, workflow.NodeID("d"), last.Node, "the straggler goes on")
	require.NoError(t, p.complete(last.ID, nil))
	_, err = p.send(state.Patch{Base: 1, Ops: remove})
	require.NoError(t, err, "nothing is left of the group")
}

// The time of a join runs from the first arrival: it stops if that is cancelled, and begins again with the next.
func TestTimeOfAJoinWithoutArrivals(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: w
start: s
nodes: [{id: s}, {id: a, task: t}, {id: next, task: t}]
transitions:
  - {from: s, to: a, spawnCount: 3, siblingGroup: g}
  - {from: a, to: next, synchronization: {siblingGroup: g, timeout: 1h}}
`))
	_, err := p.send(state.Start{})
	require.NoError(t, err)
	require.NoError(t, p.complete(2, nil))
	require.Equal(t, dawn.Add(time.Hour), p.state.Group(1).Due)
	p.now = dawn.Add(30 * time.Minute)
	p.state.Rules = 4
	plan, err := planning.Step(p.state, state.CancelNodes{Nodes: []workflow.NodeID{"next"}}, p.now)
	require.NoError(t, err)
	require.Len(t, plan.Decisions, 2, "as journals have it")
	p.state.Rules = 0
	_, err = p.send(state.CancelNodes{Nodes: []workflow.NodeID{"next"}})
	require.NoError(t, err)
	require.Zero(t, p.state.Group(1).Due)
	require.NoError(t, p.complete(3, nil))
	require.Equal(t, p.now.Add(time.Hour), p.state.Group(1).Due)
}

// A run that is resumed and exceeds a limit in that fails, as it would without the suspension.
func TestResumeMeetsALimit(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: w
start: s
limits: {tokens: 5}
nodes: [{id: s, task: t}, {id: gate, lock: L}, {id: b, task: t}]
transitions:
  - {from: s, to: gate}
  - {from: gate, to: b, spawnCount: 10}
`))
	for _, m := range []state.Message{state.Start{}, state.Pause{}} {
		_, err := p.send(m)
		require.NoError(t, err)
	}
	require.NoError(t, p.complete(1, nil))
	for _, m := range []state.Message{state.Suspend{Cause: "a fault"}, state.Resume{}} {
		_, err := p.send(m)
		require.NoError(t, err)
	}
	require.Equal(t, workflow.RunFailed, p.state.Status)
	require.Equal(t, workflow.CodeLimit, p.state.Failure.Code)
}
