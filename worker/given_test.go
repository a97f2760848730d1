package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// A worker, in the process or elsewhere, may return JSON and readers, which it reads before it reports. A reader that fails is a failure of the
// attempt; one without JSON is a bad result.
func TestWorkersReturnReaders(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	text := `{"a":"` + strings.Repeat("<größer> ", 500) + `"}`
	handler := func(_ context.Context, task pawl.Task) (any, error) {
		switch {
		case task.Run == "torn":
			return strings.NewReader(`{"a":`), nil
		case task.Attempt == 1:
			return iotest.ErrReader(errors.New("line cut")), nil
		case task.Run == "raw":
			return json.RawMessage(text), nil
		}
		return pawl.Result{Output: io.NopCloser(strings.NewReader(text)), Metadata: map[string]any{"rows": 1}}, nil
	}
	require.NoError(t, h.pool.Start(worker.Registration{ID: "here"}, pawl.Handlers{"here": handler}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.client("ann").Run(ctx, pawl.Handlers{"there": handler}) }()
	var want any
	require.NoError(t, json.Unmarshal([]byte(text), &want))
	for _, where := range []string{"here", "there"} {
		d := define(t, "name: "+where+"\nstart: w\nnodes: [{id: w, task: "+where+", retry: {maxAttempts: 2, initialInterval: 1ms}, output: {output.all: result}}]")
		for _, run := range []workflow.RunID{"raw", "reader", "torn"} {
			out, err := h.engine.Run(t.Context(), workflow.Run{ID: run, Definition: d}, nil)
			require.NoError(t, err)
			if run == "torn" {
				require.Equal(t, workflow.CodeInvalidResult, out.Failure.Code)
				require.Contains(t, out.Failure.Message, "end of text")
			} else {
				require.NoError(t, out.Err())
				require.Equal(t, want, out.Output["all"])
			}
			require.NoError(t, h.engine.Purge(t.Context(), run))
		}
	}
	stop()
	require.NoError(t, <-ended)
}
