package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// beating returns a definition with one task, which is to be heard of within a time.
func beating(within time.Duration) *workflow.Definition {
	return &workflow.Definition{Name: "beat", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "work", Heartbeat: within}}}
}

// A node's heartbeat is that of the worker.
func TestTheHeartbeatOfANode(t *testing.T) {
	onEngine(t, func(t *testing.T, p *Pool, e *pawl.Engine) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: beating(500 * time.Millisecond)}, nil))
		ann := client(p, "ann", 1)
		task := held(t, ann)
		for range 10 {
			pass(100 * time.Millisecond)
			drop, err := ann.Heartbeat(t.Context(), task.Key)
			require.NoError(t, err)
			require.Empty(t, drop)
		}
		require.NoError(t, ann.Complete(t.Context(), task, "alive", nil))
		out, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		require.NoError(t, out.Err())
	})
}

// Thousands of heartbeats in a few requests are one record.
func TestHeartbeatsOfAWorkerAreMerged(t *testing.T) {
	onEngine(t, func(t *testing.T, p *Pool, e *pawl.Engine) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: beating(time.Minute)}, nil))
		ann := client(p, "ann", 1)
		task := held(t, ann)
		for range 3 {
			drop, err := ann.Heartbeat(t.Context(), slices.Repeat([]pawl.Key{task.Key}, 1000)...)
			require.NoError(t, err)
			require.Empty(t, drop)
		}
		records := 0
		for r, err := range e.Journal(t.Context(), "r", pawl.EventsOptions{}) {
			require.NoError(t, err)
			if _, ok := r.Message.(state.Heartbeat); ok {
				records++
			}
		}
		require.Equal(t, 1, records)
		require.NoError(t, ann.Complete(t.Context(), task, nil, nil))
	})
}
