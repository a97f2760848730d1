package tracing_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/workflow"
)

// A hangingProvider has spans of tasks that do not end before it goes on, as those of a processor that exports each to a collector which
// hangs.
type hangingProvider struct {
	*spantest.Provider
	goesOn chan struct{}
}

func (h hangingProvider) Tracer(name string, o ...trace.TracerOption) trace.Tracer {
	return hangingTracer{h.Provider.Tracer(name, o...), h.goesOn}
}

type hangingTracer struct {
	trace.Tracer
	goesOn chan struct{}
}

func (h hangingTracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, span := h.Tracer.Start(ctx, name, o...)
	if !strings.HasPrefix(name, "task ") {
		return ctx, span
	}
	return ctx, hangingSpan{span, h.goesOn}
}

type hangingSpan struct {
	trace.Span
	goesOn chan struct{}
}

func (h hangingSpan) End(o ...trace.SpanEndOption) {
	<-h.goesOn
	h.Span.End(o...)
}

// A provider that takes no spans holds a Close up no longer than its context, and some seconds; the directory is free then.
func TestCloseDoesNotWaitForAProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, dir := hangingProvider{&spantest.Provider{}, make(chan struct{})}, t.TempDir()
		e, err := pawl.Open(t.Context(), dir, pawl.Options{TracerProvider: h, Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
		require.NoError(t, err)
		_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, "name: w\nstart: b\nnodes: [{id: b, task: t}]")}, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.NoError(t, e.Close(ctx))
		require.LessOrEqual(t, time.Since(began), time.Minute+5*time.Second)
		require.GreaterOrEqual(t, time.Since(began), time.Minute)
		e, err = pawl.Open(t.Context(), dir, pawl.Options{})
		require.NoError(t, err)
		require.NoError(t, e.Close(t.Context()))
		close(h.goesOn)
		settle()
		require.Len(t, h.Named("task t"), 1)
	})
}
