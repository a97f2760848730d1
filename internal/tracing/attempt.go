package tracing

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Task is what spans tell of an attempt.
type Task struct {
	Run     Run
	Node    workflow.NodeID
	Token   workflow.TokenID
	Type    string
	Attempt int
	Scope   workflow.Scope // of the token
}

// spanAttributes are those of an attempt.
func (k *Task) spanAttributes() []attribute.KeyValue {
	a := append(k.Run.spanAttributes(), nodeKey.String(string(k.Node)), tokenKey.Int64(int64(k.Token)), attemptKey.Int(k.Attempt), typeKey.String(k.Type))
	if k.Scope.Group != 0 {
		a = append(a, branchKey.Int(k.Scope.Branch))
	}
	return a
}

// An Outcome says how a handler has ended, for the attribute pawl.task.outcome.
type Outcome string

// The outcomes.
const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"
	Snoozed     Outcome = "snoozed"
	Pending     Outcome = "pending"     // the result comes later
	Interrupted Outcome = "interrupted" // by Close: the attempt is performed again
)

// An Attempt is the span around a handler. A nil Attempt makes none. One goroutine at a time has it.
type Attempt struct {
	span trace.Span
	code string
	at   time.Time // when the handler had returned
	now  func() time.Time
}

// Perform begins the span of an attempt, and returns it with the context of its handler.
func (t *Tracer) Perform(ctx context.Context, of Task, began time.Time) (context.Context, *Attempt) {
	if t == nil {
		return ctx, nil
	}
	span := t.startSpan(ctx, &of.Run, "task "+of.Type, began, trace.SpanKindConsumer, of.spanAttributes())
	return trace.ContextWithSpan(ctx, span), &Attempt{span: span, now: t.o.Now}
}

// Return notes that the handler has returned, and how.
func (a *Attempt) Return(o Outcome) {
	if a != nil {
		a.at = a.now()
		a.span.SetAttributes(outcomeKey.String(string(o)))
	}
}

// ReturnResult notes that the handler has returned with a result.
func (a *Attempt) ReturnResult(m state.Message) {
	if a == nil {
		return
	}
	switch m := m.(type) {
	case state.TaskCompleted:
		a.Return(Completed)
		a.span.SetAttributes(reportedAttributes(m.Metadata)...)
	case state.TaskFailed:
		a.Return(Failed)
		a.code = m.Failure.Code
		a.span.SetAttributes(reportedAttributes(m.Metadata)...)
	case state.TaskSnoozed:
		a.Return(Snoozed)
	default:
	}
}

// End ends the span, with the instant at which the handler has returned.
func (a *Attempt) End() {
	if a != nil {
		endSpan(a.span, a.at, a.code)
	}
}

// An Elsewhere is an attempt that was performed elsewhere: by a worker, or, as a Callback, after its handler had returned.
type Elsewhere struct {
	Task
	Began    time.Time
	Callback bool
}

// Ended makes the span of an attempt that was performed elsewhere, from its begin until now, with the code of its error; "" without.
func (t *Tracer) Ended(of Elsewhere, code string) {
	if t == nil {
		return
	}
	name, kind := "task "+of.Type, trace.SpanKindConsumer
	if of.Callback {
		name, kind = "wait result", trace.SpanKindInternal
	}
	endSpan(t.startSpan(context.Background(), &of.Run, name, of.Began, kind, of.spanAttributes()), t.o.Now(), code)
}

// maxReported bounds how many attributes of a handler a span has, and maxText their texts, in bytes.
const (
	maxReported = 64
	maxText     = 256
)

// reportedAttributes returns the attributes among the metadata of a result: those whose names are of the conventions for generative AI. They
// are copied as they are, but for lists, objects and long texts, which may be what people have written.
func reportedAttributes(metadata map[string]any) (out []attribute.KeyValue) {
	for name, v := range metadata {
		if !strings.HasPrefix(name, "gen_ai.") || len(out) == maxReported {
			continue
		}
		switch v := v.(type) {
		case string:
			if len(v) <= maxText {
				out = append(out, attribute.String(name, v))
			}
		case bool:
			out = append(out, attribute.Bool(name, v))
		case int64:
			out = append(out, attribute.Int64(name, v))
		case float64:
			out = append(out, attribute.Float64(name, v))
		default:
		}
	}
	return out
}
