package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// The logger of a handler is that of its engine or worker, in each process, with the same keys; in a span it has the id of the trace.
func TestLoggerOfAHandler(t *testing.T) {
	for _, name := range []string{"engine", "pool", "client"} {
		for _, traced := range []bool{false, true} {
			var log bytes.Buffer // its lines are written before the run ends
			var p spantest.Provider
			logger := slog.New(slog.NewTextHandler(&log, nil))
			handlers := pawl.Handlers{"t": func(ctx context.Context, _ pawl.Task) (any, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				pawl.Logger(ctx).Info("here", "mine", 1)
				return nil, nil
			}}
			o := pawl.Options{Executor: handlers, Logger: logger}
			if traced {
				o.TracerProvider = &p
			}
			pool, err := worker.New(worker.Options{Token: "secret", Logger: logger})
			require.NoError(t, err)
			if name != "engine" {
				o.Executor = pool
			}
			if name != "engine" {
				o.Logger = slog.New(slog.DiscardHandler)
			}
			e, err := pawl.Open(t.Context(), t.TempDir(), o)
			require.NoError(t, err)
			pool.Attach(e)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			switch name {
			case "pool":
				require.NoError(t, pool.Start(worker.Registration{ID: "near", Capacity: 1}, handlers))
			case "client":
				server := httptest.NewServer(pool.Handler())
				t.Cleanup(server.Close)
				c := &worker.Client{URL: server.URL, Token: "secret", ID: "far", Logger: logger}
				go func() { done <- c.Run(ctx, handlers) }()
			}
			d, err := workflow.ParseYAML([]byte("name: w\nstart: s\nnodes: [{id: s}, {id: a, task: t}]\ntransitions: [{from: s, to: a}]"))
			require.NoError(t, err)
			_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
			require.NoError(t, err)
			cancel()
			if name == "client" {
				<-done
			}
			require.NoError(t, pool.Close(t.Context()))
			require.NoError(t, e.Close(t.Context()))
			want := "msg=here run=r workflow=w node=a token=2 attempt=1 task=t"
			if traced {
				want += " trace_id=" + p.Find(t, "start w").Trace
			}
			require.Regexp(t, regexp.QuoteMeta(want+" mine=1\n"), log.String(), name)
		}
	}
}

func TestLoggerOutsideOfAHandler(t *testing.T) {
	require.Same(t, slog.Default(), pawl.Logger(t.Context()))
	require.Same(t, slog.Default(), pawl.Logger(nil)) //nolint:staticcheck // a nil context has no task
}
