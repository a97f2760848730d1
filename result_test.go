package pawl_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A pointer to a Result is that Result, and none if it is nil; a Result inside of another is a mistake.
func TestAPointerToAResult(t *testing.T) {
	results := map[workflow.RunID]any{
		"pointer": &pawl.Result{Output: 7, Metadata: map[string]any{"cost": 2}}, "nil": (*pawl.Result)(nil),
		"twice": pawl.Result{Output: pawl.Result{Output: 7}}, "pointers": &pawl.Result{Output: &pawl.Result{}},
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) { return results[task.Run], nil }}})
	def := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work, output: {output.n: result}}]")
	for id := range results {
		out, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: def}, nil)
		require.NoError(t, err)
		switch id {
		case "pointer":
			require.Equal(t, map[string]any{"n": int64(7)}, out.Output)
			require.Equal(t, int64(2), eventsOf(t, e, id, workflow.EventTaskCompleted)[0].Data["cost"])
		case "nil":
			require.Equal(t, map[string]any{"n": nil}, out.Output)
		default:
			require.Equal(t, workflow.CodeInvalidResult, out.Failure.Code)
		}
	}
}

// A result that is far beyond the limits fails its task as one that is little beyond them, whether a handler returns it or Complete
// brings it: an error transition catches both by the same code.
func TestResultsFarBeyondTheLimits(t *testing.T) {
	results := map[workflow.RunID]struct {
		output func() any
		code   string
	}{
		"large":  {func() any { return strings.Repeat("x", 2<<20) }, workflow.CodeResultTooLarge},
		"huge":   {func() any { return strings.Repeat("x", 20<<20) }, workflow.CodeResultTooLarge},
		"reader": {func() any { return strings.NewReader(`"` + strings.Repeat("x", 20<<20)) }, workflow.CodeResultTooLarge},
		"deep":   {func() any { return json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("]", 200)) }, workflow.CodeLimit},
	}
	keys := make(chan pawl.Key, 1)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
		"give": func(_ context.Context, task pawl.Task) (any, error) { return results[task.Run].output(), nil },
		"pend": func(_ context.Context, task pawl.Task) (any, error) { keys <- task.Key; return nil, pawl.ErrPending },
	}})
	for id, r := range results {
		for _, task := range []string{"give", "pend"} {
			def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: "+task+"}, {id: b, output: {output.code: nodes.a.error.code}}]\ntransitions: [{from: a, to: b, outcome: error, errors: ["+r.code+"]}]")
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
			if task == "pend" {
				require.NoError(t, e.Complete(t.Context(), <-keys, r.output()))
			}
			out, err := e.Wait(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, out.Err(), "%s %s", task, id)
			require.NoError(t, e.Purge(t.Context(), id))
		}
	}
}

// The error about a payload that is too large names the limit of definitions, and not the higher one up to which it was looked at.
func TestPayloadsFarBeyondTheLimits(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}]")}, nil))
	huge := strings.Repeat("x", 20<<20)
	_, once := e.Once(t.Context(), "k", func(context.Context) (any, error) { return huge, nil })
	for _, err := range []error{once, e.Signal(t.Context(), "r", workflow.Signal{Name: "go", Payload: huge})} {
		var limit *workflow.LimitError
		require.ErrorAs(t, err, &limit)
		require.EqualValues(t, 1<<20, limit.Max)
	}
}
