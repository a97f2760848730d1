package actor

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// collect returns a batch and the messages that wait behind it, up to the bound of
// one.
func (a *Actor) collect(batch ...envelope) []envelope {
	for len(batch) < a.options.Batch {
		select {
		case next := <-a.mailbox:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// withAlarm adds the alarm to a batch if it is due: it comes behind the messages
// that were there, whichever of the two the actor has noticed first, so that a result
// which came at the same instant counts.
func (a *Actor) withAlarm(batch []envelope, now time.Time) []envelope {
	at := planning.Alarm(a.state)
	if at.IsZero() || at.After(now) {
		return batch
	}
	return append(batch, envelope{workflow.AlarmFired{At: at.UnixMilli()}, make(chan error, 1)})
}

// A turn is what one batch of messages comes to.
type turn struct {
	records   []decision.Record
	events    []decision.Event
	effects   []decision.Effect
	withdrawn []workflow.TokenID
	unwanted  []workflow.RunID // children
	paused    bool             // the run
	answers   []error
}

// turn plans a batch, with the alarm if that is due, commits it, and then lets its
// effects and replies leave. An error ends the actor.
func (a *Actor) turn(batch []envelope) error {
	now := instant()
	batch = a.withAlarm(batch, now)
	if len(batch) == 0 {
		a.setAlarm()
		return nil
	}
	t, broken := a.plan(batch, now)
	if broken != nil {
		return a.quarantine(batch, broken)
	}
	if len(t.records) > 0 {
		err := a.guard(func() error { return a.store.Commit(a.state, t.records) })
		if unspeakable := (*codec.Error)(nil); errors.As(err, &unspeakable) {
			return a.quarantine(batch, err) // however often it is tried
		}
		if err != nil {
			return a.forget(batch, t, err)
		}
		if err := a.guard(func() error { a.release(t); return nil }); err != nil {
			return a.giveUp(batch, err)
		}
	} else {
		a.setAlarm() // it may have rung, and the clock was set back before this turn
	}
	for i, e := range batch {
		pace.Few(i)
		e.reply <- t.answers[i]
	}
	a.rest(false)
	a.idle.Reset(a.options.Idle)
	return nil
}

// plan answers each message of a batch, one after another, on the state in
// memory. A panic of a planner is returned: the state is then spoilt.
func (a *Actor) plan(batch []envelope, now time.Time) (t turn, broken error) {
	defer func() {
		if r := recover(); r != nil {
			broken = fmt.Errorf("planner panicked: %v\n%s", r, debug.Stack())
		}
	}()
	t.answers = make([]error, len(batch))
	for i, e := range batch {
		if e.message == nil {
			continue // somebody only wakes the run
		}
		plan, err := planning.Step(a.state, e.message, now)
		if err != nil || len(plan.Decisions) == 0 {
			t.answers[i] = err
			continue
		}
		record := decision.Record{
			Seq: a.seq + int64(len(t.records)) + 1, At: now, Epoch: a.options.Epoch,
			Planner: planning.Version, Message: e.message, Decisions: plan.Decisions,
		}
		t.records = append(t.records, record)
		var pacer pace.Pacer
		for _, d := range plan.Decisions {
			pacer.Spend(10)
			a.withdraw(&t, d)
			t.events = pace.Append(t.events, decision.Apply(a.state, d, record.Seq, now)...)
		}
		t.effects = pace.Append(t.effects, plan.Effects()...)
		if resumed(plan) {
			t.effects = append(t.effects, planning.Pending(a.state)...)
		}
	}
	return t, nil
}

// resumed reports whether a plan lets a suspended run go on.
func resumed(p decision.Plan) bool {
	for _, d := range p.Decisions {
		if _, ok := d.(decision.ResumeRun); ok {
			return true
		}
	}
	return false
}

// release is the output gate: what a committed turn sends.
func (a *Actor) release(t turn) {
	failpoint.Hit("release.begin")
	a.pause = 0
	a.seq += int64(len(t.records))
	a.events = pace.Append(a.events, t.events...)
	a.fresh = false
	for _, id := range t.withdrawn {
		a.outbox.Withdraw(a.ID, id)
	}
	if a.state.Status == workflow.RunRunning || a.state.Status == workflow.RunPaused {
		for i, e := range t.effects {
			pace.Few(i)
			a.send(e)
		}
	}
	a.tellFamily(t)
	a.setAlarm()
	a.outbox.Committed(a.Outcome())
	failpoint.Hit("release.end")
}

// Outcome returns how the run stands. Only the actor's goroutine calls it.
// It is zero before the run is loaded.
func (a *Actor) Outcome() workflow.Outcome {
	if a.state == nil {
		return workflow.Outcome{}
	}
	return decision.Outcome(a.state)
}

// forget answers a batch whose commit failed, and loads the run again. If the
// commit took effect after all, whom it concerns is told.
func (a *Actor) forget(batch []envelope, t turn, cause error) error {
	a.options.Fault(a.ID, fmt.Errorf("commit: %w", cause))
	a.pause = min(max(2*a.pause, firstPause), maxPause)
	for _, e := range batch {
		e.reply <- fmt.Errorf("%w: %w", ErrUnknown, cause)
	}
	after := a.seq + int64(len(t.records))
	if err := a.activate(); err != nil {
		return fmt.Errorf("load again after a failed commit: %w", err)
	}
	if a.seq < after {
		return nil
	}
	for _, id := range t.withdrawn { // it took effect; what it sends was sent again
		if a.state.Token(id).Status != workflow.Dispatched { // or the next attempt would go
			a.outbox.Withdraw(a.ID, id)
		}
	}
	a.tellFamily(t)
	a.outbox.Committed(a.Outcome())
	return nil
}

// giveUp answers a batch whose effects could not leave: the messages are
// committed, and whoever comes next has the effects sent again.
func (a *Actor) giveUp(batch []envelope, broken error) error {
	for _, e := range batch {
		e.reply <- fmt.Errorf("%w: %s", ErrUnknown, firstLine(broken))
	}
	return broken
}

// quarantine suspends a run whose planner broke an invariant, or came to what
// cannot be written down: it is loaded again as it was, and the messages of the batch are refused.
func (a *Actor) quarantine(batch []envelope, broken error) error {
	a.options.Fault(a.ID, broken)
	err := a.guard(func() error { return a.suspend(firstLine(broken)) })
	for _, e := range batch {
		e.reply <- errors.Join(workflow.ErrSuspended, errors.New(firstLine(broken)))
	}
	return err
}

func (a *Actor) suspend(cause string) error {
	if err := a.activate(); err != nil {
		return err
	}
	t, err := a.plan([]envelope{{workflow.Suspend{Cause: cause}, make(chan error, 1)}}, instant())
	if err != nil || len(t.records) == 0 {
		return err
	}
	if err := a.store.Commit(a.state, t.records); err != nil {
		return err
	}
	a.release(t)
	return nil
}

func firstLine(err error) string {
	text := err.Error()
	for i := range text {
		if text[i] == '\n' {
			return text[:i]
		}
	}
	return text
}

// rest files what is committed when there is enough of it, or at once. A file
// is written anew each time, so enough is as much as all that was filed before:
// the cost of filing stays in proportion to the length of the run.
func (a *Actor) rest(now bool) {
	if a.filing || a.fresh || a.unfileable {
		return
	}
	records, bytes := a.store.Unfiled()
	if !now && records < max(a.options.FileRecords, a.filedRecords) && bytes < max(a.options.FileBytes, a.filedBytes) {
		return
	}
	a.filedRecords, a.filedBytes = a.filedRecords+records, a.filedBytes+bytes
	events := a.events
	a.events, a.filing, a.fresh = nil, true, true
	a.store.File(a.state.TakeChanges(), events, func(err error) { a.filed <- err })
}
