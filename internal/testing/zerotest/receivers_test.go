package zerotest

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
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

// receivers returns values with methods: handles that are open and such that are closed.
func receivers(t *testing.T) (out []function) {
	live := engine(t)
	closed := engine(t)
	require.NoError(t, closed.Close(t.Context()))
	out = append(out, function{"pawl.Engine", live}, function{"pawl.Engine closed", closed}, function{"pawl.Engine zero", &pawl.Engine{}})

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
	return append(out, function{"workflow.Graph", graph})
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

// graph is a graph.
var graph = func() *workflow.Graph {
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
