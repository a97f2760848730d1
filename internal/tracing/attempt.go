package tracing

import (
	"context"
	"strings"
	"sync"
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

// appendAttributes appends the attributes of an attempt.
func (k *Task) appendAttributes(a []attribute.KeyValue) []attribute.KeyValue {
	a = append(k.Run.appendAttributes(a), nodeKey.String(string(k.Node)), tokenKey.Int64(int64(k.Token)), attemptKey.Int(k.Attempt), typeKey.String(k.Type))
	if k.Scope.Group != 0 {
		a = append(a, branchKey.Int(k.Scope.Branch))
	}
	return a
}

// An Outcome says how an attempt has ended, for the attribute pawl.task.outcome.
type Outcome string

// The outcomes.
const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"
	Snoozed     Outcome = "snoozed"
	Cancelled   Outcome = "cancelled"   // the run does not want it any more
	Pending     Outcome = "pending"     // the result comes later
	Interrupted Outcome = "interrupted" // by Close: the attempt is performed again
)

// An Attempt is the span around a handler. A nil Attempt makes none. The span is begun, as of the instant at which the handler was, when
// somebody asks for it, and else when the attempt is over: most handlers make no spans, and one that is told all at once costs half.
type Attempt struct {
	tracer *Tracer
	of     Task
	began  time.Time

	mu       sync.Mutex
	span     trace.Span // nil before it is begun
	reported []attribute.KeyValue
	at       time.Time // when the handler had returned
	over     bool      // the span has ended, or will soon, or none is made

	fate    sync.Mutex // of those below: the provider, which may be slow, is called with mu
	outcome Outcome    // as the handler says, until the run has decided
	code    string
	decided bool
}

// Perform returns the span of an attempt whose handler begins.
func (t *Tracer) Perform(of Task, began time.Time) *Attempt {
	if t == nil {
		return nil
	}
	return &Attempt{tracer: t, of: of, began: began}
}

// A keyProbe is a context that notes which key it was asked for.
type keyProbe struct {
	context.Context //nolint:containedctx // the others of its methods
	key             any
}

// Value implements context.Context.
func (p *keyProbe) Value(key any) any {
	p.key = key
	return nil
}

// spanKey is the key under which contexts have spans.
var spanKey = func() any {
	p := keyProbe{Context: context.Background()}
	trace.SpanFromContext(&p)
	return p.key
}()

// Value is for the method of this name of a context that is in the span: ok is false if key asks for something else. Where no span is begun
// any more, that is the start span of the run.
func (a *Attempt) Value(key any) (span any, ok bool) {
	if a == nil || key != spanKey {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over && a.span == nil {
		return trace.SpanFromContext(a.tracer.parents.parse(a.of.Run.Trace).ctx), true
	}
	return a.spanWith(), true
}

// spanWith returns the span, with these attributes if it is begun now. The lock is held.
func (a *Attempt) spanWith(more ...attribute.KeyValue) trace.Span {
	if a.span == nil {
		to := borrowAttributes()
		defer to.giveBack()
		to.list = append(a.of.appendAttributes(to.list), more...)
		a.span = a.tracer.startSpan(&a.of.Run, "task "+a.of.Type, a.began, consumer, to.list)
		return a.span
	}
	a.span.SetAttributes(more...)
	return a.span
}

// Return notes that the handler has returned, and how.
func (a *Attempt) Return(o Outcome) {
	if a != nil {
		a.noteReturn(o, nil, "")
	}
}

func (a *Attempt) noteReturn(o Outcome, metadata map[string]any, code string) {
	at := a.tracer.o.Now()
	a.mu.Lock()
	a.reported, a.at = reportedAttributes(metadata), at
	a.mu.Unlock()
	a.noteFate(o, code, false)
}

// noteFate notes how the attempt has ended, unless the run has decided it.
func (a *Attempt) noteFate(o Outcome, code string, decided bool) {
	a.fate.Lock()
	defer a.fate.Unlock()
	if !a.decided {
		a.outcome, a.code, a.decided = o, code, decided
	}
}

// Decide notes how the attempt has ended by what its run has committed, whatever the handler returns, or has returned. The first call counts.
func (a *Attempt) Decide(end End) {
	if a != nil {
		a.noteFate(end.Outcome, end.Code, true)
	}
}

// ReturnResult notes that the handler has returned with a result.
func (a *Attempt) ReturnResult(m state.Message) {
	if a == nil {
		return
	}
	switch m := m.(type) {
	case state.TaskCompleted:
		a.noteReturn(Completed, m.Metadata, "")
	case state.TaskFailed:
		a.noteReturn(Failed, m.Metadata, m.Failure.Code)
	case state.TaskSnoozed:
		a.noteReturn(Snoozed, nil, "")
	default:
	}
}

// Drop makes no span, as somebody else performs the attempt: from now on the start span stands for it. If the span was begun, it ends with
// the outcome Pending: it may have spans below it.
func (a *Attempt) Drop() {
	if a == nil {
		return
	}
	a.mu.Lock()
	begun := a.span != nil
	a.over = a.over || !begun
	a.mu.Unlock()
	if begun {
		a.Return(Pending)
		a.End()
	}
}

// End ends the span, once, with the instant at which the handler has returned.
func (a *Attempt) End() {
	if a == nil {
		return
	}
	a.mu.Lock()
	before, seen := a.over, a.span != nil
	a.over = true
	a.mu.Unlock()
	switch {
	case before:
	case seen: // spans of the handler's own are below it
		a.tellSpan()
	default:
		a.tracer.late.tellLater(a.tellSpan)
	}
}

// tellSpan ends the span.
func (a *Attempt) tellSpan() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fate.Lock()
	outcome, code := a.outcome, a.code
	a.fate.Unlock()
	more := a.reported
	if outcome != "" {
		more = append(more, outcomeKey.String(string(outcome)))
	}
	endSpan(a.spanWith(more...), a.at, code)
}

// An Elsewhere is an attempt that was performed elsewhere: by a worker, or, as a Callback, after its handler had returned.
type Elsewhere struct {
	Task
	Began    time.Time
	Callback bool
}

// An End is how the attempt of a token has ended.
type End struct {
	Outcome Outcome
	Code    string        // of its error; "" without
	Message state.Message // of the record that says so, which may be about another token
}

// Ended makes the span of an attempt that was performed elsewhere, from its begin until now.
func (t *Tracer) Ended(of Elsewhere, end End) {
	if t != nil {
		t.writeElsewhere(of, end)
	}
}

// writeElsewhere makes the span of an attempt that was performed elsewhere.
func (t *Tracer) writeElsewhere(of Elsewhere, end End) {
	name, kind := "task "+of.Type, consumer
	if of.Callback {
		name, kind = "wait result", internal
	}
	var reported []attribute.KeyValue
	if id, metadata := state.MetadataOf(end.Message); id == of.Token {
		reported = reportedAttributes(metadata)
	}
	reported = append(reported, outcomeKey.String(string(end.Outcome)))
	at, code := t.o.Now(), end.Code
	t.late.tellLater(func() {
		to := borrowAttributes()
		defer to.giveBack()
		to.list = append(of.appendAttributes(to.list), reported...)
		endSpan(t.startSpan(&of.Run, name, of.Began, kind, to.list), at, code)
	})
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
