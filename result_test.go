package pawl_test

import (
	"context"
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
