package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// A slowStore takes its time for each blob that is read.
type slowStore struct {
	blob.Store
	takes time.Duration
}

func (s slowStore) Open(ctx context.Context, hash string) (io.ReadCloser, error) {
	<-time.After(s.takes)
	return s.Store.Open(ctx, hash)
}

// A lifePool is a pool that tells how it is treated.
type lifePool struct {
	*worker.Pool
	engine *pawl.Engine
	ended  func(engineWorks bool)
}

func (p *lifePool) Attach(e *pawl.Engine) {
	p.engine = e
	p.Pool.Attach(e)
}

func (p *lifePool) Close(ctx context.Context) error {
	_, err := p.engine.Executor()
	p.ended(err == nil)
	return p.Pool.Close(ctx)
}

// Only the node with the engine has a pool: it is made when the engine is open, whose tasks wait for it, and closed before the engine. A node
// whose pool cannot be made lets others have the lease.
func TestPoolsLiveWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, dir := newTrial(t), t.TempDir()
		var mu sync.Mutex
		open, made, refused := map[string]int{}, 0, ""
		x.pool = func(node string) (cluster.Pool, error) {
			mu.Lock()
			defer mu.Unlock()
			if node == refused {
				return nil, errors.New("no broker")
			}
			p, err := worker.New(worker.Options{})
			if err != nil {
				return nil, err
			}
			open[node], made = open[node]+1, made+1
			work := func(context.Context, pawl.Task) (any, error) { return int64(1), nil }
			return &lifePool{Pool: p, ended: func(engineWorks bool) {
				require.True(t, engineWorks, "the pool is closed before its engine")
				mu.Lock()
				defer mu.Unlock()
				open[node]--
			}}, p.Start(worker.Registration{ID: "here", Capacity: 4}, pawl.Handlers{"work": work})
		}
		for _, name := range []string{"a", "b", "c"} {
			x.open(dir, name, "", 9*time.Second, nil)
			<-time.After(2 * time.Second)
		}
		run := func(id workflow.RunID) {
			serving := x.serving()
			require.Len(t, serving, 1)
			e := x.nodes[serving[0]].Engine()
			executor, err := e.Executor()
			require.NoError(t, err)
			require.IsType(t, &lifePool{}, executor, "who asks the engine finds the pool")
			out, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: x.def}, nil)
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
			mu.Lock()
			defer mu.Unlock()
			for name := range x.nodes {
				require.Equal(t, name == serving[0], open[name] == 1, "%s has %d pools", name, open[name])
			}
		}
		run("one")
		for i := range 4 {
			owner := x.serving()[0]
			if i%2 == 0 {
				x.cut(owner, true)
			} else {
				require.NoError(t, x.nodes[owner].Close(t.Context()))
				x.open(dir, owner, "", 9*time.Second, nil)
			}
			<-time.After(30 * time.Second)
			x.cut(owner, false)
			<-time.After(10 * time.Second)
			run(workflow.RunID(fmt.Sprint("run-", i)))
		}
		require.Equal(t, 5, made, "a life each")

		owner := x.serving()[0]
		for name := range x.nodes {
			if name != owner {
				refused = name // one of the two that wait; the other one gets it
			}
		}
		require.NoError(t, x.nodes[owner].Close(t.Context()))
		delete(x.nodes, owner)
		<-time.After(30 * time.Second)
		require.NotEqual(t, []string{refused}, x.serving())
		run("last")
		for _, n := range x.nodes {
			require.NoError(t, n.Close(t.Context()))
		}
		require.Zero(t, open["a"]+open["b"]+open["c"])
	})
}

// A node whose only pool cannot be made says so, and tries again.
func TestPoolThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t)
		tries := 0
		x.pool = func(string) (cluster.Pool, error) {
			if tries++; tries < 3 {
				return nil, errors.New("no broker")
			}
			return worker.New(worker.Options{})
		}
		n := x.open(t.TempDir(), "a", "", 9*time.Second, nil)
		<-time.After(5 * time.Second)
		require.ErrorContains(t, n.Status().Err, "make the pool: no broker")
		require.Equal(t, cluster.Owner{}, n.Status().Owner, "others may have it")
		require.Nil(t, n.Engine())
		<-time.After(30 * time.Second)
		require.NotNil(t, n.Engine())
		require.Equal(t, 3, tries)
		require.NoError(t, n.Close(t.Context()))
	})
}

// An owner that comes back without its directory, before its term is over, gives the lease to a node that has stood by, and needs no time; without
// such a node, it takes the lease back. An owner that comes back with its directory keeps the lease.
func TestOwnerWithoutItsDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, dir := newTrial(t), t.TempDir()
		const term, slow = 9 * time.Second, 20 * time.Second
		comeBack := func(wipe bool) *cluster.Node {
			x.cut("a", true) // its lease stays, as that of a node that dies
			_ = x.nodes["a"].Close(t.Context())
			x.cut("a", false)
			if wipe {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "a")))
			}
			return x.open(dir, "a", "", term, nil)
		}
		a := x.open(dir, "a", "", term, nil)
		<-time.After(time.Second)
		_, err := a.Engine().Run(t.Context(), workflow.Run{ID: "one", Definition: x.def}, nil)
		require.NoError(t, err)
		b := x.open(dir, "b", "", term, nil)
		<-time.After(5 * time.Second)

		x.slow = slow
		comeBack(false)
		<-time.After(time.Second)
		require.Equal(t, []string{"a"}, x.serving(), "it is not behind")

		a = comeBack(true)
		<-time.After(2 * time.Second)
		require.Equal(t, []string{"b"}, x.serving(), "it has the directory")
		out, err := b.Engine().Wait(t.Context(), "one")
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)

		require.NoError(t, a.Close(t.Context()))
		require.NoError(t, b.Close(t.Context()))
		delete(x.nodes, "b")
		x.slow = 0
		x.open(dir, "a", "", term, nil)
		<-time.After(time.Second)
		require.Equal(t, []string{"a"}, x.serving())
		x.slow = slow
		a = comeBack(true)
		began := time.Now()
		for a.Engine() == nil {
			<-time.After(100 * time.Millisecond)
			require.Less(t, time.Since(began), 10*time.Minute)
		}
		require.Greater(t, time.Since(began), term, "others had their time")
		require.NoError(t, a.Close(t.Context()))
	})
}

// A node that is closed waits for handlers as long as its context and the grace of its engine allow.
func TestCloseWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, dir := newTrial(t), t.TempDir()
		n := 0
		work := func(ctx context.Context, _ pawl.Task) (any, error) {
			if n++; n > 1 {
				return nil, nil
			}
			select {
			case <-time.After(40 * time.Second):
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		o := cluster.Options{Term: 9 * time.Second, Engine: pawl.Options{Grace: time.Minute, Executor: pawl.Handlers{"work": work}}}
		a := x.openWith(dir, "a", o)
		<-time.After(time.Second)
		require.NoError(t, a.Engine().Start(t.Context(), workflow.Run{ID: "one", Definition: x.def}, nil))
		<-time.After(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		b := x.openWith(t.TempDir(), "b", o) // it does not take over what is still being closed
		require.NoError(t, a.Close(ctx))
		require.Nil(t, b.Engine())
		require.NoError(t, b.Close(t.Context()))
		a = x.openWith(dir, "a", o)
		<-time.After(time.Second)
		out, err := a.Engine().Wait(t.Context(), "one")
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
		require.Equal(t, 2, n, "each task once")
		require.NoError(t, a.Close(t.Context()))
	})
}

// A node whose clock is not that of the servers says so, and logs it once. A node that was stopped for hours, and finds a stamp in between, does
// not.
func TestClockOfANode(t *testing.T) {
	for _, apart := range []time.Duration{3 * time.Hour, -3 * time.Hour, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			x, dir := newTrial(t), t.TempDir()
			var logged bytes.Buffer
			x.logger = slog.New(slog.NewTextHandler(&logged, nil))
			x.cell.apart = -apart // that of the nodes is ahead
			var told []time.Duration
			a := x.open(dir, "a", "", 9*time.Second, func(s cluster.Status) { told = append(told, s.Clock) })
			<-time.After(time.Minute)
			b := x.open(dir, "b", "", 9*time.Second, nil)
			<-time.After(time.Minute)
			synctest.Wait()
			for _, n := range []*cluster.Node{a, b} {
				ahead := n.Status().Clock
				if apart.Abs() < time.Minute {
					require.Zero(t, ahead)
					continue
				}
				require.InDelta(t, apart.Seconds(), ahead.Seconds(), 5)
				require.LessOrEqual(t, ahead.Abs(), apart.Abs(), "at least")
			}
			if apart.Abs() >= time.Minute {
				require.NotZero(t, told[len(told)-1])
				require.Equal(t, 2, strings.Count(logged.String(), "the clock of this node is not that of the servers"), "each node once")
			}
			x.cell.mu.Lock()
			x.cell.apart = 0
			x.cell.mu.Unlock()
			<-time.After(time.Minute)
			require.Zero(t, a.Status().Clock, "it is right again")
			require.Zero(t, b.Status().Clock)
			x.cut("b", true) // as long as it does not look, any instant may be that of the next claim
			<-time.After(2 * time.Hour)
			x.cut("b", false)
			<-time.After(5 * time.Second)
			require.Zero(t, b.Status().Clock)
			require.NoError(t, a.Close(t.Context()))
			require.NoError(t, b.Close(t.Context()))
		})
	}
}
