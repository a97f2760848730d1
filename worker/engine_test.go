package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// fanOut is a definition with a task of type work per element of the input.
const fanOut = `
name: fan
start: each
nodes:
  - {id: each}
  - {id: work, task: work, input: {n: item}, retry: {maxAttempts: 3}}
  - {id: sum, output: {output.results: state.results}}
transitions:
  - {from: each, to: work, foreach: {collection: input.items}, siblingGroup: all}
  - {from: work, to: sum, synchronization: {siblingGroup: all, merge: {target: state.results, strategy: collect}}}
`

func define(t testing.TB, yaml string) *workflow.Definition {
	t.Helper()
	def, err := workflow.ParseYAML([]byte(yaml))
	require.NoError(t, err)
	return def
}

// host is an engine with its pool, in this process.
type host struct {
	pool   *worker.Pool
	engine *pawl.Engine
	server *httptest.Server
}

func start(t testing.TB, dir string, o worker.Options) *host {
	t.Helper()
	o.NoToken = o.Token == "" && o.Identify == nil
	h := &host{pool: mustNew(o)}
	var err error
	h.engine, err = pawl.Open(t.Context(), dir, pawl.Options{Executor: h.pool, Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	h.pool.Attach(h.engine)
	h.server = httptest.NewServer(h.pool.Handler())
	return h
}

func (h *host) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, h.pool.Close(context.Background()))
	require.NoError(t, h.engine.Close(context.Background()))
	h.server.Close()
}

func (h *host) client(id string) *worker.Client {
	return &worker.Client{URL: h.server.URL, ID: id, HTTP: h.server.Client()}
}

func items(n int) map[string]any {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return map[string]any{"items": list}
}

// The queue stands again after a restart, and who still works on a task from
// before completes it.
func TestARestartOfTheEngine(t *testing.T) {
	dir := replays.Dir(t)
	h := start(t, dir, worker.Options{})
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(3)))
	ann := h.client("ann")
	_, err := ann.Register(t.Context(), "work")
	require.NoError(t, err)
	polled, err := ann.Poll(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Len(t, polled.Tasks, 1)
	mine := polled.Tasks[0]
	h.stop(t)

	h = start(t, dir, worker.Options{})
	defer h.stop(t)
	ann.URL, ann.HTTP = h.server.URL, h.server.Client()
	require.NoError(t, ann.Complete(t.Context(), mine, "from before", nil))
	require.NoError(t, ann.Complete(t.Context(), mine, "again", nil), "a duplicate is answered")
	seen := make(chan pawl.Task, 3)
	require.NoError(t, h.pool.Start(worker.Registration{ID: "here", Capacity: 2}, pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		seen <- task
		return "here", nil
	}}))
	out, err := h.engine.Wait(t.Context(), "r")
	require.NoError(t, err)
	results := out.Output["results"].([]any)
	require.ElementsMatch(t, []any{"from before", "here", "here"}, results)
	require.Equal(t, "from before", results[mine.Branch.Index])
	require.Len(t, seen, 2, "it is not executed again")
	other := <-seen
	require.Equal(t, mine.Run, other.Run)
	require.NotEqual(t, mine.EffectKey, other.EffectKey)
}

// A task says when it was dispatched and when its handler was called, wherever this is: in the process of the engine, behind
// a pool, or in another process behind HTTP.
func TestTasksTellWhenTheyWereDispatched(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	before := time.Now().Truncate(time.Millisecond)
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(2)))
	for h.pool.Status().Queued < 2 {
		<-time.After(time.Millisecond)
	}
	queued := time.Now()
	seen := make(chan pawl.Task, 1)
	handlers := pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		seen <- task
		return nil, nil
	}}
	check := func(task pawl.Task) {
		require.False(t, task.DispatchedAt.Before(before), "%v is before %v", task.DispatchedAt, before)
		require.False(t, task.DispatchedAt.After(queued), "%v is after %v", task.DispatchedAt, queued)
		require.False(t, task.BeganAt.Before(queued), "%v is before %v", task.BeganAt, queued)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.client("there").Run(ctx, handlers) }()
	check(<-seen)
	cancel()
	require.NoError(t, <-ended)
	select {
	case other := <-seen: // the same worker took both
		check(other)
	default:
	}
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "s", Definition: define(t, fanOut)}, items(1)))
	for h.pool.Status().Queued < 1 {
		<-time.After(time.Millisecond)
	}
	queued = time.Now()
	require.NoError(t, h.pool.Start(worker.Registration{ID: "here"}, handlers))
	check(<-seen)
}

// The order of the queue is that of dispatch, whatever goroutine is first.
func TestFirstComeFirstServedThroughTheEngine(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	const n = 300
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(n)))
	for h.pool.Status().Queued < n {
		<-time.After(time.Millisecond)
	}
	var mu sync.Mutex
	var order []int
	require.NoError(t, h.pool.Start(worker.Registration{ID: "here"}, pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, task.Branch.Index)
		return nil, nil
	}}))
	_, err := h.engine.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Len(t, order, n)
	require.IsIncreasing(t, order)
}

// A run that is cancelled leaves nothing in the queue, and its tasks are
// cancelled where they are.
func TestACancelledRun(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	begun, cancelled := make(chan bool, 5), make(chan error, 5) // the worker may take others before they are withdrawn
	require.NoError(t, h.pool.Start(worker.Registration{ID: "here"}, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		begun <- true
		<-ctx.Done()
		cancelled <- task.Heartbeat(context.Background(), nil)
		return nil, ctx.Err()
	}}))
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(5)))
	<-begun
	require.NoError(t, h.engine.Cancel(t.Context(), "r", "enough"))
	require.Error(t, <-cancelled)
	require.NoError(t, h.pool.Drain(t.Context()))
	for h.pool.Status().Queued > 0 {
		<-time.After(time.Millisecond)
	}
}

// Large data goes by reference: a remote worker stores a blob and an artifact,
// one of this process reads it, and another one over HTTP.
func TestBlobs(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{MaxBlob: 3 << 20})
	defer h.stop(t)
	def := define(t, `
name: large
start: make
nodes:
  - {id: make, task: make, output: {state.made: result}}
  - {id: here, task: size, input: {made: state.made}, output: {output.here: result}}
  - {id: there, task: size there, input: {made: state.made}, output: {output.there: result}}
  - {id: over, task: over, output: {output.over: result}}
transitions: [{from: make, to: here}, {from: here, to: there}, {from: there, to: over}]
`)
	make3 := func(ctx context.Context, task pawl.Task) (any, error) {
		ref, err := task.Put(ctx, strings.NewReader(strings.Repeat("x", 3<<20)), "text/plain")
		return pawl.Result{Output: ref, Artifacts: []pawl.Artifact{{Name: "xs", Blob: ref}}}, err
	}
	size := func(ctx context.Context, task pawl.Task) (any, error) {
		var in struct{ Made blob.Ref }
		if err := task.Bind(&in); err != nil {
			return nil, err
		}
		content, err := task.Open(ctx, in.Made)
		if err != nil {
			return nil, err
		}
		defer content.Close()
		return io.Copy(io.Discard, content)
	}
	over := func(ctx context.Context, task pawl.Task) (any, error) {
		_, err := task.Put(ctx, strings.NewReader(strings.Repeat("x", 3<<20+1)), "")
		var refused *worker.Error
		if !errors.As(err, &refused) {
			return nil, fmt.Errorf("not refused: %w", err)
		}
		code := refused.Code
		_, err = task.Put(ctx, strings.NewReader("x"), "text/plain\r\nx: y") // which stays refused, however often it is sent
		if !errors.As(err, &refused) {
			return nil, fmt.Errorf("not refused: %w", err)
		}
		return code + " " + refused.Code, task.Heartbeat(ctx, nil)
	}
	require.NoError(t, h.pool.Start(worker.Registration{ID: "here"}, pawl.Handlers{"size": size}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- h.client("there").Run(ctx, pawl.Handlers{"make": make3, "size there": size, "over": over})
	}()
	out, err := h.engine.Run(t.Context(), workflow.Run{ID: "r", Definition: def}, nil)
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"here": int64(3 << 20), "there": int64(3 << 20), "over": remote.CodeTooLarge + " " + remote.CodeInvalid}, out.Output)
	require.Len(t, out.Artifacts, 1)
	require.Equal(t, "xs", out.Artifacts[0].Name)
	cancel()
	require.NoError(t, <-ended)
}

// The coordinator is closed and opened again while workers work: they go on, and
// every result counts once.
func TestRestartsUnderWorkers(t *testing.T) {
	const n, lives = 600, 5
	var current atomic.Pointer[worker.Pool]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := current.Load(); p != nil {
			p.Handler().ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	var executed atomic.Int64
	for w := range 4 {
		group.Go(func() {
			c := worker.Client{URL: server.URL, HTTP: server.Client(), ID: fmt.Sprint("w", w), Capacity: 2}
			if err := c.Run(ctx, pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
				executed.Add(1)
				<-time.After(3 * time.Millisecond)
				return task.Input.(map[string]any)["n"], nil
			}}); err != nil {
				t.Error(err)
			}
		})
	}
	dir := replays.Dir(t)
	for life := range lives {
		h := start(t, dir, worker.Options{})
		if life == 0 {
			require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(n)))
		}
		current.Store(h.pool)
		if life == lives-1 {
			out, err := h.engine.Wait(t.Context(), "r")
			require.NoError(t, err)
			for i, r := range out.Output["results"].([]any) {
				require.EqualValues(t, i, r)
			}
			require.Len(t, out.Output["results"], n)
		} else {
			for h.pool.Status().Processed < n/lives/2 {
				<-time.After(time.Millisecond)
			}
		}
		current.Store(nil)
		if life == lives-1 {
			cancel()
		}
		h.stop(t)
	}
	group.Wait()
	t.Logf("%d executions of %d tasks in %d lives", executed.Load(), n, lives)
	require.Less(t, executed.Load(), int64(n+lives*16), "what is held is not done again, but for what was on its way")
}

// A mortal is a connection that may die: in the middle of a call, before it is
// sent or after it is done, and then for good.
type mortal struct {
	base  http.RoundTripper
	dead  atomic.Bool
	calls atomic.Int64 // until it dies
	after bool         // it dies when the call is done
}

var errDead = errors.New("the worker was killed")

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	last := m.calls.Add(-1) <= 0
	if m.dead.Load() || last && !m.after {
		m.dead.Store(true)
		return nil, errDead
	}
	response, err := m.base.RoundTrip(r)
	if last {
		m.dead.Store(true)
	}
	if err == nil && m.dead.Load() {
		response.Body.Close()
		return nil, errDead
	}
	return response, err
}

// Thousands of tasks, and workers that die at random: none is lost, and no result
// counts twice.
func TestWorkersThatDie(t *testing.T) {
	n := harness.Figure(1000, 5000, 10_000)
	h := start(t, replays.Dir(t), worker.Options{Lease: 300 * time.Millisecond})
	defer h.stop(t)
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(n)))
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var executed, kills atomic.Int64
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for w := range 8 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for life := 0; ctx.Err() == nil; life++ {
				m := &mortal{base: h.server.Client().Transport, after: random.IntN(2) == 0}
				m.calls.Store(random.Int64N(int64(n / 50)))
				c := h.client(fmt.Sprintf("w%d", w)) // it comes back as itself
				if w%2 == 0 {
					c.ID = fmt.Sprintf("w%d-%d", w, life) // or as another: its lease must run out
				}
				c.Capacity, c.HTTP = 1+random.IntN(4), &http.Client{Transport: m}
				alive, die := context.WithCancel(ctx)
				killed := make(chan struct{})
				go func() {
					defer close(killed)
					for !m.dead.Load() && ctx.Err() == nil {
						<-time.After(time.Millisecond)
					}
					die()
				}()
				if err := c.Run(alive, pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
					executed.Add(1)
					return task.Input.(map[string]any)["n"], nil
				}}); err != nil {
					t.Error(err)
				}
				kills.Add(1)
				<-killed
			}
		})
	}
	out, err := h.engine.Wait(t.Context(), "r")
	cancel()
	group.Wait()
	require.NoError(t, err)
	require.NoError(t, out.Err())
	results := out.Output["results"].([]any)
	require.Len(t, results, n)
	for i, r := range results {
		require.EqualValues(t, i, r, "every result in its place")
	}
	completed := 0
	for e, err := range h.engine.Events(t.Context(), "r", pawl.EventsOptions{}) {
		require.NoError(t, err)
		if e.Type == "task.completed" {
			completed++
		}
	}
	require.Equal(t, n, completed, "every result counts once")
	require.NoError(t, h.pool.Drain(t.Context())) // calls of the dead may still be at it
	s := h.pool.Status()
	require.EqualValues(t, n, s.Processed)
	require.Zero(t, s.Queued)
	t.Logf("%d kills, %d executions, %d leases ran out", kills.Load(), executed.Load(), s.Expired)
	require.Greater(t, kills.Load(), int64(10))
	require.Greater(t, executed.Load(), int64(n), "some died with a result in hand")
}

// mustNew is worker.New with options that are good.
func mustNew(o worker.Options) *worker.Pool {
	p, err := worker.New(o)
	if err != nil {
		panic(err)
	}
	return p
}
