package pawl_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// An effects performs tasks, and notes which, by run. In run r a task fails after a minute, when all others are done.
type effects struct {
	mu    sync.Mutex
	done  map[workflow.RunID][]workflow.NodeID
	fails func(pawl.Task) bool
}

func (x *effects) Execute(ctx context.Context, task pawl.Task) (any, error) {
	x.mu.Lock()
	x.done[task.Run] = append(x.done[task.Run], task.Node)
	x.mu.Unlock()
	fails, pause := task.Run == "r" && x.fails(task), time.Second
	if fails {
		pause = time.Minute
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(pause):
	}
	if fails {
		return nil, &workflow.Failure{Code: "down", Permanent: true}
	}
	return map[string]any{"of": string(task.Node)}, nil
}

// of returns the nodes whose tasks were performed for a run, sorted.
func (x *effects) of(run workflow.RunID) []workflow.NodeID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(slices.Values(x.done[run]))
}

// A rerunCase is a run that fails at a node, and what is performed when that node is rerun.
type rerunCase struct {
	name, text string
	node       workflow.NodeID
	index      int  // of its branch
	skip       bool // the node is parked, and skipped
	again      []workflow.NodeID
	sent       []workflow.NodeID // named as sent again, without which the rerun is refused
	forked     []workflow.NodeID // sent again by a fork as of the same record
	merged     any
}

// A rerun performs a node again and what follows from it. Tokens that have completed beside it, such as those of
// the other branches of a fan-out, keep their results.
func TestRerunKeepsWhatDoesNotFollow(t *testing.T) {
	for _, c := range []rerunCase{
		{
			name: "a fan-out", node: "pay", index: 2, again: []workflow.NodeID{"done", "pay"}, forked: []workflow.NodeID{"stock", "ship", "pay"},
			text: `
name: order
start: fan
nodes: [{id: fan}, {id: stock, task: t}, {id: ship, task: t}, {id: pay, task: t}, {id: done, task: t, output: {output.all: state.all}}]
transitions:
  - {from: fan, to: stock, siblingGroup: g}
  - {from: fan, to: ship, siblingGroup: g}
  - {from: fan, to: pay, siblingGroup: g}
  - {from: stock, to: done, synchronization: {siblingGroup: g, merge: {source: result.of, target: state.all, strategy: collect}}}
  - {from: ship, to: done, synchronization: {siblingGroup: g, merge: {source: result.of, target: state.all, strategy: collect}}}
  - {from: pay, to: done, synchronization: {siblingGroup: g, merge: {source: result.of, target: state.all, strategy: collect}}}
`, merged: []any{"stock", "ship", "pay"},
		},
		{
			name: "branches of several nodes, nested groups", node: "pay", index: 1, again: []workflow.NodeID{"done", "pay"},
			text: `
name: order
start: fan
nodes: [{id: fan}, {id: pick, task: t}, {id: gate}, {id: pack, task: t}, {id: label, task: t}, {id: pay, task: t}, {id: done, task: t}]
transitions:
  - {from: fan, to: pick, siblingGroup: g}
  - {from: fan, to: pay, siblingGroup: g}
  - {from: pick, to: gate}
  - {from: gate, to: pack, spawnCount: 2, siblingGroup: inner}
  - {from: pack, to: label, synchronization: {siblingGroup: inner}}
  - {from: label, to: done, synchronization: {siblingGroup: g}}
  - {from: pay, to: done, synchronization: {siblingGroup: g}}
`,
		},
		{
			name: "a dag", node: "pay", again: []workflow.NodeID{"done", "pay"},
			text: `
name: order
mode: dag
nodes: [{id: stock, task: t}, {id: ship, task: t, needs: [stock]}, {id: pay, task: t}, {id: done, task: t, needs: [ship, pay]}]
`,
		},
		{
			name: "a loop", node: "pay", again: []workflow.NodeID{"pay"},
			text: `
name: order
start: s
nodes: [{id: s}, {id: turn, task: t}, {id: pay, task: t}]
transitions:
  - {from: s, to: turn}
  - {from: s, to: pay}
  - {from: turn, to: turn, loop: {maxIterations: 3}}
`,
		},
		{
			name: "a foreach, of which one branch fails", node: "load", index: 1, again: []workflow.NodeID{"done", "load"},
			text: `
name: order
start: fan
nodes: [{id: fan}, {id: load, task: t}, {id: done, task: t, output: {output.all: state.all}}]
transitions:
  - {from: fan, to: load, foreach: {collection: "[1, 2, 3]"}, siblingGroup: g}
  - {from: load, to: done, synchronization: {siblingGroup: g, merge: {source: result.of, target: state.all, strategy: collect}}}
`, merged: []any{"load", "load", "load"},
		},
		{
			name: "what is held back until the node is done", node: "load", skip: true, again: []workflow.NodeID{"done", "load", "load"}, sent: []workflow.NodeID{"load"},
			text: `
name: order
start: fan
nodes: [{id: fan}, {id: load, task: t, retry: {maxAttempts: 1, exhausted: park}}, {id: done, task: t}]
transitions:
  - {from: fan, to: load, spawnCount: 2, siblingGroup: g, maxConcurrency: 1}
  - {from: load, to: done, synchronization: {siblingGroup: g}}
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkRerun(t, &c) })
		})
	}
}

// checkRerun has a run fail, or park, at a node, and performs it again from there on.
func checkRerun(t *testing.T, c *rerunCase) {
	x := &effects{done: map[workflow.RunID][]workflow.NodeID{}, fails: func(task pawl.Task) bool {
		return task.Node == c.node && task.Branch.Index == c.index
	}}
	e := open(t, replays.Dir(t), pawl.Options{Executor: x})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, c.text)}, nil))
	<-time.After(time.Hour) // virtual
	target := pawl.Target{Run: "r", Node: c.node}
	for token, err := range e.Tokens(t.Context(), "r", pawl.TokenFilter{Node: c.node}) {
		require.NoError(t, err)
		if token.Failure != nil {
			target.Token = token.ID
		}
	}
	require.NotZero(t, target.Token)
	if c.skip {
		require.NoError(t, e.Skip(t.Context(), target, map[string]any{}))
		<-time.After(time.Hour) // virtual
	}
	o := pawl.ForkOptions{}
	if c.sent != nil {
		var again *pawl.AgainError
		require.ErrorAs(t, e.Rerun(t.Context(), target, "r2", o), &again)
		require.Equal(t, c.sent, again.Nodes)
		require.ErrorIs(t, again, pawl.ErrAgain)
		_, err := e.SimulateRerun(t.Context(), target, "r2", o)
		require.ErrorIs(t, err, pawl.ErrAgain)
		_, err = e.Summary(t.Context(), "r2")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		o.Again = true
	}
	sim, err := e.SimulateRerun(t.Context(), target, "r2", o)
	require.NoError(t, err)
	require.Equal(t, c.sent, sim.SentAgain())
	require.NoError(t, e.Rerun(t.Context(), target, "r2", o))
	require.NoError(t, e.Rerun(t.Context(), target, "r2", o), "the same again")
	sent, err := e.SentAgain(t.Context(), "r2")
	require.NoError(t, err)
	require.Equal(t, c.sent, sent)
	out, err := e.Wait(t.Context(), "r2")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status, "%+v", out.Failure)
	require.Equal(t, c.again, x.of("r2"))
	if c.merged != nil {
		require.Equal(t, c.merged, out.Output["all"])
	}
	// A fork as of the same record does all again, and says so.
	if c.forked != nil {
		summary, err := e.Summary(t.Context(), "r2")
		require.NoError(t, err)
		require.NoError(t, e.Fork(t.Context(), "r", "f", pawl.ForkOptions{At: summary.ForkedFrom.Record}))
		sent, err = e.SentAgain(t.Context(), "f")
		require.NoError(t, err)
		require.Equal(t, c.forked, sent)
	}
	require.NoError(t, e.Close(context.Background()))
}
