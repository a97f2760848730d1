package pawl_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// Runs take turns: one with very many tasks does not keep the others waiting.
func TestRunsTakeTurns(t *testing.T) {
	const many = 500
	var mu sync.Mutex
	var order []workflow.RunID
	begun, gate := make(chan struct{}, 1), make(chan struct{})
	e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		mu.Lock()
		order = append(order, task.Run)
		mu.Unlock()
		select {
		case begun <- struct{}{}:
			<-gate // the first one waits until all are queued
		default:
		}
		return nil, nil
	}}})
	wide := define(t, "name: wide\nstart: a\nnodes: [{id: a}, {id: b, task: work}]\ntransitions: [{from: a, to: b, spawnCount: 500}]")
	one := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}, {id: b, task: work}]\ntransitions: [{from: a, to: b}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "wide", Definition: wide}, nil))
	<-begun
	for _, id := range []workflow.RunID{"x", "y", "z"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: one}, nil))
	}
	close(gate)
	for _, id := range []workflow.RunID{"x", "y", "z", "wide"} {
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	require.Len(t, order, many+6)
	last := map[workflow.RunID]int{}
	for i, id := range order {
		last[id] = i
	}
	require.Less(t, last["z"], many/2, "the runs of two tasks are done long before the wide one")
	require.Equal(t, []workflow.RunID{"wide", "wide", "x", "y", "z"}, order[:5])
}
