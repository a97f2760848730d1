package pawl

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// runTasks executes an attempt, and then, one after the other, those that taskFinished has for its goroutine: of a run
// that is a chain all tasks have one goroutine, and no thread is woken for each.
func (d *dispatcher) runTasks(t *outTask) {
	for t != nil {
		if t = d.runTask(t); t != nil && d.stepsBack() {
			pace.Pause()
		}
	}
}

// stepsBack reports whether a goroutine steps back between two tasks: if there are others, or but one processor. Who
// waits for that would do so for as long as Go lets the goroutine have it, which is many steps. If not, stepping
// back would wake a thread for nothing.
func (d *dispatcher) stepsBack() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running > 1 || d.waiting > 0 || d.single
}

// runTask executes one attempt and delivers its result. The handler may panic,
// or end the goroutine: the deferred functions run all the same. The context has
// no deadline of its own: it is the run that decides that an attempt timed out,
// and then the context is cancelled. That of an attempt whose result comes later
// lives on until the attempt is over. It returns the task that the goroutine goes on with.
func (d *dispatcher) runTask(t *outTask) (next *outTask) {
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
			m = taskFailed(t, workflow.Failure{Code: workflow.CodePanic, Message: "the handler ended its goroutine", Permanent: true})
		}
		r := recover()
		returns := !ended || r != nil
		if r != nil {
			d.engine.options.Logger.Error("pawl: a handler panicked", "run", string(t.Run), "node", string(t.Node.ID), "panic", r, "stack", string(debug.Stack()))
			m = taskFailed(t, workflow.Failure{Code: workflow.CodePanic, Message: storableText(fmt.Sprint(r), maxMessage), Permanent: true})
		}
		// The slot is free before the result is delivered, which may take as long as the run's
		// commits take.
		performed := d.taskReturned(t)
		if m != nil {
			m = withBegan(d.withDetails(attemptOf(&t.Dispatch), m), performed)
			pending = d.handResult(t, m)
		}
		alive = returns
	}()
	d.engine.hook.Hit("task.begin")
	t.key = d.engine.keyOf(attemptOf(&t.Dispatch))
	output, err := d.engine.options.Executor.Execute(t.ctx, d.engine.executorTask(t))
	d.engine.hook.Hit("task.result")
	if err != nil && d.ctx.Err() != nil {
		ended = false // Close interrupted it: that is no failure, the task is sent again
		return nil
	}
	if errors.Is(err, ErrPending) {
		ended = false
		d.mu.Lock()
		t.pending = true
		d.mu.Unlock()
		return nil
	}
	if err != nil && lacksDescriptors(err) {
		d.engine.options.Logger.Warn("pawl: a task met too many open files: it is called again", "run", string(t.Run), "node", string(t.Node.ID), "error", err)
	}
	m = taskResult(t, output, err)
	// The blobs of the result are kept from collection until the run has committed it, and
	// thereby refers to them.
	if done, ok := m.(state.TaskCompleted); ok {
		unpin, err := d.engine.pinResult(d.kept, done)
		if err != nil {
			m = unpinnedResult(t, err)
		} else {
			t.unpin = unpin
		}
	}
	ended = false
	return nil // see above
}

// executorTask returns an attempt as the executor sees it.
func (e *Engine) executorTask(t *outTask) Task {
	return Task{
		Key: t.key, EffectKey: string(t.Run) + "/" + string(t.Node.ID) + "/" + strconv.FormatInt(int64(t.Token), 10),
		Run: t.Run, Root: t.Root, Workflow: t.Workflow, Tenant: t.Tenant, Node: t.Node.ID, Type: t.Task, Attempt: t.Attempt,
		Priority: t.Node.Priority, Order: t.entry.Order,
		Input: t.Input, Branch: Branch{Index: t.Branch.Branch, Total: t.Total}, Deadline: t.Due, Details: t.Details, DispatchedAt: t.queued, BeganAt: t.performed, services: engineServices{e},
	}
}
