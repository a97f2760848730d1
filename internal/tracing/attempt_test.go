package tracing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/spantest"
)

// The start span stands for an attempt that is performed elsewhere, unless the span of that was begun, which ends then.
func TestDroppedAttempts(t *testing.T) {
	var p spantest.Provider
	tracer := New(Options{Provider: &p, Now: time.Now})
	start := &state.Trace{Parent: "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01", At: time.Now().UnixMilli()}
	for _, of := range []*state.Trace{start, nil} {
		quiet := tracer.Perform(Task{Run: Run{ID: "r", Workflow: "w", Trace: of}, Type: "quiet"}, time.Now())
		quiet.Drop()
		got, ok := quiet.Value(spanKey)
		require.True(t, ok)
		require.Equal(t, contextOf(of), got.(trace.Span).SpanContext())
		quiet.End()
	}
	begun := tracer.Perform(Task{Run: Run{ID: "r", Workflow: "w", Trace: start}, Type: "begun"}, time.Now())
	before, _ := begun.Value(spanKey)
	begun.Drop()
	after, _ := begun.Value(spanKey)
	require.Same(t, before, after)
	begun.Drop()
	begun.End()
	tracer.Close(t.Context())
	told := p.Find(t, "task begun")
	require.Equal(t, "pending", told.Attributes["pawl.task.outcome"])
	require.Equal(t, 1, p.Begun())
	require.Len(t, p.Spans(), 1)
}
