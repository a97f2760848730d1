// Package tasklog keeps the logger of a task in the context of its handler, and has the keys of the lines of the log.
package tasklog

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-run/pawl/internal/traceparent"
)

// The keys of the lines of the log. A line has those of them that it knows of, and others of its own.
const (
	Run      = "run"      // id
	Workflow = "workflow" // name of the definition
	Node     = "node"     // id
	Token    = "token"    // number
	Attempt  = "attempt"  // number
	Task     = "task"     // type
	Seq      = "seq"      // of a record of the journal
	By       = "by"       // who has made a call
	Error    = "error"
	TraceID  = "trace_id" // in hexadecimal, as OpenTelemetry has it
)

// A Place names the attempt that a handler performs.
type Place struct {
	Run, Workflow, Node, Task string
	Token                     int64
	Traceparent               string // of the run; "" without
	Attempt                   int
}

// Args are the pairs of a line of the log.
func (p *Place) Args() []any { return p.argsIn(traceparent.Parse(p.Traceparent, "").TraceID()) }

// RunArgs are the pairs of a line of the log about a run, beside its id: where it stands, by its last record, and its traceparent; "" without.
func RunArgs(workflow string, seq int64, parent string) []any {
	args := append(make([]any, 0, 6), Workflow, workflow, Seq, seq)
	if id := traceparent.Parse(parent, "").TraceID(); id.IsValid() {
		args = append(args, TraceID, id.String())
	}
	return args
}

// argsIn are Args in a trace.
func (p *Place) argsIn(id trace.TraceID) []any {
	args := append(make([]any, 0, 14), Run, p.Run, Workflow, p.Workflow, Node, p.Node, Token, p.Token, Attempt, p.Attempt, Task, p.Task)
	if id.IsValid() {
		args = append(args, TraceID, id.String())
	}
	return args
}

// A Source is asked for the place of a task, by Logger. A Place is its own.
type Source interface{ TaskPlace() Place }

// TaskPlace implements Source.
func (p Place) TaskPlace() Place { return p }

// ArgsIn are the pairs of a line of the log about the task that a context belongs to; none outside of a task.
func ArgsIn(ctx context.Context) []any {
	s, ok := ctx.Value(SourceKey{}).(Source)
	if !ok {
		return nil
	}
	p := s.TaskPlace()
	return p.Args()
}

// SourceKey is the key of a Source in a context. A context that is a type of its own answers it in its method Value.
type SourceKey struct{}

// A loggerKey is the key of a logger in a context.
type loggerKey struct{}

// With returns a context of a task.
func With(ctx context.Context, s Source) context.Context {
	return context.WithValue(ctx, SourceKey{}, s)
}

// WithLogger returns a context whose tasks have a logger.
func WithLogger(ctx context.Context, l *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, l)
}

// Logger returns the logger of the task that a context belongs to: that of the engine or worker, with the keys of the attempt and, if the
// context is in a span, the id of the trace. Outside of a task it is slog.Default.
func Logger(ctx context.Context) *slog.Logger {
	if ctx == nil {
		return slog.Default()
	}
	s, ok := ctx.Value(SourceKey{}).(Source)
	if !ok {
		return slog.Default()
	}
	l, ok := ctx.Value(loggerKey{}).(*slog.Logger)
	if !ok {
		l = slog.Default()
	}
	p := s.TaskPlace()
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return l.With(p.argsIn(id)...)
	}
	return l.With(p.Args()...)
}
