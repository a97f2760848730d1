package worker_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// A counted is a pool that tells of the tasks that it has got.
type counted struct {
	*worker.Pool
	queued chan struct{}
}

func (c counted) Execute(ctx context.Context, t pawl.Task) (any, error) {
	output, err := c.Pool.Execute(ctx, t)
	c.queued <- struct{}{}
	return output, err
}

// tenants is an engine with a pool that has no worker yet.
type tenants struct {
	*testing.T
	engine *pawl.Engine
	pool   counted
}

func openTenants(t *testing.T, limits map[string]pawl.TenantLimit) tenants {
	t.Helper()
	pool := counted{mustNew(worker.Options{NoToken: true}), make(chan struct{}, 5000)}
	engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pool, Durability: pawl.ProcessCrash, Tenants: limits})
	require.NoError(t, err)
	pool.Attach(engine)
	t.Cleanup(func() {
		require.NoError(t, pool.Close(context.Background()))
		require.NoError(t, engine.Close(context.Background()))
	})
	return tenants{t, engine, pool}
}

// start starts a run of a tenant, and returns when so many tasks of it are in the pool.
func (s tenants) start(tenant string, tasks int) {
	run := workflow.Run{ID: workflow.RunID(tenant), Definition: define(s.T, fanOut), Tenant: tenant}
	require.NoError(s, s.engine.Start(s.Context(), run, items(tasks)))
	for range tasks {
		<-s.pool.queued
	}
}

// A tenant has no more tasks at work than its limit, until they are done, however many its runs
// have dispatched; another gets the worker that is free.
func TestAPoolHoldsNoMoreOfATenantThanItsLimit(t *testing.T) {
	s := openTenants(t, map[string]pawl.TenantLimit{"*": {Concurrency: 2}})
	begun, gates := make(chan string, 6), map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
	require.NoError(t, s.pool.Start(worker.Registration{ID: "w", Capacity: 6}, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		begun <- task.Tenant
		select {
		case <-gates[task.Tenant]:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}}))
	s.start("a", 5)
	require.Equal(t, []string{"a", "a"}, []string{<-begun, <-begun})
	require.Empty(t, begun, "the third of a waits")
	s.start("b", 1)
	require.Equal(t, "b", <-begun)
	for range 3 { // one done, one begun
		gates["a"] <- struct{}{}
		require.Equal(t, "a", <-begun)
	}
	close(gates["a"])
	close(gates["b"])
	for _, id := range []workflow.RunID{"a", "b"} {
		out, err := s.engine.Wait(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
}

// A tenant with hundreds of tasks in the pool delays the first one of another tenant by one task,
// though it gives its own the highest priority.
func TestTenantsTakeTurnsAtAPool(t *testing.T) {
	for _, limits := range []map[string]pawl.TenantLimit{nil, {"*": {Concurrency: 2}}} {
		s := openTenants(t, limits)
		const many = 500
		s.start("big", many)
		s.start("small", 1)
		performed := make(chan string, many+1)
		require.NoError(t, s.pool.Start(worker.Registration{ID: "w"}, pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
			performed <- task.Tenant
			return nil, nil
		}}))
		require.ElementsMatch(t, []string{"big", "small"}, []string{<-performed, <-performed})
		require.NoError(t, s.engine.Cancel(t.Context(), "big", "enough"))
	}
}

// With TenantLimit.Pending one count holds for the tasks of a tenant in the engine's process and at the
// workers of a pool: wherever it has as many as it may, the next one waits until one of them is done.
func TestOneCountForTheProcessAndItsPool(t *testing.T) {
	ctx, pool := t.Context(), mustNew(worker.Options{NoToken: true})
	begun, gates := make(chan string, 9), map[string]chan struct{}{"here": make(chan struct{}), "there": make(chan struct{})}
	perform := func(ctx context.Context, task pawl.Task) (any, error) {
		begun <- task.Tenant + " " + task.Type
		select {
		case <-gates[task.Type]:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}
	engine, err := pawl.Open(ctx, replays.Dir(t), pawl.Options{
		Executor: pawl.Handlers{"here": perform, "there": pool.Execute}, Durability: pawl.ProcessCrash,
		Tenants: map[string]pawl.TenantLimit{"*": {Concurrency: 2, Pending: true}},
	})
	require.NoError(t, err)
	pool.Attach(engine)
	t.Cleanup(func() {
		require.NoError(t, pool.Close(context.Background()))
		require.NoError(t, engine.Close(context.Background()))
	})
	require.NoError(t, pool.Start(worker.Registration{ID: "w", Capacity: 9}, pawl.Handlers{"there": perform}))
	start := func(id workflow.RunID, tenant, kind string) {
		def := define(t, "name: "+kind+"\nstart: a\nnodes: [{id: a, task: "+kind+"}]")
		require.NoError(t, engine.Start(ctx, workflow.Run{ID: id, Definition: def, Tenant: tenant}, nil))
	}
	waits := func(id workflow.RunID) {
		s, err := engine.Inspect(ctx, id)
		require.NoError(t, err)
		require.True(t, s.Tokens[0].Limited, "%s waits for its tenant", id)
	}
	next := func(want string) { require.Equal(t, want, <-begun) }

	start("1", "a", "there")
	next("a there")
	start("2", "a", "here")
	next("a here")
	start("3", "a", "here")
	waits("3")
	start("4", "a", "there")
	waits("4")
	start("5", "b", "here")
	next("b here")
	gates["there"] <- struct{}{}
	next("a here") // the first that waits, in this process, for the place of one at a worker
	waits("4")
	for range 3 { // all that are in this process, one of them of the other tenant
		gates["here"] <- struct{}{}
	}
	next("a there")
	gates["there"] <- struct{}{}
	for _, id := range []workflow.RunID{"1", "2", "3", "4", "5"} {
		out, err := engine.Wait(ctx, id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	require.Empty(t, begun)
}
