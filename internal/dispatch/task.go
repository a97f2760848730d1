package dispatch

import (
	"runtime/debug"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/tracing"
	"github.com/pawl-run/pawl/workflow"
)

// runTasks executes an attempt, and then, one after the other, those that taskFinished has for its goroutine: of a run
// that is a chain all tasks have one goroutine, and no thread is woken for each.
func (d *Dispatcher) runTasks(t *Task) {
	for t != nil {
		if t = d.runTask(t); t != nil && d.stepsBack() {
			pace.Pause()
		}
	}
}

// stepsBack reports whether a goroutine steps back between two tasks: if there are others, or but one processor. Others
// would wait for it for as long as Go lets the goroutine have it, which is many steps. If not, stepping
// back would wake a thread for nothing.
func (d *Dispatcher) stepsBack() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running > 1 || d.waiting > 0 || d.single
}

// runTask executes one attempt and delivers its result. The handler may panic,
// or end the goroutine: the deferred functions run all the same. The context has
// no deadline of its own: it is the run that decides that an attempt timed out,
// and then the context is cancelled. That of an attempt whose result comes later
// lives on until the attempt is over. It returns the task that the goroutine goes on with.
func (d *Dispatcher) runTask(t *Task) (next *Task) {
	alive := false   // the goroutine, which does not return if the handler has ended it
	pending := false // the answer to the result: then finishAnswered goes on
	defer func() {
		if !pending {
			next = d.taskFinished(t, alive)
		} else if alive {
			next = d.beginAnother()
		}
	}()
	var m state.Message
	ended := true // its goroutine, or a method of what it returned did, unless the end is reached
	// It runs whatever way the handler took: returned, panicked, or ended its goroutine by
	// runtime.Goexit. ended is still true in the last two cases.
	defer func() {
		if ended {
			m = t.Failed(workflow.Failure{Code: workflow.CodePanic, Message: "the handler ended its goroutine", Permanent: true})
		}
		r := recover()
		returns := !ended || r != nil
		if r != nil {
			m = t.Failed(d.o.Host.Panicked(t, r, debug.Stack()))
		}
		if ended && d.ctx.Err() != nil { // Close interrupted it, as one that returns an error
			m = nil
			t.endSpan(tracing.Interrupted)
		}
		// The slot is free before the result is delivered, which may take as long as the run's
		// commits take.
		performed := d.taskReturned(t)
		if m != nil {
			t.span.ReturnResult(m)
			m = WithBegan(d.WithDetails(AttemptOf(&t.Dispatch), m), performed)
			pending = d.handResult(t, m)
		}
		alive = returns
	}()
	d.o.Hook.Hit("task.begin")
	output, err := d.o.Host.Execute((*attemptContext)(t), t)
	d.o.Hook.Hit("task.result")
	if err != nil && d.ctx.Err() != nil {
		ended = false // Close interrupted it: that is no failure, the task is sent again
		t.endSpan(tracing.Interrupted)
		return nil
	}
	// The blobs of the result are kept from collection until the run has committed it, and
	// thereby refers to them.
	var unpin func()
	if m, unpin = d.o.Host.Result(d.kept, t, output, err); m == nil {
		d.notePending(t)
	}
	if unpin != nil {
		d.mu.Lock()
		t.keepSeldom().unpin = unpin
		d.mu.Unlock()
	}
	ended = false
	return nil // see above
}
