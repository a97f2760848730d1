package natstest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/workflow"
)

// child starts this program as another process, and waits until it is ready.
func child(t testing.TB, environment ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), environment...), os.Stderr
	pipe, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(pipe).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return c
}

// kill ends a process with SIGKILL.
func kill(t testing.TB, c *exec.Cmd) {
	t.Helper()
	require.NoError(t, c.Process.Kill())
	_ = c.Wait() // it says that it was killed
}

// ports counts the ports that were asked for, so that no two are the same.
var ports atomic.Int64

// freePort returns a port that nobody listens on, from below those that systems give to connections: one of these may have such a port when a server
// comes back to it, were it the connection of a client to itself, which asks for a server that is away.
func freePort(t testing.TB) int {
	t.Helper()
	const first, last = 20_001, 32_000
	for range last - first {
		port := first + (os.Getpid()*97+int(ports.Add(1)))%(last-first)
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	require.Fail(t, "no port is free")
	return 0
}

// Workers and the server are processes that are killed with SIGKILL and come back while the engine
// is closed and opened: no task is lost, and each result counts once.
func TestServersAndWorkersThatAreKilled(t *testing.T) {
	const n, workers, rounds = 700, 3, 6
	port, files, dir := freePort(t), t.TempDir(), t.TempDir()
	url := "nats://127.0.0.1:" + strconv.Itoa(port)
	startServer := func() *exec.Cmd { return child(t, serverPort+"="+strconv.Itoa(port), serverDir+"="+files) }
	server := startServer()
	defer func() { kill(t, server) }()
	conn := connect(t, url)
	h := openEngine(t, conn, dir, natspool.Options{Lease: briefLease})
	defer func() { h.stop() }()
	crew := make([]*exec.Cmd, workers)
	for i := range crew {
		crew[i] = child(t, workerURL+"="+url)
	}
	defer func() {
		for _, c := range crew {
			kill(t, c)
		}
	}()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(n)))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		<-time.After(time.Duration(random.IntN(400)) * time.Millisecond)
		switch round % 3 {
		case 0:
			i := random.IntN(workers)
			kill(t, crew[i])
			crew[i] = child(t, workerURL+"="+url)
		case 1:
			kill(t, server)
			server = startServer()
		case 2:
			h.stop()
			h = openEngine(t, conn, dir, natspool.Options{Lease: briefLease})
		}
	}
	requireResults(t, h.engine, n)
}

// A worker that is cut off loses its task to another after the lease: the first result counts, and
// the engine keeps one.
func TestALeaseThatRunsOut(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	conn := connect(t, url)
	h := openEngine(t, conn, t.TempDir(), natspool.Options{Lease: 5 * time.Second})
	defer h.stop()
	cut, err := nats.Connect(url, nats.Timeout(time.Minute))
	require.NoError(t, err)
	begun, finish := make(chan bool, 1), make(chan bool)
	var group sync.WaitGroup
	group.Go(func() {
		err := (&natspool.Worker{Conn: cut}).Run(t.Context(), pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
			begun <- true
			<-finish
			return "late", nil
		}})
		if !errors.Is(err, nats.ErrConnectionClosed) {
			t.Error(fmt.Errorf("a worker whose connection is closed returns %w", err))
		}
	})
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil))
	<-begun
	cut.Close()
	var calls atomic.Int64
	defer work(t, &natspool.Worker{Conn: conn}, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		calls.Add(1)
		return "in time", nil
	}})()
	out, err := h.engine.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": "in time"}, out.Output)
	require.EqualValues(t, 1, calls.Load())
	close(finish)
	group.Wait()
}
