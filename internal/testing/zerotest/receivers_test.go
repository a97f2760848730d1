package zerotest

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// Runs of the engines whose methods are called.
const (
	liveRun  = "live"
	endedRun = "ended"
)

const definition = `
name: work
start: split
nodes:
  - {id: split}
  - {id: work, task: work, input: {v: input.v}}
  - {id: gate, approval: {message: "'Agree?'"}}
  - {id: paid, wait: {event: paid}}
  - {id: stuck, task: broken, retry: {maxAttempts: 1, exhausted: park}}
transitions: [{from: split, to: work}, {from: split, to: gate}, {from: split, to: paid}, {from: split, to: stuck}]
`

// receivers returns values with methods: handles that are open and such that are
// closed, and the zero value of every other type.
func receivers(t *testing.T) (out []function) {
	for _, typ := range exportedTypes {
		if handles[typ] || typ.Kind() == reflect.Interface {
			continue
		}
		out = append(out, function{typ.String(), reflect.New(typ).Interface()})
	}
	live := engine(t)
	closed := engine(t)
	require.NoError(t, closed.Close(t.Context()))
	out = append(out, function{"pawl.Engine", live}, function{"pawl.Engine closed", closed}, function{"pawl.Engine zero", &pawl.Engine{}})

	dir, gone := directory(t), directory(t)
	g := compiled
	run := dir.New(store.Head{Run: "fresh", Definition: g.Hash}, dir.AddDefinition(g))
	lost := gone.New(store.Head{Run: "fresh", Definition: g.Hash}, gone.AddDefinition(g))
	require.NoError(t, gone.Close())
	out = append(out, inspected(t)...)
	out = append(out, function{"store.Dir", dir}, function{"store.Dir closed", gone}, function{"store.Run", run}, function{"store.Run closed", lost})

	files, shut := folder(t), folder(t)
	require.NoError(t, shut.Close())
	out = append(out, function{"blob.Files", files}, function{"blob.Files closed", shut}, function{"blob.Files zero", &blob.Files{}})

	pool, attached, ended := mustNew(worker.Options{}), mustNew(worker.Options{}), mustNew(worker.Options{})
	attached.Attach(live)
	require.NoError(t, ended.Close(t.Context()))
	server := httptest.NewServer(attached.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(func() { require.NoError(t, attached.Close(context.Background())) })
	out = append(out, function{"worker.Pool", pool}, function{"worker.Pool attached", attached}, function{"worker.Pool closed", ended})
	out = append(out, function{"worker.Client", &worker.Client{URL: server.URL}}, function{"worker.Client zero", &worker.Client{}})
	out = append(out, function{"actor.Actor", actor.New("a", nil, nil, actor.Options{})}, function{"actor.Actor zero", &actor.Actor{}})
	return append(out, function{"workflow.Graph", g},
		function{"workflow.GraphNode", g.Node("work")}, function{"workflow.GraphTransition", g.Transition("split->work")},
		function{"workflow.Schema", schema(t)})
}

func engine(t *testing.T) *pawl.Engine {
	e, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "engine"), pawl.Options{Executor: pawl.Handlers{
		"work": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	d, err := workflow.ParseYAML([]byte(definition))
	require.NoError(t, err)
	_, err = e.Publish(t.Context(), d)
	require.NoError(t, err)
	for _, id := range []workflow.RunID{liveRun, endedRun} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Workflow: "work"}, map[string]any{"v": 1}))
	}
	require.NoError(t, e.Cancel(t.Context(), endedRun, ""))
	return e
}

// inspected returns an inspection of the directory of an engine, and a run in it.
func inspected(t *testing.T) []function {
	path := filepath.Join(t.TempDir(), "closed")
	e, err := pawl.Open(t.Context(), path, pawl.Options{})
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: liveRun, Definition: compiled.Definition}, nil))
	require.NoError(t, e.Close(t.Context()))
	in, err := store.Inspect(path, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	s, err := in.Snapshot(liveRun)
	require.NoError(t, err)
	return []function{{"store.Inspection", in}, {"store.Snapshot", s}}
}

func directory(t *testing.T) *store.Dir {
	d, err := store.Open(filepath.Join(t.TempDir(), "dir"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func schema(t *testing.T) *workflow.Schema {
	s, err := workflow.CompileSchema(map[string]any{"type": "object", "required": []any{"a"}})
	require.NoError(t, err)
	return s
}

// compiled is a graph.
var compiled = func() *workflow.Graph {
	d, err := workflow.ParseYAML([]byte(definition))
	if err != nil {
		panic(err)
	}
	g, err := workflow.Compile(d)
	if err != nil {
		panic(err)
	}
	return g
}()

func folder(t *testing.T) *blob.Files {
	f, err := blob.OpenFiles(filepath.Join(t.TempDir(), "blobs"), blob.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// mustNew is worker.New with options that are good.
func mustNew(o worker.Options) *worker.Pool {
	p, err := worker.New(o)
	if err != nil {
		panic(err)
	}
	return p
}
