package pawl_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// named returns a handler that says its name.
func named(name string) func(context.Context, pawl.Task) (any, error) {
	return func(context.Context, pawl.Task) (any, error) { return name, nil }
}

func TestHandlersRoute(t *testing.T) {
	tests := []struct {
		handlers   pawl.Handlers
		task, want string // want is empty if there is no route
	}{
		{pawl.Handlers{"a": named("a"), "*": named("rest")}, "a", "a"},
		{pawl.Handlers{"a": named("a"), "*": named("rest")}, "b", "rest"},
		{pawl.Handlers{"a": nil, "*": named("rest")}, "a", "rest"},
		{pawl.Handlers{"a": named("a"), "b": named("b")}, "c", ""},
		{pawl.Handlers{"a": nil, "*": nil}, "a", ""},
		{nil, "a", ""},
	}
	for _, tt := range tests {
		out, err := tt.handlers.Execute(t.Context(), pawl.Task{Type: tt.task})
		if tt.want != "" {
			require.NoError(t, err)
			require.Equal(t, tt.want, out)
			continue
		}
		var failure pawl.TaskError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, workflow.CodeUnknownTask, failure.Code)
		require.False(t, failure.Retryable)
	}
	_, err := pawl.Handlers{"b": named("b"), "a": named("a")}.Execute(t.Context(), pawl.Task{Type: "c"})
	require.EqualError(t, err, `unknown_task: no handler for task type "c"; there are: a, b`)
}

// A type that nobody knows fails the run at once, with any retry policy; with a
// default route it is performed, and an error transition can catch it.
func TestUnknownTaskType(t *testing.T) {
	const source = `
name: unknown
start: x
nodes:
  - {id: x, task: nobody, retry: {maxAttempts: 9, initialInterval: 1h}, output: {output.by: result}}
`
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"a": named("a")}})
	out, err := e.Run(t.Context(), workflow.Run{ID: "fails", Definition: define(t, source)}, nil)
	require.NoError(t, err)
	require.Equal(t, workflow.RunFailed, out.Status)
	require.Equal(t, workflow.CodeUnknownTask, out.Failure.Code)
	require.Equal(t, 1, out.Failure.Attempts)
	require.Contains(t, out.Failure.Message, `no handler for task type "nobody"`)

	caught := source + "  - {id: y, output: {output.by: error.code}}\ntransitions: [{from: x, to: y, outcome: error, errors: [unknown_task]}]\n"
	out, err = e.Run(t.Context(), workflow.Run{ID: "caught", Definition: define(t, caught)}, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"by": "unknown_task"}, out.Output)

	rest := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"a": named("a"), "*": named("rest")}})
	out, err = rest.Run(t.Context(), workflow.Run{ID: "rest", Definition: define(t, source)}, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"by": "rest"}, out.Output)
}
