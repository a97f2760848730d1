package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// The story of docs/act.md: a dead letter is found, its cause patched, and the
// retry calls the mended address.
func TestDeadLetterFromCauseToCure(t *testing.T) {
	ctx := t.Context()
	fetch := func(_ context.Context, t pawl.Task) (any, error) {
		url := t.Input.(map[string]any)["url"]
		if url != "https://new.example/7" {
			return nil, pawl.TaskError{Code: "http_404", Message: "not found"}
		}
		return map[string]any{"sum": 10}, nil
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"http": fetch}})
	d := workflow.Definition{
		Name: "invoice", Start: "fetch", Nodes: []workflow.Node{{
			ID: "fetch", Task: "http", Input: map[string]string{"url": "'https://old.example/' + input.id"},
			Retry: &workflow.RetrySpec{Exhausted: workflow.ExhaustedPark}, Output: map[string]string{"output.sum": "result.sum"},
		}},
	}
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "invoice-7", Definition: &d}, map[string]any{"id": "7"}))
	awaitEvent(t, e, "invoice-7", workflow.EventTaskParked)

	n := 0
	for l, err := range e.DeadLetters(ctx, pawl.DeadLetterFilter{Code: "http_404"}) {
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"url": "https://old.example/7"}, l.Input)
		n++
	}
	require.Equal(t, 1, n)
	patchURL(t, e, "input.address")
	at := pawl.Target{Run: "invoice-7", Node: "fetch"}
	var failure *workflow.Failure
	require.ErrorAs(t, e.Retry(ctx, at, pawl.RetryOptions{}), &failure)
	assert.Equal(t, workflow.CodeExpression, failure.Code)
	assert.Equal(t, workflow.NodeID("fetch"), failure.Node)
	require.ErrorIs(t, e.Retry(ctx, at, pawl.RetryOptions{Input: "anew"}), pawl.ErrInvalid)

	patchURL(t, e, "'https://new.example/' + input.id")
	require.NoError(t, e.Retry(ctx, at, pawl.RetryOptions{}))
	out, err := e.Wait(ctx, "invoice-7")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"sum": int64(10)}, out.Output)
	renewed := awaitEvent(t, e, "invoice-7", workflow.EventTaskInputRenewed)
	assert.Equal(t, map[string]any{"revision": int64(3), "asked": false}, renewed.Data)
}

// One dead letter whose input cannot be evaluated keeps RetryAll from no other.
func TestRetryAllGoesOnAfterARefusal(t *testing.T) {
	ctx := t.Context()
	calls := map[workflow.RunID]int{}
	work := func(_ context.Context, t pawl.Task) (any, error) {
		if calls[t.Run]++; calls[t.Run] == 1 {
			return nil, errors.New("at first")
		}
		return nil, nil
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"http": work}, Concurrency: 1})
	d := workflow.Definition{Name: "two", Start: "fetch", Nodes: []workflow.Node{{
		ID: "fetch", Task: "http", Input: map[string]string{"url": "'u'"}, Retry: &workflow.RetrySpec{Exhausted: workflow.ExhaustedPark},
	}}}
	for _, id := range []workflow.RunID{"invoice-7", "other"} {
		require.NoError(t, e.Start(ctx, workflow.Run{ID: id, Definition: &d}, nil))
		awaitEvent(t, e, id, workflow.EventTaskParked)
	}
	patchURL(t, e, "input.address")
	n, err := e.RetryAll(ctx, pawl.DeadLetterFilter{}, pawl.RetryOptions{})
	var failure *workflow.Failure
	require.ErrorAs(t, err, &failure)
	require.ErrorContains(t, err, "invoice-7")
	assert.Equal(t, 1, n)
	_, err = e.Wait(ctx, "other")
	require.NoError(t, err)
	n, err = e.RetryAll(ctx, pawl.DeadLetterFilter{}, pawl.RetryOptions{Input: workflow.InputKept})
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

// patchURL replaces the expression of the url at the node fetch of the run invoice-7.
func patchURL(t *testing.T, e *pawl.Engine, expression string) {
	t.Helper()
	_, revision, err := e.Definition(t.Context(), "invoice-7")
	require.NoError(t, err)
	_, err = e.Patch(t.Context(), "invoice-7", pawl.Patch{Base: revision, Ops: []any{
		map[string]any{"op": "replace", "path": "/nodes/fetch/input/url", "value": expression},
	}})
	require.NoError(t, err)
}

// awaitEvent returns the first event of a type, when it has come.
func awaitEvent(t *testing.T, e *pawl.Engine, run workflow.RunID, typ workflow.EventType) pawl.Event {
	t.Helper()
	for ev, err := range e.Events(t.Context(), run, pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		if ev.Type == typ {
			return ev
		}
	}
	t.Fatalf("the run %q has ended without %s", run, typ)
	return pawl.Event{}
}
