package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/traceparent"
)

// A Beginning is the start span of a run that is about to be committed. A nil Beginning makes none.
type Beginning struct {
	tracer *Tracer
	span   trace.Span
	trace  *state.Trace // nil without a span
	at     time.Time
}

// startSpans are start spans of runs about which nothing is decided yet, by the texts of their ids. The zero value has none.
type startSpans struct {
	mu   sync.Mutex
	some map[string]*Beginning
}

func (t *Tracer) startRun(ctx context.Context, r Run, o ...trace.SpanStartOption) *Beginning {
	now := t.o.Now()
	o = append(o, producer, trace.WithTimestamp(now), trace.WithAttributes(r.appendAttributes(nil)...))
	_, span := t.tracer.Start(ctx, "start "+r.Workflow, o...)
	b := &Beginning{tracer: t, span: span, at: now}
	if parent, more := traceparent.Format(span.SpanContext()); parent != "" {
		b.trace = &state.Trace{Parent: parent, State: more, At: now.UnixMilli()}
	}
	return b
}

// Trace returns what the message that begins the run has to say; nil without a span.
func (b *Beginning) Trace() *state.Trace {
	if b == nil {
		return nil
	}
	return b.trace
}

// End ends the span, at the instant of its begin. It comes before the commit: what refers to the span finds it.
func (b *Beginning) End() {
	if b != nil && b.trace != nil {
		b.span.End(trace.WithTimestamp(b.at))
	}
}

// Await has the span end when the commit begins that has the message with its trace. Settle must follow.
func (b *Beginning) Await() {
	if b == nil || b.trace == nil {
		return
	}
	of := &b.tracer.starts
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.some == nil {
		of.some = map[string]*Beginning{}
	}
	of.some[b.trace.Parent] = b
}

// Settle is the end of Await, when the answer to the message has come. The span was never there if the run was refused; it ends if
// nobody knows whether there is such a run.
func (b *Beginning) Settle(refused bool) {
	if b != nil && b.trace != nil && b.tracer.starts.takeSpan(b.trace) != nil && !refused {
		b.End()
	}
}

// takeSpan returns the start span with which a trace begins, once; nil if none is awaited.
func (of *startSpans) takeSpan(begun *state.Trace) *Beginning {
	of.mu.Lock()
	defer of.mu.Unlock()
	b := of.some[begun.Parent]
	delete(of.some, begun.Parent)
	return b
}

// CommitBegins ends the start span of the run that records begin, if they do.
func (t *Tracer) CommitBegins(records []decision.Record) {
	if t == nil || records[0].Seq != 1 {
		return
	}
	if m, ok := records[0].Message.(state.Start); ok && m.Trace != nil {
		t.starts.takeSpan(m.Trace).End()
	}
}
