package pawl_test

import (
	"context"
	"testing"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
	"github.com/stretchr/testify/require"
)

// An executor whose results come later learns from the context when an attempt
// is over, whoever ended it.
func TestTheContextOfAPendingAttemptLivesUntilItIsOver(t *testing.T) {
	type attempt struct {
		ctx context.Context
		key pawl.Key
	}
	attempts := make(chan attempt)
	e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
		attempts <- attempt{ctx, task.Key}
		return nil, pawl.ErrPending
	}}})
	begin := func(id workflow.RunID) attempt {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, oneTask)}, map[string]any{"n": 1}))
		return <-attempts
	}
	completed, cancelled, closed := begin("a"), begin("b"), begin("c") // the second begins when the first has returned
	require.NoError(t, completed.ctx.Err())
	require.NoError(t, cancelled.ctx.Err())

	require.NoError(t, e.Complete(t.Context(), completed.key, 1))
	<-completed.ctx.Done()
	require.NoError(t, e.Cancel(t.Context(), "b", "enough"))
	<-cancelled.ctx.Done()
	require.NoError(t, closed.ctx.Err(), "the others are not concerned")
	require.NoError(t, e.Close(t.Context()))
	<-closed.ctx.Done()
}

// Order and Priority say what an executor with a queue of its own must know.
func TestTasksSayTheirPriorityAndOrder(t *testing.T) {
	tasks := make(chan pawl.Task, 2)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
		tasks <- task
		return 1, nil
	}}})
	def := define(t, `
name: two
start: a
nodes:
  - {id: a, task: work, priority: 3}
  - {id: b, task: work}
transitions: [{from: a, to: b}]
`)
	_, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: def}, nil)
	require.NoError(t, err)
	a, b := <-tasks, <-tasks
	require.Equal(t, 3, a.Priority)
	require.Zero(t, b.Priority)
	require.Less(t, a.Order, b.Order)
}
