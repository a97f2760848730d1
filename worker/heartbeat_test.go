package worker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

const copying = `
name: copy
start: a
nodes: [{id: a, task: work, heartbeat: 1m, retry: {maxAttempts: 2, initialInterval: 1ms}, output: {output.from: result}}]
`

// The details that a remote worker tells of its task reach the next attempt, at
// any worker. Details that are too large are refused, and the task goes on.
func TestDetailsOfARemoteWorker(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	ctx := t.Context()
	require.NoError(t, h.engine.Start(ctx, workflow.Run{ID: "r", Definition: define(t, copying)}, nil))
	ann, ben := h.client("ann"), h.client("ben")
	_, err := ann.Register(ctx, "work")
	require.NoError(t, err)
	polled, err := ann.Poll(ctx, 10*time.Second)
	require.NoError(t, err)
	task := polled.Tasks[0]
	require.Nil(t, task.Details)
	require.NoError(t, task.Heartbeat(ctx, map[string]any{"row": 1}))
	require.NoError(t, task.Heartbeat(ctx, map[string]any{"row": 2}))
	require.NoError(t, task.Heartbeat(ctx, nil))
	err = task.Heartbeat(ctx, strings.Repeat("x", limits.MaxDetails))
	require.ErrorIs(t, err, pawl.ErrInvalid)
	var limit *workflow.LimitError
	require.ErrorAs(t, err, &limit)
	require.NoError(t, ann.Complete(ctx, task, nil, pawl.TaskError{Code: "reset", Retryable: true}))
	require.NoError(t, ann.Leave(ctx))

	_, err = ben.Register(ctx, "work")
	require.NoError(t, err)
	polled, err = ben.Poll(ctx, 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"row": int64(2)}, polled.Tasks[0].Details)
	require.NoError(t, ben.Complete(ctx, polled.Tasks[0], polled.Tasks[0].Details, nil))
	out, err := h.engine.Wait(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"from": map[string]any{"row": int64(2)}}, out.Output)
}

// Thousands of heartbeats in a few requests are a record or two.
func TestHeartbeatsOfAWorkerAreMerged(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	ctx := t.Context()
	require.NoError(t, h.engine.Start(ctx, workflow.Run{ID: "r", Definition: define(t, copying)}, nil))
	ann := h.client("ann")
	_, err := ann.Register(ctx, "work")
	require.NoError(t, err)
	polled, err := ann.Poll(ctx, 10*time.Second)
	require.NoError(t, err)
	for range 3 {
		drop, err := ann.Heartbeat(ctx, slices.Repeat([]pawl.Key{polled.Tasks[0].Key}, 1000)...)
		require.NoError(t, err)
		require.Empty(t, drop)
	}
	records := 0
	for r, err := range h.engine.Journal(ctx, "r", pawl.EventsOptions{}) {
		require.NoError(t, err)
		if _, ok := r.Message.(state.Heartbeat); ok {
			records++
		}
	}
	require.Equal(t, 1, records)
	require.NoError(t, ann.Complete(ctx, polled.Tasks[0], nil, nil))
}
