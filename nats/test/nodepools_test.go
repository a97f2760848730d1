package natstest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	pawlcluster "github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/nodestrial"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/workflow"
)

// A pooledTrial is three nodes whose tasks two workers perform.
type pooledTrial struct {
	t      *testing.T
	conn   *nats.Conn // of the test
	dir    string
	inPool bool // the nodes make a pool for each life; otherwise one for all, which they attach
	links  map[string]*servers.Relay
	nodes  map[string]*pawlcluster.Node
	ended  []func()
}

// Three nodes, and workers that ask whoever answers: all runs end whichever node has the engine, for no other one answers.
// Both ways to give nodes a pool are tried: one for each life, and one for all lives.
func TestPoolsOfNodes(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	for _, inPool := range []bool{true, false} {
		t.Run(fmt.Sprint(inPool), func(t *testing.T) {
			x := &pooledTrial{t: t, dir: t.TempDir(), inPool: inPool, links: map[string]*servers.Relay{}, nodes: map[string]*pawlcluster.Node{}}
			s := startServer(t)
			server, port := s.ClientURL(), s.Addr().(*net.TCPAddr).Port
			x.conn = connect(t, server)
			names := []string{"a", "b", "c"}
			for _, name := range names {
				x.links[name] = servers.StartRelay(t, port)
				x.open(name)
			}
			startWorker := func() (stop func()) {
				return work(t, &natspool.Worker{Conn: connect(t, server), Capacity: 8}, pawl.Handlers{"work": number})
			}
			defer startWorker()()
			defer startWorker()()
			def, started := define(t, fanOut), []workflow.RunID{}
			for i := range 60 {
				if i%12 == 11 {
					x.takeOver(i/12%2 == 0)
				}
				id := workflow.RunID(fmt.Sprint("r", i))
				x.ask(func(ctx context.Context, e *pawl.Engine) error {
					return e.Start(ctx, workflow.Run{ID: id, Definition: def}, items(nodestrial.TasksOfRun))
				})
				started = append(started, id)
			}
			for _, id := range started {
				var out workflow.Outcome
				x.ask(func(ctx context.Context, e *pawl.Engine) (err error) {
					out, err = e.Wait(ctx, id)
					return err
				})
				require.Equal(t, workflow.RunCompleted, out.Status)
			}
			x.requireOneVoice()
			for _, n := range x.nodes {
				require.NoError(t, n.Close(t.Context()))
			}
			for _, end := range x.ended {
				end()
			}
		})
	}
}

// requireOneVoice requires that whoever has not the engine answers no worker, once nobody takes over.
func (x *pooledTrial) requireOneVoice() {
	require.Eventually(x.t, func() bool {
		answers, err := x.conn.SubscribeSync(x.conn.NewInbox())
		require.NoError(x.t, err)
		defer func() { require.NoError(x.t, answers.Unsubscribe()) }()
		const asked = 30
		for range asked {
			require.NoError(x.t, x.conn.PublishRequest("pawl.tasks.beat", answers.Subject, []byte(`{"worker": "test", "key": "unknown"}`)))
		}
		for range asked {
			m, err := answers.NextMsg(5 * time.Second)
			if err != nil || bytes.HasPrefix(m.Data, []byte(`{"status":"busy"`)) { // nobody, or one without the engine
				return false
			}
		}
		_, err = answers.NextMsg(300 * time.Millisecond)
		return err != nil // one answer to each
	}, patience, 100*time.Millisecond)
}

// open opens a node.
func (x *pooledTrial) open(name string) {
	conn := connect(x.t, natsURL(x.links[name].Port))
	var backend pawlcluster.Backend
	again(x.t, func() (err error) {
		backend, err = natscluster.Open(x.t.Context(), conn, natscluster.Options{})
		return err
	})
	o := pawlcluster.Options{Node: name, Term: 2 * time.Second, Engine: pawl.Options{Durability: pawl.ProcessCrash, Logger: slog.New(slog.DiscardHandler)}}
	newPool := func(ctx context.Context) (*natspool.Pool, error) {
		return natspool.New(ctx, conn, natspool.Options{Lease: 5 * time.Second, Republish: time.Second, Logger: slog.New(slog.DiscardHandler)})
	}
	if x.inPool {
		o.Pool = func(ctx context.Context) (pawlcluster.Pool, error) { return newPool(ctx) }
	} else {
		var pool *natspool.Pool
		again(x.t, func() (err error) { pool, err = newPool(x.t.Context()); return err })
		o.Engine.Executor, o.Opened = pool, pool.Attach
		x.ended = append(x.ended, func() { require.NoError(x.t, pool.Close(context.Background())) })
	}
	again(x.t, func() (err error) {
		x.nodes[name], err = pawlcluster.Open(x.t.Context(), filepath.Join(x.dir, name), backend, o)
		return err
	})
}

// takeOver has another node take over: that with the engine is closed and opened again, or cut off for a while.
func (x *pooledTrial) takeOver(closed bool) {
	x.requireOneVoice()
	owner := x.owner()
	if closed {
		require.NoError(x.t, x.nodes[owner].Close(x.t.Context()))
		x.open(owner)
		return
	}
	x.links[owner].Set(servers.Link{Down: true})
	<-time.After(4 * time.Second)
	x.links[owner].Set(servers.Link{})
}

// owner returns the node that has the engine, once there is one.
func (x *pooledTrial) owner() (owner string) {
	require.Eventually(x.t, func() bool {
		for name, n := range x.nodes {
			if n.Engine() != nil {
				owner = name
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond)
	return owner
}

// ask asks the engine until it answers, wherever it is.
func (x *pooledTrial) ask(question func(context.Context, *pawl.Engine) error) {
	var failed error
	for late := time.Now().Add(patience); time.Now().Before(late); {
		ctx, cancel := context.WithTimeout(x.t.Context(), 5*time.Second)
		failed = pawl.ErrClosed
		if e := x.nodes[x.owner()].Engine(); e != nil {
			failed = question(ctx, e)
		}
		cancel()
		if failed == nil {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	require.NoError(x.t, failed)
}
