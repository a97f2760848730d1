package cluster_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// askReady returns what a node answers to /readyz.
func askReady(t *testing.T, n *cluster.Node) (status int, body string) {
	w := httptest.NewRecorder()
	n.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	return w.Code, w.Body.String()
}

// An owner that has not renewed its lease for a term answers nobody, and says so. Its engine is there again with the next renewal, unless another
// node had the lease meanwhile and gave it back: then it is opened anew, for it does not know what that one has acknowledged.
func TestOwnerWhoseLeaseHasEnded(t *testing.T) {
	for _, rival := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x, dir := newTrial(t), t.TempDir()
			var told atomic.Pointer[cluster.Status]
			a := x.open(dir, "a", "", 9*time.Second, func(s cluster.Status) { told.Store(&s) })
			<-time.After(time.Second)
			before := a.Engine()
			require.NotNil(t, before)
			if rival {
				x.open(dir, "b", "", 9*time.Second, nil)
				<-time.After(5 * time.Second)
			}
			x.cut("a", true)
			<-time.After(5 * time.Second)
			require.True(t, a.Status().Serves, "the lease is still its own")
			code, _ := askReady(t, a)
			require.Equal(t, http.StatusOK, code)
			<-time.After(5 * time.Second)
			require.Nil(t, a.Engine())
			require.False(t, told.Load().Serves)
			require.Equal(t, *told.Load(), a.Status())
			require.Zero(t, a.Status().Owner)
			require.ErrorIs(t, a.Status().Err, errCut)
			code, body := askReady(t, a)
			require.Equal(t, http.StatusServiceUnavailable, code)
			require.Contains(t, body, "has not renewed its lease for a term")
			if rival {
				_, err := x.nodes["b"].Engine().Run(t.Context(), workflow.Run{ID: "two", Definition: x.def}, nil)
				require.NoError(t, err)
				require.NoError(t, x.nodes["b"].Close(t.Context()))
			}
			x.cut("a", false)
			for a.Engine() == nil {
				<-time.After(100 * time.Millisecond)
			}
			require.Equal(t, !rival, before == a.Engine())
			if rival {
				_, err := a.Engine().Summary(t.Context(), "two")
				require.NoError(t, err)
			}
			require.NoError(t, a.Close(t.Context()))
		})
	}
}

// A lease that ends is reported also where its node is late and the next renewal succeeds.
func TestALapseIsReportedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t)
		served := make(chan bool, 16)
		var late atomic.Bool
		a := x.open(t.TempDir(), "a", "", 9*time.Second, func(s cluster.Status) {
			served <- s.Serves
			if s.Serves && !late.Swap(true) {
				<-time.After(10 * time.Second) // the node does nothing meanwhile
			}
		})
		<-time.After(30 * time.Second)
		require.NotNil(t, a.Engine())
		require.NoError(t, a.Close(t.Context()))
		close(served)
		var told []bool
		for s := range served {
			told = append(told, s)
		}
		require.Equal(t, []bool{true, false, true}, told[:3])
	})
}

// The pool of an owner whose lease has ended is closed then, whether the cell refuses or is silent, and another one is made when the node is back.
func TestPoolOfAnOwnerWhoseLeaseHasEnded(t *testing.T) {
	for _, mute := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x := newTrial(t)
			x.cell.mute.Store(mute)
			var made atomic.Int64
			var ended atomic.Pointer[time.Time]
			x.pool = func(string) (cluster.Pool, error) {
				made.Add(1)
				p, err := worker.New(worker.Options{})
				return &lifePool{Pool: p, ended: func(bool) {
					now := time.Now()
					ended.Store(&now)
				}}, err
			}
			a := x.open(t.TempDir(), "a", "", 9*time.Second, nil)
			<-time.After(time.Second)
			cut := time.Now()
			x.cut("a", true)
			<-time.After(10 * time.Minute)
			require.NotNil(t, ended.Load(), "workers are not answered")
			require.LessOrEqual(t, ended.Load().Sub(cut), 9*time.Second)
			x.cut("a", false)
			<-time.After(30 * time.Second)
			require.NotNil(t, a.Engine())
			require.EqualValues(t, 2, made.Load())
			require.NoError(t, a.Close(t.Context()))
		})
	}
}

// openTwo opens two nodes, the first of which has the engine and a task that ends by its context, or by no means for three minutes. Then it is
// cut off until the second one has taken over.
func (x *trial) openTwo(grace time.Duration, stuck bool) (a, b *cluster.Node, fenced *pawl.Engine) {
	work := func(ctx context.Context, _ pawl.Task) (any, error) {
		if stuck {
			ctx = context.WithoutCancel(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Minute):
		}
		return nil, ctx.Err()
	}
	dir, o := x.t.TempDir(), cluster.Options{Term: 9 * time.Second, Engine: pawl.Options{Executor: pawl.Handlers{"work": work}, Grace: grace}}
	a = x.openWith(dir, "a", o)
	<-time.After(time.Second)
	o.Engine = pawl.Options{Executor: pawl.Handlers{}}
	b = x.openWith(dir, "b", o)
	<-time.After(5 * time.Second)
	fenced = a.Engine()
	require.NoError(x.t, fenced.Start(x.t.Context(), workflow.Run{ID: "one", Definition: x.def}, nil))
	x.cut("a", true)
	<-time.After(30 * time.Second)
	require.NotNil(x.t, b.Engine())
	x.cut("a", false)
	return a, b, fenced
}

// A node that has lost the engine to another one knows that while its own closes, and for good: calls are passed on.
func TestDeposedNodeKnowsTheOwner(t *testing.T) {
	for _, fenceFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b, fenced := newTrial(t).openTwo(25*time.Second, false)
			if fenceFirst {
				require.ErrorIs(t, fenced.Cancel(t.Context(), "one", "to see"), pawl.ErrFenced)
			}
			<-time.After(time.Second)
			for range 60 {
				require.Equal(t, "b", a.Status().Owner.Node)
				<-time.After(time.Second)
			}
			require.NoError(t, a.Close(t.Context()))
			require.NoError(t, b.Close(t.Context()))
		})
	}
}

// Close returns when its context is done, also if the node is closing an engine by itself, whose handler does not return.
func TestCloseOfANodeThatClosesItsEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := newTrial(t).openTwo(0, true)
		<-time.After(4 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := a.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorAs(t, err, new(*pawl.LeftBehindError))
		require.Equal(t, time.Second, time.Since(began))
		require.NoError(t, b.Close(t.Context()))
		<-time.After(5 * time.Minute)
	})
}

// The lease is renewed while the function Opened runs, however long. Close does not wait for it for ever, and what goes on can be waited for.
func TestOpenedThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, dir, o := newTrial(t), t.TempDir(), cluster.Options{Term: 9 * time.Second, Engine: pawl.Options{Executor: pawl.Handlers{}}}
		o.Opened = func(*pawl.Engine) { <-time.After(2 * time.Minute) }
		a := x.openWith(dir, "a", o)
		<-time.After(time.Second)
		o.Opened = nil
		b := x.openWith(dir, "b", o)
		<-time.After(time.Minute)
		require.Nil(t, b.Engine(), "the other one has the lease")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, a.Close(ctx), context.DeadlineExceeded)
		require.Less(t, time.Since(began), 10*time.Second)
		require.NoError(t, a.Close(t.Context()))
		<-time.After(time.Second)
		require.NotNil(t, b.Engine(), "at once")
		require.NoError(t, b.Close(t.Context()))
	})
}
