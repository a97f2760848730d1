package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/commitlog"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

func TestMain(m *testing.M) { harness.VerifyTestMain(m) }

// A memoryCell is a Cell.
type memoryCell struct {
	mu    sync.Mutex
	value cluster.Value
	apart time.Duration // how far its clock is ahead of that of the nodes
	mute  atomic.Bool   // whoever does not reach it waits for an answer
}

// A view is a memoryCell as one node sees it.
type view struct {
	*memoryCell
	cut func() bool // it does not reach it
}

var errCut = errors.New("the cell does not answer")

func (v view) Read(ctx context.Context) (cluster.Value, error) {
	if v.cut() {
		if v.mute.Load() {
			<-ctx.Done()
		}
		return cluster.Value{}, errCut
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, nil
}

func (v view) Write(_ context.Context, value []byte, revision uint64) (uint64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.cut():
		return 0, errCut
	case revision != v.value.Revision:
		return 0, cluster.ErrChanged
	}
	v.value = cluster.Value{Data: value, Revision: revision + 1, Written: time.Now().Add(v.apart)}
	return v.value.Revision, nil
}

// A trial is what some nodes share, and what a test knows of them.
type trial struct {
	t            *testing.T
	log          logtest.Memory
	cell         memoryCell
	bases, blobs *blob.Files
	def          *workflow.Definition
	remote       pawl.RemoteOptions                      // of the nodes
	pool         func(node string) (cluster.Pool, error) // nil for handlers in the process
	logger       *slog.Logger
	slow         time.Duration   // what each reading of a base takes
	access       cluster.Options // API, HTTP and PassOn of the nodes; without Identify everybody is ann, with all rights

	mu     sync.Mutex
	cutOff map[string]bool // nodes that reach neither the cell nor the log
	nodes  map[string]*cluster.Node
}

const definition = `{"name": "w", "start": "a", "nodes": [{"id": "a", "task": "work"}, {"id": "b", "task": "work"}], "transitions": [{"from": "a", "to": "b"}]}`

func newTrial(t *testing.T) *trial {
	x := &trial{t: t, cutOff: map[string]bool{}, nodes: map[string]*cluster.Node{}}
	for name, s := range map[string]**blob.Files{"bases": &x.bases, "blobs": &x.blobs} {
		files, err := blob.OpenFiles(filepath.Join(t.TempDir(), name), blob.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = files.Close() })
		*s = files
	}
	var err error
	x.def, err = workflow.ParseYAML([]byte(definition))
	require.NoError(t, err)
	return x
}

func (x *trial) isCut(node string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cutOff[node]
}

func (x *trial) cut(node string, off bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cutOff[node] = off
}

// open opens a node in a directory of its own. report may be nil.
func (x *trial) open(dir, name, address string, term time.Duration, report func(cluster.Status)) *cluster.Node {
	engine := pawl.Options{Remote: x.remote, Logger: x.logger}
	var pool func(context.Context) (cluster.Pool, error)
	if x.pool != nil {
		pool = func(context.Context) (cluster.Pool, error) { return x.pool(name) }
	} else {
		engine.Executor = pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return int64(1), nil }}
	}
	o := x.access
	o.Address, o.Term, o.Report, o.Engine, o.Pool = address, term, report, engine, pool
	return x.openWith(dir, name, o)
}

// openWith is open with options of the caller's.
func (x *trial) openWith(dir, name string, o cluster.Options) *cluster.Node {
	o.Node = name
	if o.API.Identify == nil {
		o.API.Identify = func(*http.Request) (string, api.Rights, error) { return "ann", api.All, nil }
	}
	n, err := cluster.Open(x.t.Context(), filepath.Join(dir, name), cluster.Backend{
		NewLog: func(context.Context) (commitlog.Log, error) {
			return x.log.Writer(func(string) logtest.Fault {
				if x.isCut(name) {
					return logtest.Refused
				}
				return logtest.None
			}), nil
		},
		Bases: slowStore{x.bases, x.slow}, Blobs: x.blobs, Lease: view{&x.cell, func() bool { return x.isCut(name) }},
	}, o)
	require.NoError(x.t, err)
	x.nodes[name] = n
	return n
}

// serving returns the names of the nodes that have the engine open.
func (x *trial) serving() (names []string) {
	for name, n := range x.nodes {
		if n.Engine() != nil {
			names = append(names, name)
		}
	}
	return names
}

// One node has the engine, another one takes over when that is gone, and at once when it is closed; what was acknowledged is
// there.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, dir := newTrial(t), t.TempDir()
		a := x.open(dir, "a", "", 9*time.Second, nil)
		<-time.After(time.Second)
		require.NotNil(t, a.Engine())
		require.Equal(t, cluster.Status{Owner: cluster.Owner{Node: "a"}, Serves: true}, a.Status())
		b := x.open(dir, "b", "", 9*time.Second, nil)
		<-time.After(time.Hour)
		require.Equal(t, []string{"a"}, x.serving(), "whoever has the lease keeps it")
		require.Equal(t, "a", b.Status().Owner.Node)
		_, err := a.Engine().Run(t.Context(), workflow.Run{ID: "one", Definition: x.def}, nil)
		require.NoError(t, err)

		<-time.After(2 * time.Second)
		require.FileExists(t, filepath.Join(dir, "b", "pawl.db"), "it stands by")

		x.cut("a", true)
		<-time.After(9*time.Second + time.Second)
		require.NotNil(t, b.Engine())
		_, err = b.Engine().Run(t.Context(), workflow.Run{ID: "two", Definition: x.def}, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if e := a.Engine(); e != nil { // it does not know yet
			require.Error(t, e.Start(ctx, workflow.Run{ID: "three", Definition: x.def}, nil))
		}
		x.cut("a", false)
		<-time.After(time.Minute)
		require.Equal(t, []string{"b"}, x.serving())
		require.Equal(t, "b", a.Status().Owner.Node)

		require.NoError(t, b.Close(t.Context()))
		require.Zero(t, b.Status(), "it neither serves nor owns")
		delete(x.nodes, "b")
		<-time.After(time.Second)
		require.Equal(t, []string{"a"}, x.serving(), "at once")
		for _, id := range []workflow.RunID{"one", "two"} {
			out, err := a.Engine().Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
		}
		_, err = a.Engine().Summary(t.Context(), "three")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		require.NoError(t, a.Close(t.Context()))
		require.NoError(t, a.Close(t.Context()))
	})
}

// A node makes bases as often as its options say, and reports them.
func TestNodesMakeBases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t)
		var last atomic.Pointer[pawl.RemoteReport]
		x.remote = pawl.RemoteOptions{Rebase: time.Minute, Report: func(r pawl.RemoteReport) { last.Store(&r) }}
		n := x.open(t.TempDir(), "a", "", time.Second, nil)
		<-time.After(time.Second)
		for range 3 {
			before := time.Now()
			_, err := n.Engine().Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint(before.Unix())), Definition: x.def}, nil)
			require.NoError(t, err)
			<-time.After(2 * time.Minute)
			require.True(t, last.Load().Base.After(before))
		}
		require.NoError(t, n.Close(t.Context()))
	})
}

// A log that loses its end gets it again from the node that has appended it: from the owner, which keeps the lease, or when that has died, from
// whoever has it all, while a node that stood by has only a part of it.
func TestNodesMendTheirLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, dir := newTrial(t), t.TempDir()
		a := x.open(dir, "a", "", 9*time.Second, nil)
		<-time.After(time.Second)
		b := x.open(dir, "b", "", 9*time.Second, nil)
		run := func(id workflow.RunID) {
			_, err := a.Engine().Run(t.Context(), workflow.Run{ID: id, Definition: x.def}, nil)
			require.NoError(t, err)
		}
		run("one")
		<-time.After(5 * time.Second) // b has seen that
		_, seen := x.log.Bounds()
		run("two")
		x.log.Lose(seen - 1)
		require.ErrorIs(t, a.Engine().Start(t.Context(), workflow.Run{ID: "three", Definition: x.def}, nil), pawl.ErrCorrupt)
		<-time.After(5 * time.Second)
		require.Equal(t, []string{"a"}, x.serving(), "it keeps the lease")
		run("three")

		<-time.After(5 * time.Second)
		_, seen = x.log.Bounds()
		run("four")
		require.NoError(t, a.Close(t.Context()))
		x.log.Lose(seen - 1)
		<-time.After(5 * time.Second)
		require.ErrorIs(t, b.Status().Err, pawl.ErrCorrupt)
		a = x.open(dir, "a", "", 9*time.Second, nil)
		<-time.After(time.Minute)
		require.Equal(t, []string{"a"}, x.serving())
		for _, id := range []workflow.RunID{"one", "two", "three", "four"} {
			out, err := a.Engine().Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
		}
		require.NoError(t, a.Close(t.Context()))
		delete(x.nodes, "a")
		<-time.After(time.Minute)
		require.Equal(t, []string{"b"}, x.serving(), "it has got what it knew")
		require.NoError(t, b.Close(t.Context()))
	})
}

// Whichever nodes are cut off, closed or lose their directory: nothing that was acknowledged is missing, and when all is well again
// exactly one node has the engine.
func TestNodesThroughFaults(t *testing.T) {
	for seed := range harness.Figure[uint64](3, 60, 3000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newTrial(t).play(rand.New(rand.NewPCG(seed, 5))) })
		})
	}
}

func (x *trial) play(r *rand.Rand) {
	const term = 9 * time.Second
	dir, names := x.t.TempDir(), []string{"a", "b", "c"}
	for _, name := range names {
		x.open(dir, name, "", term, nil)
	}
	acked := map[workflow.RunID]bool{}
	for i := range 20 + r.IntN(20) {
		name := names[r.IntN(len(names))]
		switch r.IntN(5) {
		case 0:
			x.cut(name, true)
		case 1:
			x.cut(name, false)
		case 2:
			ctx, cancel := context.WithTimeout(x.t.Context(), time.Second)
			_ = x.nodes[name].Close(ctx) // it may have lost the log
			cancel()
			if r.IntN(2) == 0 {
				<-time.After(time.Minute) // Close may go on behind its context
				require.NoError(x.t, os.RemoveAll(filepath.Join(dir, name)))
			}
			x.open(dir, name, "", term, nil)
		}
		<-time.After(time.Duration(r.IntN(20000)) * time.Millisecond)
		for at, n := range x.nodes {
			e := n.Engine()
			if e == nil {
				continue
			}
			id := workflow.RunID(fmt.Sprint(at, i))
			ctx, cancel := context.WithTimeout(x.t.Context(), 5*time.Second)
			if _, err := e.Run(ctx, workflow.Run{ID: id, Definition: x.def}, nil); err == nil {
				acked[id] = true
				if r.IntN(4) == 0 {
					x.loseEnd(e, workflow.RunID(fmt.Sprint("lost", i)))
				}
			}
			cancel()
		}
	}
	for _, name := range names {
		x.cut(name, false)
	}
	<-time.After(5 * time.Minute)
	serving := x.serving()
	require.Len(x.t, serving, 1)
	e := x.nodes[serving[0]].Engine()
	for id := range acked {
		out, err := e.Wait(x.t.Context(), id)
		require.NoError(x.t, err, "%s was acknowledged", id)
		require.Equal(x.t, workflow.RunCompleted, out.Status)
	}
	require.NotEmpty(x.t, acked)
	for _, name := range names {
		require.NoError(x.t, x.nodes[name].Close(x.t.Context()))
	}
}

// loseEnd has the log lose what the owner has just appended. It notices, and goes on.
func (x *trial) loseEnd(e *pawl.Engine, id workflow.RunID) {
	_, last := x.log.Bounds()
	x.log.Lose(last - 2)
	ctx, cancel := context.WithTimeout(x.t.Context(), 5*time.Second)
	defer cancel()
	require.ErrorIs(x.t, e.Start(ctx, workflow.Run{ID: id, Definition: x.def}, nil), pawl.ErrCorrupt)
	<-time.After(5 * time.Second)
}

// openServed opens two nodes that answer over HTTP at the addresses that it returns: the first has the engine. await
// returns when ok holds, and looks whenever a node has reported.
func (x *trial) openServed() (a, b *cluster.Node, atA, atB string, await func(ok func() bool)) {
	dir, changed := x.t.TempDir(), make(chan struct{}, 64)
	await = func(ok func() bool) {
		for !ok() {
			<-changed
		}
	}
	open := func(name string) (*cluster.Node, string) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { x.nodes[name].ServeHTTP(w, r) }))
		x.t.Cleanup(s.Close)
		return x.open(dir, name, s.URL, 10*time.Minute, func(cluster.Status) { changed <- struct{}{} }), s.URL
	}
	a, atA = open("a")
	await(func() bool { return a.Engine() != nil })
	b, atB = open("b")
	return a, b, atA, atB, await
}

// Every node answers the API, whichever has the engine.
func TestCallsArePassedOn(t *testing.T) {
	x := newTrial(t)
	a, b, _, atB, await := x.openServed()
	_, err := b.Client().Start(t.Context(), "early", api.Start{Definition: []byte(definition), By: "ann", Reason: "to see"})
	if err != nil {
		require.ErrorIs(t, err, cluster.ErrNoOwner) // it has not looked yet
	}
	await(func() bool { return b.Status().Owner.Node == "a" })
	for name, c := range map[workflow.RunID]*api.Client{"a": a.Client(), "b": b.Client(), "web": api.NewClient(atB, nil)} {
		_, err := c.Start(t.Context(), name, api.Start{Definition: []byte(definition), By: "ann", Reason: "to see"})
		require.NoError(t, err)
		out, err := c.Wait(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
	}
	slashed := *x.def
	slashed.Name = "shop/w"
	_, err = b.Client().Publish(t.Context(), &slashed)
	require.NoError(t, err, "the slash in its name divides no path")
	require.NoError(t, a.Close(t.Context()))
	await(func() bool { return b.Engine() != nil })
	out, err := b.Client().Wait(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
	require.NoError(t, b.Close(t.Context()))
	_, err = b.Client().Wait(t.Context(), "web")
	require.ErrorIs(t, err, cluster.ErrNoOwner, "it was the owner")
	answer, err := http.Get(atB + "/v1/engine")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "1", answer.Header.Get("Retry-After"))
	require.NoError(t, answer.Body.Close())
	http.DefaultClient.CloseIdleConnections()
}

// Options that cannot be those of a node are refused.
func TestOptionsOfNodes(t *testing.T) {
	x := newTrial(t)
	good := cluster.Backend{NewLog: func(context.Context) (commitlog.Log, error) { return nil, nil }, Bases: x.bases, Blobs: x.blobs, Lease: view{&x.cell, nil}}
	for _, c := range []struct {
		path string
		b    cluster.Backend
		o    cluster.Options
	}{
		{"", good, cluster.Options{}},
		{"data", cluster.Backend{}, cluster.Options{}},
		{"data", good, cluster.Options{Term: time.Millisecond}},
		{"data", good, cluster.Options{Address: "localhost:8080"}},
		{"data", good, cluster.Options{Address: "10.0.0.7:8080"}},
		{"data", good, cluster.Options{Address: "ftp://localhost"}},
		{"data", good, cluster.Options{Address: "http:///api"}},
		{"data", good, cluster.Options{Engine: pawl.Options{Blobs: x.blobs}}},
		{"data", good, cluster.Options{
			Engine: pawl.Options{Executor: pawl.Handlers{}}, Pool: func(context.Context) (cluster.Pool, error) { return nil, nil },
		}},
		{"data", good, cluster.Options{Engine: pawl.Options{Remote: pawl.RemoteOptions{StandBy: make(chan struct{})}}}},
		{"data", good, cluster.Options{Engine: pawl.Options{Remote: pawl.RemoteOptions{Detach: true}}}},
	} {
		_, err := cluster.Open(t.Context(), c.path, c.b, c.o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	var none *cluster.Node
	require.ErrorIs(t, none.Close(t.Context()), pawl.ErrClosed)
	require.Nil(t, none.Engine())
	require.Nil(t, none.Client())
	require.Zero(t, none.Status())
}
