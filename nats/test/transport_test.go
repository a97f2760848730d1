package natstest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// A transport is a way from an engine to its workers. The stories are told on each.
type transport interface {
	// open opens an engine whose pool has a lease; the function closes both.
	open(t *testing.T, dir string, lease time.Duration) (*pawl.Engine, func())
	// queued returns how many tasks are with the pool's queue or with workers.
	queued(t *testing.T) int
	// run performs tasks until ctx is done.
	run(ctx context.Context, id string, capacity int, h pawl.Handlers) error
}

// overNATS is package natspool.
type overNATS struct {
	conn  *nats.Conn
	blobs blob.Store
}

func (o *overNATS) open(t *testing.T, dir string, lease time.Duration) (*pawl.Engine, func()) {
	h := openEngineWith(t, o.conn, dir, natspool.Options{Lease: lease}, o.blobs)
	return h.engine, h.stop
}

func (o *overNATS) queued(t *testing.T) int {
	js, err := newJetStream(o.conn)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "PAWL_tasks")
	require.NoError(t, err)
	return int(s.CachedInfo().State.Msgs)
}

func (o *overNATS) run(ctx context.Context, id string, capacity int, h pawl.Handlers) error {
	return (&natspool.Worker{Conn: o.conn, ID: id, Capacity: capacity, Blobs: o.blobs}).Run(ctx, h)
}

// overHTTP is package worker. Its server outlives the pools, and serves the last of them.
type overHTTP struct {
	server *httptest.Server
	pool   atomic.Pointer[worker.Pool]
}

// ServeHTTP implements http.Handler.
func (o *overHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.pool.Load().Handler().ServeHTTP(w, r)
}

func (o *overHTTP) open(t *testing.T, dir string, lease time.Duration) (*pawl.Engine, func()) {
	pool, err := worker.New(worker.Options{Lease: lease, NoToken: true})
	require.NoError(t, err)
	engine, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pool, Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	pool.Attach(engine)
	o.pool.Store(pool)
	return engine, func() {
		require.NoError(t, pool.Close(context.Background()))
		require.NoError(t, engine.Close(context.Background()))
	}
}

func (o *overHTTP) queued(*testing.T) int {
	s := o.pool.Load().Status()
	return s.Queued + len(s.Active)
}

func (o *overHTTP) run(ctx context.Context, id string, capacity int, h pawl.Handlers) error {
	return (&worker.Client{URL: o.server.URL, ID: id, Capacity: capacity, HTTP: o.server.Client()}).Run(ctx, h)
}

// onEach tells a story on each transport.
func onEach(t *testing.T, story func(t *testing.T, over transport)) {
	t.Run("http", func(t *testing.T) {
		over := &overHTTP{}
		over.server = httptest.NewServer(over)
		defer over.server.Close()
		story(t, over)
	})
	t.Run("nats", func(t *testing.T) {
		conn := connect(t, startServer(t).ClientURL())
		story(t, &overNATS{conn, openBlobs(t, conn)})
	})
}

// workOver runs a worker until the function that it returns is called.
func workOver(t *testing.T, over transport, id string, capacity int, h pawl.Handlers) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- over.run(ctx, id, capacity, h) }()
	return func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatal("the worker does not end")
		}
	}
}

// A handler of pawl.Typed is the same over HTTP and over NATS: it gets its input as its type and the task from its context, and an input that
// does not fit fails the task with its place. Types that JSON cannot say let no worker begin.
func TestTypedHandlers(t *testing.T) {
	type in struct {
		Name string `json:"name"`
	}
	greet := pawl.Typed(func(ctx context.Context, in in) (string, error) {
		task := pawl.TaskFrom(ctx)
		_, err := task.Once(ctx, "", func(context.Context) (any, error) { return 1, nil })
		return "hello " + in.Name + " of " + string(task.Run), err
	})
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), longLease)
		defer stop()
		defer workOver(t, over, "ann", 1, pawl.Handlers{"greet": greet})()
		def := define(t, "name: greet\nstart: a\nnodes: [{id: a, task: greet, input: {name: input.name}, output: {output.text: result}}]")
		got, err := pawl.Run[struct{ Text string }](t.Context(), engine, workflow.Run{ID: "r", Definition: def}, map[string]any{"name": "ann"})
		require.NoError(t, err)
		require.Equal(t, "hello ann of r", got.Text)
		_, err = pawl.Run[any](t.Context(), engine, workflow.Run{ID: "bad", Definition: def}, map[string]any{"name": 7})
		require.ErrorContains(t, err, "invalid_input")
		require.ErrorContains(t, err, "input.name: it is of type integer")
	})
	bad := pawl.Handlers{"x": pawl.Typed(func(context.Context, chan in) (any, error) { return nil, nil })}
	require.ErrorContains(t, (&natspool.Worker{Conn: connect(t, startServer(t).ClientURL())}).Run(t.Context(), bad), "chan natstest.in has no JSON form")
}
