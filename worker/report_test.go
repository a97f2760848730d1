package worker_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// Inspect names the worker to which a pool has given a task; a task that waits in the pool is
// not executed.
func TestWhichWorkerHasATask(t *testing.T) {
	pool, err := worker.New(worker.Options{})
	require.NoError(t, err)
	e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pool})
	require.NoError(t, err)
	pool.Attach(e)
	def, err := workflow.ParseYAML([]byte(`{name: two, start: s, nodes: [{id: s}, {id: a, task: a}, {id: b, task: b}], transitions: [{from: s, to: a}, {from: s, to: b}]}`))
	require.NoError(t, err)
	begun, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, pool.Start(worker.Registration{ID: "ann"}, pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { close(begun); <-release; return nil, nil }}))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	<-begun
	workers := map[workflow.NodeID]string{}
	for token, err := range e.Tokens(t.Context(), "r", pawl.TokenFilter{}) {
		require.NoError(t, err)
		if token.Worker != "" {
			require.True(t, token.Executing)
			workers[token.Node] = token.Worker
		}
	}
	require.Equal(t, map[workflow.NodeID]string{"a": "ann"}, workers)
	close(release)
	require.NoError(t, pool.Close(t.Context()))
	require.NoError(t, e.Close(t.Context()))
}
