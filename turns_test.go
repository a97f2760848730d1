package pawl_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A firstHeld performs tasks. The first one waits until gate is closed, so that all others are queued behind it.
type firstHeld struct {
	begun, gate chan struct{}

	mu   sync.Mutex
	runs []workflow.RunID
}

// Execute implements pawl.Executor.
func (f *firstHeld) Execute(_ context.Context, task pawl.Task) (any, error) {
	f.mu.Lock()
	f.runs = append(f.runs, task.Run)
	f.mu.Unlock()
	select {
	case f.begun <- struct{}{}:
		<-f.gate
	default:
	}
	return nil, nil
}

// order returns the runs of the tasks that have begun.
func (f *firstHeld) order() []workflow.RunID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.runs)
}

// Runs take turns: one with very many tasks does not keep the others waiting.
func TestRunsTakeTurns(t *testing.T) {
	const many = 500
	tasks := &firstHeld{begun: make(chan struct{}, 1), gate: make(chan struct{})}
	e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Durability: pawl.ProcessCrash, Executor: tasks})
	wide := define(t, "name: wide\nstart: a\nnodes: [{id: a}, {id: b, task: work}]\ntransitions: [{from: a, to: b, spawnCount: 500}]")
	one := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}, {id: b, task: work}]\ntransitions: [{from: a, to: b}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "wide", Definition: wide}, nil))
	<-tasks.begun
	for _, id := range []workflow.RunID{"x", "y", "z"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: one}, nil))
	}
	close(tasks.gate)
	for _, id := range []workflow.RunID{"x", "y", "z", "wide"} {
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	order := tasks.order()
	require.Len(t, order, many+6)
	last := map[workflow.RunID]int{}
	for i, id := range order {
		last[id] = i
	}
	require.Less(t, last["z"], many/2, "the runs of two tasks are done long before the wide one")
	require.Equal(t, []workflow.RunID{"wide", "wide", "x", "y", "z"}, order[:5])
}
