package browsertest

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// TestWorkersPage looks at the page of workers whose names are hostile and long, one at work and one idle.
func TestWorkersPage(t *testing.T) {
	pool, err := worker.New(worker.Options{NoToken: true})
	require.NoError(t, err)
	engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Executor: pool})
	require.NoError(t, err)
	pool.Attach(engine)
	t.Cleanup(func() {
		require.NoError(t, pool.Close(context.Background()))
		require.NoError(t, engine.Close(context.Background()))
	})
	begun, gate := make(chan struct{}, 2), make(chan struct{})
	require.NoError(t, pool.Start(worker.Registration{ID: hostile, Capacity: 2}, pawl.Handlers{"pack": func(context.Context, pawl.Task) (any, error) {
		begun <- struct{}{}
		<-gate
		return nil, nil
	}}))
	defer close(gate)
	require.NoError(t, pool.Start(worker.Registration{ID: strings.Repeat("w", 60), Capacity: 8}, pawl.Handlers{"print": func(context.Context, pawl.Task) (any, error) { return nil, nil }}))
	d, err := workflow.ParseYAML([]byte("name: one\nstart: pack\nnodes: [{id: pack, task: pack}]"))
	require.NoError(t, err)
	for _, tenant := range []string{"acme", "globex"} {
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: workflow.RunID("run of " + tenant), Definition: d, Tenant: tenant}, nil))
		<-begun
	}
	orphan, err := workflow.ParseYAML([]byte("name: orphan\nstart: weigh\nnodes: [{id: weigh, task: weigh}]"))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "orphan", Definition: orphan}, nil))
	server := httptest.NewServer(inspector.Handler(engine, inspector.Options{Name: "the shop"}))
	t.Cleanup(server.Close)
	openTab(t, openBrowser(t), view{width: 1400}).inspect(server.URL+"/", "workers")
}
