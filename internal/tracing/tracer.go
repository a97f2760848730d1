package tracing

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/traceparent"
	"github.com/pawl-run/pawl/workflow"
)

// Scope is the name under which the spans are made.
const Scope = "github.com/pawl-run/pawl"

// The names of attributes.
const (
	runKey      = attribute.Key("pawl.run.id")
	workflowKey = attribute.Key("pawl.workflow.name")
	versionKey  = attribute.Key("pawl.workflow.version")
	statusKey   = attribute.Key("pawl.run.status")
	nodeKey     = attribute.Key("pawl.node.id")
	tokenKey    = attribute.Key("pawl.token.id")
	attemptKey  = attribute.Key("pawl.attempt")
	branchKey   = attribute.Key("pawl.branch.index")
	typeKey     = attribute.Key("pawl.task.type")
	outcomeKey  = attribute.Key("pawl.task.outcome")
	groupKey    = attribute.Key("pawl.group.name")
	branchesKey = attribute.Key("pawl.group.branches")
	errorKey    = attribute.Key("error.type")
)

// Options say where spans go.
type Options struct {
	Provider  trace.TracerProvider // nil makes none
	LinkAfter time.Duration        // for how long a run has one trace; negative for ever
	Now       func() time.Time
}

// Sources are what the spans of waits are made from. Both are needed.
type Sources struct {
	// EndAttempt calls Decide of the attempt of a token, or Ended if that is performed elsewhere, once.
	EndAttempt func(run workflow.RunID, token workflow.TokenID, end End)
	// Events returns the events of a run, from the one behind a sequence on.
	Events func(ctx context.Context, run workflow.RunID, after int64) iter.Seq2[decision.Event, error]
}

// A Tracer makes spans. A nil one makes none: all its methods do nothing. They may be called from any goroutine, and with any lock
// held.
type Tracer struct {
	o       Options
	tracer  trace.Tracer
	sources Sources // set by Watch
	parents parents

	ctx   context.Context //nolint:containedctx // of the reads; done when Close is called
	stop  context.CancelFunc
	reads sync.WaitGroup

	late   lateList
	starts startSpans
	kept   atomic.Int64 // stays, for readers without the lock

	mu      sync.Mutex
	books   map[workflow.RunID]*book // of runs in which something waits
	stays   int                      // in all books
	reading int                      // runs whose events are read
	queue   []waitRead               // whose events are read then
	unread  int                      // waits of both
}

// New returns the tracer of an engine; nil without a provider.
func New(o Options) *Tracer {
	if o.Provider == nil {
		return nil
	}
	t := &Tracer{o: o, tracer: o.Provider.Tracer(Scope), books: map[workflow.RunID]*book{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// Watch has the spans of waits made from sources. It is called once, before a run commits.
func (t *Tracer) Watch(s Sources) {
	if t != nil {
		t.sources = s
	}
}

// lastPatience is for how long Close waits for the provider to take the last spans, when its context is done: less than the close of the
// engine has then, which releases the directory behind it.
const lastPatience = 2 * time.Second

// Close waits for spans that are being made, until ctx is done, and until the provider has taken them, for some time more. A provider
// that holds them up for longer gets them when it goes on. It is called when no run commits any more.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	taken := make(chan struct{})
	go func() { // until the provider has taken the last span
		defer close(taken)
		defer context.AfterFunc(ctx, t.stop)()
		t.reads.Wait()
		t.stop()
		t.late.close()
	}()
	select {
	case <-taken:
		return
	case <-ctx.Done():
	}
	timer := time.NewTimer(lastPatience)
	defer timer.Stop()
	select {
	case <-taken:
	case <-timer.C:
	}
}

// A Run is what spans tell of a run.
type Run struct {
	ID       workflow.RunID
	Workflow string
	Version  int
	Trace    *state.Trace // nil without
}

// RunBy returns what spans tell of a run that executes a definition.
func RunBy(id workflow.RunID, d *workflow.Definition, of *state.Trace) Run {
	return Run{id, d.Name, max(d.Version, 1), of}
}

// appendAttributes appends the attributes of a run.
func (r *Run) appendAttributes(a []attribute.KeyValue) []attribute.KeyValue {
	return append(a, runKey.String(string(r.ID)), workflowKey.String(r.Workflow), versionKey.Int(r.Version))
}

// Begin makes the start span of a run, below the caller's. Without End, or Await, it was never there.
func (t *Tracer) Begin(ctx context.Context, r Run) *Beginning {
	if t == nil {
		return nil
	}
	return t.startRun(ctx, r)
}

// BeginApart makes the start span of a run that has a trace of its own, though it comes from a run with a trace: it links to that, and
// to the caller's span.
func (t *Tracer) BeginApart(ctx context.Context, r Run, from *state.Trace) *Beginning {
	if t == nil {
		return nil
	}
	o := []trace.SpanStartOption{trace.WithNewRoot()}
	for _, sc := range []trace.SpanContext{contextOf(from), trace.SpanContextFromContext(ctx)} {
		if sc.IsValid() {
			o = append(o, trace.WithLinks(trace.Link{SpanContext: sc}))
		}
	}
	return t.startRun(context.WithoutCancel(ctx), r, o...)
}

// BeginFork makes the start span of a fork, which m makes from a run with these records, and tells m of it. A run that comes from
// elsewhere keeps the trace that it has.
func (t *Tracer) BeginFork(ctx context.Context, m *state.RunForked, name string, version int, records []decision.Record) *Beginning {
	if t == nil || m.Moved {
		return nil
	}
	var from *state.Trace
	for i := range records {
		switch m := records[i].Message.(type) {
		case state.Start:
			from = m.Trace
		case state.RunForked:
			if !m.Moved {
				from = m.Trace
			}
		default:
		}
	}
	b := t.BeginApart(ctx, Run{ID: m.Run, Workflow: name, Version: max(version, 1)}, from)
	m.Trace = b.Trace()
	return b
}

// IsOld reports whether the spans of a trace are traces of their own by now.
func (t *Tracer) IsOld(of *state.Trace) bool {
	return t != nil && of != nil && t.o.LinkAfter >= 0 && t.o.Now().Sub(time.UnixMilli(of.At)) > t.o.LinkAfter
}

// contextOf returns the span that a trace begins with; one that is not valid if there is none.
func contextOf(of *state.Trace) trace.SpanContext {
	if of == nil {
		return trace.SpanContext{}
	}
	return traceparent.Parse(of.Parent, of.State)
}

// The kinds of spans, as options.
var (
	producer = trace.WithSpanKind(trace.SpanKindProducer)
	consumer = trace.WithSpanKind(trace.SpanKindConsumer)
	internal = trace.WithSpanKind(trace.SpanKindInternal)
)

// attributeLists are lists for startSpan: the option that a tracer gets copies what is in them.
var attributeLists = sync.Pool{New: func() any { return &attributeList{list: make([]attribute.KeyValue, 0, 16)} }}

// An attributeList is a list of attributes that is used again.
type attributeList struct{ list []attribute.KeyValue }

func borrowAttributes() *attributeList {
	l, _ := attributeLists.Get().(*attributeList)
	return l
}

func (l *attributeList) giveBack() {
	clear(l.list)
	l.list = l.list[:0]
	attributeLists.Put(l)
}

// startSpan begins a span of a run at an instant: below its start span, or in a trace of its own, with a link to that. A sampler sees
// the attributes of a span that begins a trace. Below a start span it goes by that, and attributes are set behind the begin, which spares
// their copies, and those of spans that are sampled away.
func (t *Tracer) startSpan(r *Run, name string, at time.Time, kind trace.SpanStartOption, attributes []attribute.KeyValue) trace.Span {
	parent := t.parents.parse(r.Trace)
	if parent.IsValid() && !t.IsOld(r.Trace) {
		_, span := t.tracer.Start(parent.ctx, name, trace.WithTimestamp(at), kind)
		if span.IsRecording() {
			span.SetAttributes(attributes...)
		}
		return span
	}
	o := []trace.SpanStartOption{trace.WithTimestamp(at), kind, trace.WithAttributes(attributes...), trace.WithNewRoot()}
	if parent.IsValid() {
		o = append(o, trace.WithLinks(trace.Link{SpanContext: parent.SpanContext}))
	}
	_, span := t.tracer.Start(context.Background(), name, o...)
	return span
}

// A parent is a start span, and a context in it.
type parent struct {
	trace.SpanContext
	ctx context.Context //nolint:containedctx // it has nothing but the span
	of  state.Trace
}

// noParent is that of a run without a trace.
var noParent = &parent{}

// parents are those that were parsed last, by two digits of their ids: the spans of a run have one.
type parents [256]atomic.Pointer[parent]

// parse returns the start span that a trace begins with; one that is not valid if there is none.
func (p *parents) parse(of *state.Trace) *parent {
	if of == nil || len(of.Parent) < 5 {
		return noParent
	}
	slot := &p[of.Parent[3]<<4^of.Parent[4]]
	if known := slot.Load(); known != nil && known.of == *of {
		return known
	}
	sc := contextOf(of)
	made := &parent{sc, trace.ContextWithRemoteSpanContext(context.Background(), sc), *of}
	slot.Store(made)
	return made
}

// endSpan ends a span at an instant, with the code of an error; "" without.
func endSpan(span trace.Span, at time.Time, code string) {
	if code != "" {
		span.SetAttributes(errorKey.String(code))
		span.SetStatus(codes.Error, code)
	}
	span.End(trace.WithTimestamp(at))
}
