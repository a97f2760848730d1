package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
	"github.com/stretchr/testify/require"
)

// An executor whose results come later learns from the context when an attempt is over, no matter
// how it ended.
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

// With TenantLimit.Pending a task whose result comes later counts for its tenant until it is over,
// no matter how, also after a restart, and no other tenant waits for it.
func TestPendingTasksCountForTheirTenant(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	attempts := make(chan pawl.Task, 99)
	options := pawl.Options{
		Tenants: map[string]pawl.TenantLimit{"*": {Concurrency: 2, Pending: true}, "vip": {Concurrency: 2}},
		Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
			attempts <- task
			return nil, pawl.ErrPending
		}},
	}
	e := open(t, dir, options)
	def := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}]")
	start := func(id workflow.RunID, tenant string) {
		require.NoError(t, e.Start(ctx, workflow.Run{ID: id, Definition: def, Tenant: tenant}, nil))
	}
	next := func(want ...workflow.RunID) (tasks []pawl.Task) {
		var got []workflow.RunID
		for range want {
			tasks = append(tasks, <-attempts)
			got = append(got, tasks[len(tasks)-1].Run)
		}
		require.ElementsMatch(t, want, got)
		require.Empty(t, attempts)
		return tasks
	}
	start("a1", "a")
	first := next("a1")
	start("a2", "a")
	next("a2")
	for _, id := range []workflow.RunID{"a3", "a4", "a5", "a6"} {
		start(id, "a")
	}
	s, err := e.Inspect(ctx, "a3")
	require.NoError(t, err)
	require.True(t, s.Tokens[0].Limited, "it waits for the two of its tenant that are elsewhere")
	start("b1", "b")
	for _, id := range []workflow.RunID{"v1", "v2", "v3"} {
		start(id, "vip")
	}
	next("b1", "v1", "v2", "v3")

	require.NoError(t, e.Complete(ctx, first[0].Key, 1))
	third := next("a3")
	require.NoError(t, e.Cancel(ctx, "a2", "enough"))
	next("a4")
	require.NoError(t, e.Fail(ctx, third[0].Key, errors.New("it broke")))
	next("a5")
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, options) // all are dispatched again, whichever comes first
	of := map[string]int{}
	var last pawl.Task
	for range 6 {
		task := <-attempts
		if of[task.Tenant]++; task.Tenant == "a" {
			last = task
		}
	}
	require.Equal(t, map[string]int{"a": 2, "b": 1, "vip": 3}, of)
	require.NoError(t, e.Complete(ctx, last.Key, 1))
	require.Equal(t, "a", (<-attempts).Tenant)
}
