package inspector_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

const oneTask = "name: one\nstart: pack\nnodes: [{id: pack, task: pack}]"

// A countedPool is a pool that tells of the tasks that it has got.
type countedPool struct {
	*worker.Pool
	got chan struct{}
}

func (c countedPool) Execute(ctx context.Context, t pawl.Task) (any, error) {
	output, err := c.Pool.Execute(ctx, t)
	c.got <- struct{}{}
	return output, err
}

// The page and the API tell of the workers, of what each holds and of what waits, and say that an engine without a
// pool has none.
func TestWorkers(t *testing.T) {
	without := openShop(t)
	require.Contains(t, textOf(t, without.see("workers")), "no pool of workers")

	pool, err := worker.New(worker.Options{NoToken: true})
	require.NoError(t, err)
	begun, gate := make(chan struct{}, 3), make(chan struct{})
	executor := countedPool{pool, make(chan struct{}, 3)}
	engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: executor, Tenants: map[string]pawl.TenantLimit{"acme": {Concurrency: 5}}})
	require.NoError(t, err)
	pool.Attach(engine)
	t.Cleanup(func() {
		require.NoError(t, pool.Close(context.Background()))
		require.NoError(t, engine.Close(context.Background()))
	})
	server := httptest.NewServer(inspector.Handler(engine, inspector.Options{}))
	t.Cleanup(server.Close)
	s := &shop{t, engine, server.URL + "/"}
	require.Contains(t, textOf(t, s.see("workers")), "No worker has registered")
	require.NoError(t, pool.Start(worker.Registration{ID: "packer<1>", Capacity: 1}, pawl.Handlers{"pack": func(context.Context, pawl.Task) (any, error) {
		begun <- struct{}{}
		<-gate
		return nil, nil
	}}))
	defer close(gate)
	for _, id := range []workflow.RunID{"first", "second", "third"} {
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: id, Definition: parse(t, oneTask), Tenant: "acme"}, nil))
		<-executor.got
	}
	<-begun
	text := textOf(t, s.see("workers"))
	for _, part := range []string{"packer<1> in this process", "at work 1 of 1 pack", "pack 2 1 1", "acme 2 1 5", "first pack pack packer<1>", "never"} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "second pack")

	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/v1/workers", nil)
	r.RemoteAddr = "127.0.0.1:999"
	api.Handler(engine, api.Options{}).ServeHTTP(w, r)
	require.Equal(t, 200, w.Code, w.Body)
	var got api.Workers
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.NotNil(t, got.Pool)
	require.Equal(t, 2, got.Pool.Queued)
	require.Equal(t, []worker.TenantStatus{{Tenant: "acme", Queued: 2, Active: 1, Limit: 5}}, got.Pool.Tenants)
	require.Equal(t, workflow.RunID("first"), got.Pool.Active[0].Run)
	require.Empty(t, got.Pool.Active[0].Key)
}

// The page of the workers changes with them, also where nothing is committed, and begins with the types that nobody takes.
func TestWorkersLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, err := worker.New(worker.Options{NoToken: true})
		require.NoError(t, err)
		engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pool})
		require.NoError(t, err)
		pool.Attach(engine)
		for _, id := range []workflow.RunID{"first", "second"} {
			require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: id, Definition: parse(t, oneTask)}, nil))
		}
		synctest.Wait()
		page := watchWithin(t, engine, "workers")
		<-time.After(3 * time.Second)
		require.NoError(t, pool.Start(worker.Registration{ID: "packer", Capacity: 1}, pawl.Handlers{"print": func(context.Context, pawl.Task) (any, error) { return nil, nil }}))
		<-time.After(3 * time.Second)
		frames := page()
		require.GreaterOrEqual(t, len(frames), 3)
		require.Contains(t, frames[1], `No worker takes <b>pack</b>: 2 tasks wait`)
		require.NotContains(t, frames[1], "packer")
		require.Contains(t, frames[len(frames)-1], "packer")
		require.NoError(t, pool.Close(context.Background()))
		require.NoError(t, engine.Close(context.Background()))
	})
}

// The first page tells what tasks there are also where nothing is committed: here a worker takes one that waits.
func TestTheFirstPageTellsOfTasksLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, err := worker.New(worker.Options{NoToken: true})
		require.NoError(t, err)
		engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pool})
		require.NoError(t, err)
		pool.Attach(engine)
		for _, id := range []workflow.RunID{"first", "second"} {
			require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: id, Definition: parse(t, oneTask)}, nil))
		}
		synctest.Wait()
		page := watchWithin(t, engine, "")
		<-time.After(3 * time.Second)
		gate := make(chan struct{})
		require.NoError(t, pool.Start(worker.Registration{ID: "packer", Capacity: 1}, pawl.Handlers{"pack": func(context.Context, pawl.Task) (any, error) {
			<-gate
			return nil, nil
		}}))
		<-time.After(40 * time.Second)
		frames := page()
		require.Contains(t, frames[1], `<b>0</b> running`)
		require.Contains(t, frames[len(frames)-1], `<b>1</b> running`)
		close(gate)
		require.NoError(t, pool.Close(context.Background()))
		require.NoError(t, engine.Close(context.Background()))
	})
}

// watchWithin watches a page of an engine in a bubble, and returns what ends that and returns the frames, behind what came before the first.
func watchWithin(t *testing.T, engine *pawl.Engine, address string) func() []string {
	ctx, cancel := context.WithCancel(t.Context())
	w, done := httptest.NewRecorder(), make(chan struct{})
	h := inspector.Handler(engine, inspector.Options{})
	go func() {
		defer close(done)
		r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/live/"+address, nil)
		r.RemoteAddr = "127.0.0.1:999"
		h.ServeHTTP(w, r)
	}()
	return func() []string {
		cancel()
		<-done
		return strings.Split(w.Body.String(), "event: frame")
	}
}
