package pawl_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

const threeTasks = `{name: three, start: s, nodes: [{id: s}, {id: a, task: a}, {id: b, task: b}, {id: c, task: c}],
	transitions: [{from: s, to: a}, {from: s, to: b}, {from: s, to: c}]}`

// A task that runs, one that queues and one whose result comes later can be told apart, and the
// engine counts them.
func TestWhatTasksAreDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		wait := func(context.Context, pawl.Task) (any, error) { <-release; return nil, nil }
		e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{
			"a": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }, "b": wait, "c": wait,
		}})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, threeTasks)}, nil))
		began := time.Now()
		<-time.After(time.Second)
		snap, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		var executing []workflow.NodeID
		for _, token := range snap.Tokens {
			if token.Executing {
				executing = append(executing, token.Node)
				require.True(t, began.Equal(token.Since))
			}
		}
		require.Equal(t, []workflow.NodeID{"b"}, executing)
		stats, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.Positive(t, stats.Commits)
		stats.Commits = 0
		require.Equal(t, pawl.Stats{Active: 1, Queued: 1, Running: 1, Pending: 1}, stats)
		close(release)
		synctest.Wait()
		stats, err = e.Stats(t.Context())
		require.NoError(t, err)
		stats.Commits = 0
		require.Equal(t, pawl.Stats{Active: 1, Pending: 1}, stats)
		require.NoError(t, e.Close(t.Context()))
	})
}
