package dispatch

import (
	"errors"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/workflow"
)

// WithBegan adds to what is said of an attempt when somebody began to perform it; zero is not known. It comes with the result:
// a commit of its own would cost each task one more.
func WithBegan(m state.Message, at time.Time) state.Message {
	if at.IsZero() {
		return m
	}
	began := at.UnixMilli()
	if done, ok := m.(state.TaskCompleted); ok && done.Began == began {
		return m // it says so already
	}
	switch m := m.(type) {
	case state.TaskCompleted:
		m.Began = began
		return m
	case state.TaskFailed:
		m.Began = began
		return m
	case state.TaskSnoozed:
		m.Began = began
		return m
	default:
		return m
	}
}

// PerformedSince returns when somebody began to perform an attempt; zero if it is not held, or nobody has.
func (d *Dispatcher) PerformedSince(a taskkey.Attempt) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.heldAttempt(a); t != nil {
		return t.beganAt()
	}
	return time.Time{}
}

// DeliverFromOutside delivers a result of an attempt that its handler did not return, by a function. A suspended run takes none: the
// attempt is then let go, so that it is performed again when the run is resumed and sends it.
func (d *Dispatcher) DeliverFromOutside(a taskkey.Attempt, deliver func() error) error {
	d.mu.Lock()
	t := d.heldAttempt(a)
	if t != nil && t.cancel == nil { // nobody performs it
		t = nil
	}
	if t != nil {
		few := t.keepSeldom()
		if few.outside == 0 {
			few.again = nil // it was sent before this result
		}
		few.outside++
	}
	d.mu.Unlock()
	err := deliver()
	if t != nil {
		d.noteFromOutside(t, errors.Is(err, state.ErrSuspended))
	}
	return err
}

// noteFromOutside takes note of the answer to a result that came from outside. It lets go of an attempt whose run has refused it.
func (d *Dispatcher) noteFromOutside(t *Task, refused bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.seldom.outside--
	if !refused || !t.held {
		return
	}
	t.refused = true
	if t.pending && t.delivers { // else taskFinished goes on
		t.cancel(errWithdrawn)
		d.forgetTask(t)
		d.queueAgain(t)
		d.fillSlots()
	}
}

// Failed returns the message that the attempt has failed.
func (t *Task) Failed(f workflow.Failure) state.Message {
	return state.TaskFailed{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch, Failure: f}
}

// handResult hands the result of an attempt to its run, and reports whether the answer is pending.
func (d *Dispatcher) handResult(t *Task, m state.Message) (pending bool) {
	pending, err := d.o.Host.Deliver(t, m)
	if pending {
		return true
	}
	if err != nil { // it may be asked again and again: what it has sent does not wait for that
		d.fillFreeSlots()
	}
	d.noteDelivered(t, d.o.Host.DeliverAgain(d.ctx, t, m, err))
	return false
}

// An answeredResult is a result that was in a run's mailbox, with the answer.
type answeredResult struct {
	task    *Task
	message state.Message
	err     error
}

// answeredResults are those that nobody has taken note of. They come from actors, which have other things to do: a
// goroutine of its own finishes them, many at a time.
type answeredResults struct {
	mu   sync.Mutex
	some []answeredResult
	busy bool // there is that goroutine
}

// Answered takes note of the answer to a result, with which Host.Deliver was pending. It returns at once.
func (d *Dispatcher) Answered(t *Task, m state.Message, err error) {
	d.results.noteAnswer(d, answeredResult{t, m, err})
}

// noteAnswer takes an answer. It returns at once.
func (r *answeredResults) noteAnswer(d *Dispatcher, a answeredResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.some = append(r.some, a)
	if !r.busy {
		r.busy = true
		go d.finishAnswered()
	}
}

// takeAnswer returns the next answer, if there is one; none ends the goroutine.
func (r *answeredResults) takeAnswer() (a answeredResult, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy = len(r.some) > 0; !r.busy {
		r.some = nil
		return a, false
	}
	a, r.some[0] = r.some[0], a
	r.some = r.some[1:]
	return a, true
}

// finishAnswered takes note of the answers to results, until there are no more. It logs nothing, for which all others
// would wait.
func (d *Dispatcher) finishAnswered() {
	var finished []*Task
	for a, ok := d.results.takeAnswer(); ok; a, ok = d.results.takeAnswer() {
		if a.err != nil && !errors.Is(a.err, state.ErrStale) && !errors.Is(a.err, state.ErrEnded) {
			go d.deliverAgain(a)
			continue
		}
		d.noteDelivered(a.task, true)
		if finished = append(finished, a.task); len(finished) == d.o.Batch { // as a turn has
			d.finishTasks(finished)
			finished = finished[:0]
		}
	}
	d.finishTasks(finished)
}

// deliverAgain takes note of an answer that is an error, and delivers the result again if the run may not have taken it.
func (d *Dispatcher) deliverAgain(a answeredResult) {
	defer d.taskFinished(a.task, false)
	d.noteDelivered(a.task, d.o.Host.DeliverAgain(d.ctx, a.task, a.message, a.err))
}

// finishTasks is taskFinished for several.
func (d *Dispatcher) finishTasks(finished []*Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range finished {
		d.finishTask(t)
	}
	d.fillSlots()
}

// noteDelivered notes whether the run has taken a result.
func (d *Dispatcher) noteDelivered(t *Task, taken bool) {
	d.mu.Lock()
	t.refused = !taken
	d.mu.Unlock()
	t.span.End()
	d.o.Hook.Hit("task.delivered")
}
