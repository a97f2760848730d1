package natstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/nodestrial"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/nats/test/server"
	"github.com/pawl-run/pawl/workflow"
)

// The environment says what a child process of a test is.
const (
	serverPort  = "PAWLNATS_SERVER" // a server on this port
	serverDir   = "PAWLNATS_DIR"
	serverSyncs = "PAWLNATS_SYNC"    // not empty: it syncs what it acknowledges
	clusterOf   = "PAWLNATS_CLUSTER" // a server of a cluster: a server.Member
	workerURL   = "PAWLNATS_WORKER"  // a worker at this server
)

// Leases of the pools of the tests: by default one within which each worker gives a sign of life, and a brief one where one dies,
// or is told something with its next heartbeat.
const (
	longLease  = time.Minute
	briefLease = time.Second
)

// TestMain runs the tests, or what a test needs as a process of its own.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(serverPort) != "":
		port, err := strconv.Atoi(os.Getenv(serverPort))
		if err == nil {
			start := server.Start
			if os.Getenv(serverSyncs) != "" {
				start = server.StartSynced
			}
			_, err = start(port, os.Getenv(serverDir))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("ready")
		select {}
	case os.Getenv(clusterOf) != "":
		var m server.Member
		err := json.Unmarshal([]byte(os.Getenv(clusterOf)), &m)
		if err == nil {
			_, err = m.Start()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("ready")
		select {}
	case os.Getenv(workerURL) != "":
		os.Exit(workAsProcess(os.Getenv(workerURL)))
	}
	nodestrial.ServeChild(connectNode)
	status := m.Run()
	if commandDir != "" {
		_ = os.RemoveAll(commandDir) // nothing depends on it
	}
	os.Exit(status)
}

// workAsProcess is a worker that squares numbers until it is killed.
func workAsProcess(url string) int {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond))
	if err == nil {
		fmt.Println("ready")
		err = (&natspool.Worker{Conn: conn, Capacity: 4}).Run(context.Background(), pawl.Handlers{"work": func(_ context.Context, t pawl.Task) (any, error) {
			<-time.After(5 * time.Millisecond)
			return t.Input.(map[string]any)["n"], nil
		}})
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// startServer starts a server in this process.
func startServer(t testing.TB) *natsserver.Server {
	t.Helper()
	s, err := server.Start(-1, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// An opened is an engine with its pool.
type opened struct {
	engine *pawl.Engine
	stop   func()
}

// openEngine opens an engine over NATS. stop closes both.
func openEngine(t testing.TB, conn *nats.Conn, dir string, o natspool.Options) *opened {
	t.Helper()
	return openEngineWith(t, conn, dir, o, nil)
}

// openEngineWith is openEngine, with a store of blobs.
func openEngineWith(t testing.TB, conn *nats.Conn, dir string, o natspool.Options, blobs blob.Store) *opened {
	t.Helper()
	if o.Lease == 0 {
		o.Lease = longLease
	}
	if o.Republish == 0 {
		o.Republish = time.Second
	}
	var pool *natspool.Pool
	again(t, func() (err error) { pool, err = natspool.New(t.Context(), conn, o); return err })
	engine, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pool, Durability: pawl.ProcessCrash, Blobs: blobs})
	require.NoError(t, err)
	pool.Attach(engine)
	return &opened{engine, func() {
		require.NoError(t, pool.Close(context.Background()))
		require.NoError(t, engine.Close(context.Background()))
	}}
}

// work runs a worker in this process until the test ends, or the function that it returns is called.
func work(t testing.TB, w *natspool.Worker, h pawl.Handlers) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, h) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// fanOut is a definition with a task of type work per element of the input.
const fanOut = nodestrial.FanOut

func define(t testing.TB, yaml string) *workflow.Definition {
	t.Helper()
	def, err := workflow.ParseYAML([]byte(yaml))
	require.NoError(t, err)
	return def
}

func items(n int) map[string]any { return nodestrial.MakeInput(n) }

// requireResults requires every result in its place, and as many completions.
func requireResults(t testing.TB, e *pawl.Engine, n int) {
	t.Helper()
	late, stop := context.WithTimeoutCause(t.Context(), 2*patience, errors.New("a task is not performed"))
	defer stop()
	out, err := e.Wait(late, "r")
	require.NoError(t, err, context.Cause(late))
	require.NoError(t, out.Err())
	results := out.Output["results"].([]any)
	require.Len(t, results, n)
	for i, r := range results {
		require.EqualValues(t, i, r)
	}
	completed := 0
	for ev, err := range e.Events(t.Context(), "r", pawl.EventsOptions{}) {
		require.NoError(t, err)
		if ev.Type == "task.completed" {
			completed++
		}
	}
	require.Equal(t, n, completed, "every result counts once")
}
