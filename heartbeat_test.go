package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

const beating = `
name: beat
start: w
nodes: [{id: w, task: w, heartbeat: 10s, retry: {maxAttempts: 3, initialInterval: 1s, jitter: 0}, output: {output.from: result.from}}]
`

// pendingTask starts the run a of a definition whose tasks wait for a call from
// outside, and returns the engine and the tasks as they come.
func pendingTask(t *testing.T, dir, yaml string) (*pawl.Engine, chan pawl.Task) {
	t.Helper()
	tasks := make(chan pawl.Task, 10)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"w": func(_ context.Context, t pawl.Task) (any, error) {
		tasks <- t
		return nil, pawl.ErrPending
	}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close(context.WithoutCancel(t.Context())) })
	if yaml != "" {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, yaml)}, nil))
	}
	return e, tasks
}

// heartbeats returns the heartbeats in the journal of the run a.
func heartbeats(t *testing.T, e *pawl.Engine) (out []state.Heartbeat) {
	t.Helper()
	for r, err := range e.Journal(t.Context(), "a") {
		require.NoError(t, err)
		if m, ok := r.Message.(state.Heartbeat); ok {
			out = append(out, m)
		}
	}
	return out
}

// Thousands of heartbeats within a tenth of the interval are two records: the first of
// them, and what the others come to. The last details are in the second, and Inspect
// shows them.
func TestHeartbeatsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tasks := pendingTask(t, t.TempDir(), beating)
		task := <-tasks
		for n := range 3000 {
			require.NoError(t, task.Heartbeat(t.Context(), map[string]any{"n": n}))
		}
		require.NoError(t, task.Heartbeat(t.Context(), nil))
		require.Equal(t, 1, len(heartbeats(t, e)))
		passTime(time.Second)
		told := heartbeats(t, e)
		require.Equal(t, 2, len(told))
		require.Equal(t, map[string]any{"n": int64(2999)}, told[1].Details)
		snap, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"n": int64(2999)}, snap.Tokens[0].Details)
		require.NoError(t, e.Complete(t.Context(), task.Key, nil))
		require.ErrorIs(t, task.Heartbeat(t.Context(), nil), pawl.ErrStale)
	})
}

// An attempt that is never silent for its interval does not time out because some of
// its heartbeats were merged.
func TestMergedHeartbeatsKeepAnAttemptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tasks := pendingTask(t, t.TempDir(), beating)
		task := <-tasks
		for range 5 {
			require.NoError(t, task.Heartbeat(t.Context(), nil))
			passTime(900 * time.Millisecond)
			require.NoError(t, task.Heartbeat(t.Context(), nil))
			passTime(9900 * time.Millisecond)
		}
		require.NoError(t, e.Complete(t.Context(), task.Key, map[string]any{"from": task.Attempt}))
		out, err := e.Wait(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"from": int64(1)}, out.Output)
	})
}

// The details that wait to be told come with the error or the snooze of their attempt,
// and when the engine closes.
func TestTheLastDetailsAreNotLost(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, e *pawl.Engine, task pawl.Task) error{
		"fail": func(t *testing.T, e *pawl.Engine, task pawl.Task) error {
			return e.Fail(t.Context(), task.Key, errors.New("no"))
		},
		"snooze": func(t *testing.T, e *pawl.Engine, task pawl.Task) error {
			return e.Fail(t.Context(), task.Key, pawl.Snooze(0))
		},
		"close": func(t *testing.T, e *pawl.Engine, task pawl.Task) error { return e.Close(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				e, tasks := pendingTask(t, dir, beating)
				task := <-tasks
				require.Nil(t, task.Details)
				require.NoError(t, task.Heartbeat(t.Context(), 1))
				require.NoError(t, task.Heartbeat(t.Context(), 2))
				require.NoError(t, end(t, e, task))
				if name == "close" {
					_, tasks = pendingTask(t, dir, "")
				}
				require.Equal(t, int64(2), (<-tasks).Details)
			})
		})
	}
}

// A handler that fails by itself hands its last details on.
func TestTheLastDetailsOfAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"w": func(ctx context.Context, t pawl.Task) (any, error) {
			if t.Attempt == 3 {
				return map[string]any{"from": t.Details}, nil
			}
			_ = t.Heartbeat(ctx, map[string]any{"row": 0})
			_ = t.Heartbeat(ctx, map[string]any{"row": t.Attempt})
			return nil, errors.New("reset")
		}}})
		out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, beating)}, nil)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"from": map[string]any{"row": int64(2)}}, out.Output)
	})
}

// Details are values of a bounded size.
func TestDetailsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tasks := pendingTask(t, t.TempDir(), beating)
		task := <-tasks
		require.NoError(t, task.Heartbeat(t.Context(), strings.Repeat("x", pawl.MaxDetails-2)))
		err := task.Heartbeat(t.Context(), strings.Repeat("x", pawl.MaxDetails-1))
		require.ErrorIs(t, err, pawl.ErrInvalid)
		var limit *workflow.LimitError
		require.ErrorAs(t, err, &limit)
		assert.Equal(t, int64(pawl.MaxDetails), limit.Max)
		require.ErrorContains(t, err, "the details of a heartbeat")
		require.ErrorIs(t, task.Heartbeat(t.Context(), make(chan int)), pawl.ErrInvalid)
		require.Error(t, task.Heartbeat(t.Context(), map[string]any{"$blob": "sha256:" + strings.Repeat("0", 64), "size": 1}))
		require.Len(t, heartbeats(t, e), 1)
	})
}

// Inspect counts the branches of a group.
func TestInspectCountsBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const yaml = `
name: spread
start: s
nodes: [{id: s}, {id: w, task: w}, {id: z}]
transitions:
  - {from: s, to: w, spawnCount: 9, siblingGroup: g, maxConcurrency: 4}
  - {from: w, to: z, synchronization: {siblingGroup: g, tolerate: {failures: 9}}}
`
		e, tasks := pendingTask(t, t.TempDir(), yaml)
		first, second := <-tasks, <-tasks
		require.NoError(t, e.Complete(t.Context(), first.Key, nil))
		require.NoError(t, e.Fail(t.Context(), second.Key, errors.New("no")))
		synctest.Wait()
		snap, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		g := snap.Groups[0]
		assert.Equal(t, []int{9, 1, 0, 1, 4}, []int{g.Total, g.Arrived, g.Ended, g.Failed, g.Running})
	})
}

// passTime lets time pass in the bubble.
func passTime(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
