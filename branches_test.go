package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

const looked = `
name: looked
start: split
signals: [later]
nodes:
  - {id: split, output: {output.begun: "true"}}
  - {id: work, task: work, output: {state.mine: result.n, output.of: item}}
  - {id: more, task: wait}
  - {id: sum}
transitions:
  - {from: split, to: work, foreach: {collection: input.items}, siblingGroup: items}
  - {from: work, to: more}
  - {from: more, to: sum, synchronization: {siblingGroup: items}}
`

// A run that goes on shows its input, what of its output there is, what its branches hold, and
// which signals and artifacts wait.
func TestALiveRunShowsWhatItHolds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, dir, pawl.Options{Executor: pawl.Handlers{
			"wait": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
			"work": func(ctx context.Context, task pawl.Task) (any, error) {
				if task.Input == nil || task.Branch.Index == 2 {
					return nil, errors.New("no")
				}
				ref, err := task.Put(ctx, strings.NewReader("page"), "text/plain")
				return pawl.Result{Output: map[string]any{"n": task.Branch.Index}, Artifacts: []pawl.Artifact{{Name: task.EffectKey, Blob: ref}}}, err
			},
		}})
		def := define(t, looked)
		input := map[string]any{"items": []any{"a", "b", "c"}}
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, map[string]any{"items": []any{"a", "b"}}))
		require.NoError(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "later", ID: "x", Payload: map[string]any{"n": 1}}))
		synctest.Wait()

		snap, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"items": []any{"a", "b"}}, snap.Input)
		require.Equal(t, map[string]any{"begun": true}, snap.OutputSoFar)
		require.Nil(t, snap.Output)
		require.Len(t, snap.Staged, 2)
		require.Equal(t, 1, snap.Signals)
		require.Equal(t, "root", snap.Tokens[0].Path)
		require.Equal(t, "root/split:1", snap.Tokens[2].Path)

		var signals []pawl.KeptSignal
		for s, err := range e.Signals(t.Context(), "r") {
			require.NoError(t, err)
			signals = append(signals, s)
		}
		require.Equal(t, []pawl.KeptSignal{{Seq: 1, Name: "later", ID: "x", Payload: map[string]any{"n": int64(1)}}}, signals)

		branches := branchesOf(t, e, "r", pawl.BranchFilter{})
		require.Len(t, branches, 2)
		require.Equal(t, pawl.BranchView{
			Group: 1, Index: 1, Path: "root/split:1", Token: 3, Status: "running", Begun: true, Live: 1, Item: "b",
			State: map[string]any{"mine": int64(1)}, Output: map[string]any{"of": "b"},
		}, branches[1])
		text, err := json.Marshal(branches[1])
		require.NoError(t, err)
		require.Contains(t, string(text), `"status":"running"`)
		require.Empty(t, branchesOf(t, e, "r", pawl.BranchFilter{Status: "failed"}))
		require.Empty(t, branchesOf(t, e, "r", pawl.BranchFilter{Group: 2}))
		for _, err := range e.Branches(t.Context(), "r", pawl.BranchFilter{Status: "walking"}) {
			require.ErrorIs(t, err, pawl.ErrInvalid)
		}

		out, err := e.Run(t.Context(), workflow.Run{ID: "failed", Definition: def}, input)
		require.NoError(t, err)
		require.Equal(t, workflow.RunFailed, out.Status)
		failed := branchesOf(t, e, "failed", pawl.BranchFilter{Status: "failed"})
		require.Len(t, failed, 1)
		require.Equal(t, 2, failed[0].Index)
		require.Equal(t, "error", failed[0].Failure.Code)
		ended, err := e.Inspect(t.Context(), "failed")
		require.NoError(t, err)
		require.Nil(t, ended.OutputSoFar)
		require.Nil(t, ended.Staged)
		require.NoError(t, e.Close(t.Context()))
	})
}

func branchesOf(t *testing.T, e *pawl.Engine, id workflow.RunID, f pawl.BranchFilter) (out []pawl.BranchView) {
	t.Helper()
	for b, err := range e.Branches(t.Context(), id, f) {
		require.NoError(t, err)
		out = append(out, b)
	}
	return out
}

// A dag shows the nodes that are left to do, in the order of the definition.
func TestADagShowsWhatRemains(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, `{name: d, mode: dag, nodes: [{id: a}, {id: b, task: b}, {id: c}, {id: d, task: d}], transitions: [
		{from: a, to: b}, {from: b, to: c}, {from: a, to: d, condition: "false"}]}`)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	snap, err := e.Inspect(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []workflow.NodeID{"b", "c"}, snap.Remaining)
}

// Branches come page by page, all of them once.
func TestBranchesOfAWideRun(t *testing.T) {
	e := loading(t, t.TempDir(), 1200) // more than two pages
	for i, b := range branchesOf(t, e, "r", pawl.BranchFilter{}) {
		require.Equal(t, i, b.Index)
	}
	require.Len(t, branchesOf(t, e, "r", pawl.BranchFilter{Group: 1}), 1200)
	for _, err := range e.Branches(t.Context(), "nobody", pawl.BranchFilter{}) {
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
}
