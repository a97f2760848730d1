package dispatch

import (
	"context"
	"time"

	"github.com/pawl-run/pawl/internal/tasklog"
	"github.com/pawl-run/pawl/internal/tracing"
	"github.com/pawl-run/pawl/workflow"
)

// An attemptContext is the context of a handler: that of its task, with the span of its attempt and the source of its logger. It takes no memory.
type attemptContext Task

var (
	_ context.Context = (*attemptContext)(nil)
	_ tasklog.Source  = (*attemptContext)(nil)
)

// Deadline implements context.Context.
func (c *attemptContext) Deadline() (time.Time, bool) { return c.ctx.Deadline() }

// Done implements context.Context.
func (c *attemptContext) Done() <-chan struct{} { return c.ctx.Done() }

// Err implements context.Context.
func (c *attemptContext) Err() error { return c.ctx.Err() }

// Value implements context.Context.
func (c *attemptContext) Value(key any) any {
	if key == (tasklog.SourceKey{}) {
		return c
	}
	if span, ok := c.span.Value(key); ok {
		return span
	}
	return c.ctx.Value(key)
}

// TaskPlace implements tasklog.Source.
func (c *attemptContext) TaskPlace() tasklog.Place { return (*Task)(c).Place() }

// Place returns what lines of the log tell of an attempt.
func (t *Task) Place() tasklog.Place {
	traceparent, _ := t.Trace.Headers()
	return tasklog.Place{
		Run: string(t.Run), Workflow: t.Workflow.Name, Node: string(t.Node.ID), Task: t.Task, Token: int64(t.Token), Attempt: t.Attempt, Traceparent: traceparent,
	}
}

// tracedTask returns what spans tell of an attempt.
func (t *Task) tracedTask() tracing.Task {
	return tracing.Task{Run: tracing.RunBy(t.Run, t.Workflow, t.Trace), Node: t.Node.ID, Token: t.Token, Type: t.Task, Attempt: t.Attempt, Scope: t.Branch}
}

// endSpan ends the span of an attempt whose handler has returned without a result.
func (t *Task) endSpan(o tracing.Outcome) {
	t.span.Return(o)
	t.span.End()
}

// notePending notes that the result of an attempt comes later. A pool has performed nothing by then, so that there was no span around
// a handler; but if a worker was quicker, the attempt is over already, and this one is its span, with that end.
func (d *Dispatcher) notePending(t *Task) {
	d.mu.Lock()
	t.pending = true
	quiet := t.pooled && !t.spanned
	d.mu.Unlock()
	if quiet {
		t.span.Drop()
		return
	}
	t.endSpan(tracing.Pending)
}

// EndTrace tells the span of the attempt of a token how that has ended by what is committed now; the first call for an attempt counts. The
// span of a handler here ends with the answer to its result. Where the result came through Complete, Fail or a worker, the span is made now.
func (d *Dispatcher) EndTrace(run workflow.RunID, token workflow.TokenID, end tracing.End) {
	if d.o.Tracer == nil {
		return
	}
	d.mu.Lock()
	t := d.newestAttempt(run, token)
	if t == nil || t.spanned || t.begun == 0 {
		d.mu.Unlock()
		return
	}
	t.spanned = true
	if !t.pending {
		t.span.Decide(end)
		d.mu.Unlock()
		return
	}
	of := t.tracedElsewhere()
	d.mu.Unlock()
	d.o.Tracer.Ended(of, end)
}

// tracedElsewhere returns what the span tells of an attempt that was performed elsewhere. The caller holds the lock.
func (t *Task) tracedElsewhere() tracing.Elsewhere {
	of := tracing.Elsewhere{Task: t.tracedTask(), Began: t.beganAt(), Callback: !t.pooled}
	if of.Began.IsZero() { // no worker had it
		of.Began = t.queued.asTime()
	}
	return of
}
