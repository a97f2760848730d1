package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
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
	polled, err := ann.Poll(ctx, time.Minute)
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
	polled, err = ben.Poll(ctx, time.Minute)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"row": int64(2)}, polled.Tasks[0].Details)
	require.NoError(t, ben.Complete(ctx, polled.Tasks[0], polled.Tasks[0].Details, nil))
	out, err := h.engine.Wait(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"from": map[string]any{"row": int64(2)}}, out.Output)
}

// Details that the engine refuses are the worker's fault, and end neither its task nor its lease.
func TestRefusedDetailsKeepTheTask(t *testing.T) {
	const missing = `{"$blob": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b856", "size": 7}`
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	ctx := t.Context()
	require.NoError(t, h.engine.Start(ctx, workflow.Run{ID: "r", Definition: define(t, copying)}, nil))
	ann := h.client("ann")
	_, err := ann.Register(ctx, "work")
	require.NoError(t, err)
	polled, err := ann.Poll(ctx, time.Minute)
	require.NoError(t, err)
	task := polled.Tasks[0]
	for name, details := range map[string]string{
		"no reference":   `{"$blob": "nonsense", "size": 3}`,
		"a missing blob": missing,
	} {
		text := fmt.Sprintf(`{"worker": "ann", "keys": [%[1]q], "details": {%[1]q: %s}}`, task.Key, details)
		response, err := h.server.Client().Post(h.server.URL+"/v1/heartbeat", "application/json", strings.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusBadRequest, response.StatusCode, name)
		require.Len(t, h.pool.Status().Active, 1, name)
	}
	require.ErrorIs(t, task.Heartbeat(ctx, json.RawMessage(missing)), pawl.ErrInvalid)
	_, err = task.Once(ctx, "", func(context.Context) (any, error) { return json.RawMessage(missing), nil })
	require.ErrorIs(t, err, pawl.ErrInvalid, "nobody waits for a blob that does not come")
	require.NoError(t, task.Heartbeat(ctx, "going on"))
	require.NoError(t, ann.Complete(ctx, task, nil, nil))
}
