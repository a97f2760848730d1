package natstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/nats/natslog"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/nats/test/server"
	"github.com/pawl-run/pawl/workflow"
)

// A cluster is three servers, each a process of its own.
type cluster struct {
	members   []server.Member
	processes []*exec.Cmd
	routes    map[[2]int]*servers.Relay // from one server to another, if there are relays between them
}

// startCluster starts servers; those in lazy do not sync.
func startCluster(t testing.TB, lazy ...int) *cluster {
	t.Helper()
	c := newCluster(t)
	for _, i := range lazy {
		c.members[i].Lazy = true
	}
	c.start(t)
	return c
}

// startRelayedCluster starts servers that reach each other through relays only.
func startRelayedCluster(t testing.TB) *cluster {
	t.Helper()
	c := newCluster(t)
	c.routes = map[[2]int]*servers.Relay{}
	for i := range c.members {
		for j, port := range c.members[i].Routes {
			via := 0
			if i != j {
				c.routes[[2]int{i, j}] = servers.StartRelay(t, port)
				via = c.routes[[2]int{i, j}].Port
			}
			c.members[i].Via = append(c.members[i].Via, via)
		}
	}
	c.start(t)
	return c
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{}
	var ports, routes []int
	for range 3 {
		ports, routes = append(ports, freePort(t)), append(routes, freePort(t))
	}
	dir := t.TempDir()
	for i := range 3 {
		c.members = append(c.members, server.Member{Number: i, Ports: ports, Routes: routes, Dir: filepath.Join(dir, fmt.Sprint(i))})
	}
	return c
}

// start starts the servers, and returns when they have a leader.
func (c *cluster) start(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { c.stop(t) }) // also those that are there when one does not start
	for i := range c.members {
		c.processes = append(c.processes, c.startMember(t, i))
	}
	c.awaitLeader(t)
}

// stop kills the servers.
func (c *cluster) stop(t testing.TB) {
	t.Helper()
	for _, p := range c.processes {
		kill(t, p)
	}
	c.processes = nil
}

// awaitLeader returns when the servers have a leader.
func (c *cluster) awaitLeader(t testing.TB) {
	t.Helper()
	js, err := jetstream.New(connect(t, c.url()))
	require.NoError(t, err)
	require.Eventually(t, func() bool { // they have a leader
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ready", Subjects: []string{"ready"}, Replicas: 3})
		return err == nil
	}, patience, 100*time.Millisecond)
}

func (c *cluster) startMember(t testing.TB, i int) *exec.Cmd {
	t.Helper()
	order, err := json.Marshal(c.members[i])
	require.NoError(t, err)
	return child(t, clusterOf+"="+string(order))
}

func natsURL(port int) string { return fmt.Sprint("nats://127.0.0.1:", port) }

func (c *cluster) url() string {
	var urls []string
	for _, port := range c.members[0].Ports {
		urls = append(urls, natsURL(port))
	}
	return strings.Join(urls, ",")
}

// restart kills a server with SIGKILL and starts it again.
func (c *cluster) restart(t *testing.T, i int) {
	t.Helper()
	kill(t, c.processes[i])
	c.processes[i] = c.startMember(t, i)
}

// system connects to the system account.
func (c *cluster) system(t *testing.T) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(c.url(), nats.UserInfo("system", "system"), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// Servers that do not sync, or do not answer, are named.
func TestServersThatAreChecked(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	c := startCluster(t, 1)
	system := c.system(t)
	const lazy = "n1 does not sync what it acknowledges"
	require.Eventually(t, func() bool { // a server of a busy machine may answer too late
		err := natslog.CheckServers(t.Context(), system)
		return errors.Is(err, natslog.ErrUnsafeServers) && err.Error() ==
			"the NATS servers may lose what they have acknowledged: "+lazy+": set sync_interval: always in the block jetstream of its configuration"
	}, patience, 10*time.Millisecond)
	command, at := buildCommand(t), strings.ReplaceAll(c.url(), "nats://", "nats://system:system@")
	doctor := func(status int, says string) {
		t.Helper()
		require.Eventually(t, func() bool {
			got, out := command.try("doctor", "-s", at)
			return got == status && strings.Contains(out, says)
		}, patience, 10*time.Millisecond)
	}
	doctor(1, lazy)
	c.members[1].Lazy = false
	c.restart(t, 1)
	require.Eventually(t, func() bool { return natslog.CheckServers(t.Context(), system) == nil }, patience, 10*time.Millisecond)
	doctor(0, "all servers keep what they acknowledge\n")
	kill(t, c.processes[2])
	require.Eventually(t, func() bool { // the connection may have been with that server
		err := natslog.CheckServers(t.Context(), system)
		return err != nil && strings.Contains(err.Error(), "1 of 3 servers of the cluster do not answer")
	}, patience, 10*time.Millisecond)
	c.processes[2] = c.startMember(t, 2)

	require.ErrorContains(t, natslog.CheckServers(t.Context(), connect(t, c.url())), "it takes a connection of the system account")
	require.ErrorIs(t, natslog.CheckServers(t.Context(), nil), pawl.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, natslog.CheckServers(ctx, system), context.Canceled)
}

// Servers without JetStream stand for no server of the cluster that does not answer, and a cluster without any that has it is not
// safe.
func TestServersThatHaveNoStreams(t *testing.T) {
	t.Parallel()
	conn := connect(t, startServer(t).ClientURL()) // another connection than that of a system account has its questions for itself
	answer := func(texts ...string) error {
		s, err := conn.Subscribe("$SYS.REQ.SERVER.PING.JSZ", func(m *nats.Msg) {
			for _, text := range texts {
				if err := m.Respond([]byte(text)); err != nil {
					t.Error(err)
				}
			}
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Unsubscribe()) }()
		return natslog.CheckServers(t.Context(), conn)
	}
	const safe = `{"server":{"name":"n%d","ver":"2.99.0","jetstream":true},"data":{"config":{"sync_always":true},"meta_cluster":{"cluster_size":2}}}`
	const leaf = `{"server":{"name":"leaf","ver":"2.99.0"},"data":{}}`
	require.NoError(t, answer(fmt.Sprintf(safe, 1), leaf, fmt.Sprintf(safe, 2)))
	err := answer(fmt.Sprintf(safe, 1), leaf)
	require.ErrorIs(t, err, natslog.ErrUnsafeServers)
	require.ErrorContains(t, err, "1 of 2 servers of the cluster do not answer")
	err = answer(leaf)
	require.ErrorIs(t, err, natslog.ErrUnsafeServers)
	require.ErrorContains(t, err, "no server that answers has JetStream")
}

// The log keeps its promises on three servers that are killed one after the other.
func TestWritersAtAClusterWhoseServersAreKilled(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	c := startCluster(t)
	next := rand.IntN(3)
	contendForLog(t, c.url(), 3, 200, 150, func() {
		c.restart(t, next)
		next = (next + 1) % 3
	})
}

// Tasks are performed, and a directory is kept, on three servers that are killed one after the other.
func TestAnEngineAtAClusterWhoseServersAreKilled(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	const n = 300
	c := startCluster(t)
	conn := connect(t, c.url())
	h := openEngine(t, conn, t.TempDir(), natspool.Options{Replicas: 3, Lease: briefLease})
	log, bases := openReplicated(t, conn, natslog.Options{Replicas: 3}), openReplicatedBlobs(t, conn, natslog.BlobsOptions{Replicas: 3})
	var kept atomic.Pointer[pawl.FollowReport]
	followed := make(chan error, 1)
	go func() {
		followed <- h.engine.Follow(t.Context(), pawl.FollowOptions{
			Log: log, Bases: bases, Interval: time.Millisecond, Report: func(r pawl.FollowReport) { kept.Store(&r) },
		})
	}()
	begun := make(chan bool, 10*n) // also of tasks that come again
	defer work(t, &natspool.Worker{Conn: conn, Capacity: 4}, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		begun <- true
		return number(ctx, task)
	}})()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(n)))
	for i := range 3 {
		for range n / 4 {
			<-begun
		}
		c.restart(t, i)
	}
	requireResults(t, h.engine, n)
	awaitKept(t, h.engine, &kept) // Close has 10 s for what is left, in which the servers may look for a leader
	h.stop()
	require.NoError(t, <-followed)

	var there string
	again(t, func() error {
		there = filepath.Join(t.TempDir(), "there")
		_, err := pawl.Restore(t.Context(), there, pawl.RestoreOptions{Log: log, Bases: bases})
		return err
	})
	engine, err := pawl.Open(t.Context(), there, pawl.Options{Executor: pawl.Handlers{"work": number}})
	require.NoError(t, err)
	requireResults(t, engine, n)
	require.NoError(t, engine.Close(t.Context()))
}

// Tasks are performed although two of three servers are killed within an instant, again and again: in about every fifth of such rounds the replicas
// of the stream choose no leader any more, or one that has lost what a consumer has delivered.
func TestTasksOfServersThatAreKilledTogether(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	n, rounds := 300, harness.Figure(1, 3, 20)
	c := startCluster(t)
	conn := connect(t, c.url())
	h := openEngine(t, conn, t.TempDir(), natspool.Options{Replicas: 3, Lease: briefLease})
	defer h.stop()
	begun := make(chan bool, 10*n)
	defer work(t, &natspool.Worker{Conn: conn, Capacity: 4}, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		begun <- true
		return number(ctx, task)
	}})()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(n)))
	for range rounds {
		for range n / (rounds + 1) {
			<-begun
		}
		order := rand.Perm(3)
		for _, i := range order[:2] {
			kill(t, c.processes[i])
			<-time.After(time.Duration(rand.IntN(100)) * time.Millisecond)
		}
		for _, i := range order[:2] {
			c.processes[i] = c.startMember(t, i)
		}
	}
	requireResults(t, h.engine, n)
}

// A stream whose only server is gone is made anew on another one, with all tasks that are out, once the others say that it is away, which takes
// them some minutes.
func TestAStreamWhoseServerIsGone(t *testing.T) {
	t.Parallel()
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	const n = 20
	c := startCluster(t)
	conn := connect(t, c.url())
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	h := openEngine(t, conn, t.TempDir(), natspool.Options{})
	defer h.stop()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(n)))
	home := -1
	require.Eventually(t, func() bool {
		stream, err := js.Stream(t.Context(), "PAWL_tasks")
		if err != nil {
			return false
		}
		home = slices.IndexFunc(c.members, func(m server.Member) bool { return fmt.Sprint("n", m.Number) == stream.CachedInfo().Cluster.Leader })
		return home >= 0 && stream.CachedInfo().State.Msgs == n
	}, patience, 10*time.Millisecond)
	kill(t, c.processes[home])
	c.processes = slices.Delete(c.processes, home, home+1)
	defer work(t, &natspool.Worker{Conn: conn}, pawl.Handlers{"work": number})()
	requireResults(t, h.engine, n)
}
