package worker_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// TenantLimit.Concurrency counts a task until the pool has it, and not while a worker does: a tenant
// with a limit of one has five tasks at work, and another gets a worker that is free.
func TestAPoolDoesNotCountTasksOfTenants(t *testing.T) {
	pool := mustNew(worker.Options{NoToken: true})
	engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{
		Executor: pool, Durability: pawl.ProcessCrash, Tenants: map[string]pawl.TenantLimit{"*": {Concurrency: 1}},
	})
	require.NoError(t, err)
	pool.Attach(engine)
	defer func() {
		require.NoError(t, pool.Close(context.Background()))
		require.NoError(t, engine.Close(context.Background()))
	}()
	begun, gate := make(chan string, 6), make(chan struct{})
	require.NoError(t, pool.Start(worker.Registration{ID: "w", Capacity: 6}, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		begun <- task.Tenant
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}}))
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, fanOut), Tenant: "a"}, items(5)))
	for range 5 {
		require.Equal(t, "a", <-begun)
	}
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "b", Definition: define(t, fanOut), Tenant: "b"}, items(1)))
	require.Equal(t, "b", <-begun)
	close(gate)
	for _, id := range []workflow.RunID{"a", "b"} {
		out, err := engine.Wait(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
}
