package actor

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// collectBatch returns a batch with the messages that wait behind it added, up to the bound of a batch. Messages that
// came while the last commit was made share the next one: the more wait, the less each costs.
func (a *Actor) collectBatch(batch ...envelope) []envelope {
	for len(batch) < a.options.Batch {
		select {
		case next := <-a.mailbox:
			a.waiting.Add(-1)
			a.options.Metrics.Waited(next.sent)
			batch = append(batch, *next)
		default:
			return batch
		}
	}
	return batch
}

// withAlarm adds the alarm to a batch if it is due: it comes behind the messages that were there, whichever of the
// two the actor has noticed first, so that a result which came at the same instant as the timeout of its attempt
// counts, and the timeout finds nothing to do.
func (a *Actor) withAlarm(batch []envelope, now time.Time) []envelope {
	if !a.isAlarmDue(now) {
		return batch
	}
	a.hook.AlarmRang(string(a.ID))
	return append(batch, envelope{message: state.AlarmFired{At: a.state.Alarm().UnixMilli()}})
}

// isAlarmDue reports whether the alarm of the run rings in a turn at an instant.
func (a *Actor) isAlarmDue(now time.Time) bool {
	at := a.state.Alarm()
	return !at.IsZero() && !at.After(now) && !a.options.Still && !a.isAlarmHeld()
}

// isAlarmHeld reports whether a test holds the alarm of the run, which is due, until it says otherwise.
func (a *Actor) isAlarmHeld() bool {
	return a.hook.HoldAlarm(string(a.ID), func() { a.alarm.Reset(0) })
}

// A turn is the outcome of one batch of messages: the records to commit, and the effects and replies to send after
// the commit. There is an answer for each message of the batch: nil where the message was taken, or was taken before.
type turn struct {
	records   []decision.Record
	blobs     []decision.Blob // to which the records refer
	events    []decision.Told
	effects   []decision.Effect
	withdrawn []workflow.TokenID
	unwanted  []workflow.RunID // children
	paused    bool             // the run
	answers   []error
}

// runTurn plans a batch, with the alarm if that is due, commits it, and then lets its effects and replies leave. An
// error ends the actor.
//
// Nothing leaves before the commit, not even a refusal: it may rest on a message before it in the batch, and a caller
// who was told that the run has ended must not find it running after a crash. All messages of a batch have the same
// instant, and are committed together or not at all; each has a record of its own, if it decided something.
func (a *Actor) runTurn(batch []envelope) error { return a.runTurnAt(batch, a.currentInstant()) }

// runTurnAt is runTurn at an instant.
func (a *Actor) runTurnAt(batch []envelope, now time.Time) error {
	batch = a.withAlarm(batch, now)
	a.batch = batch
	// The timer rang early, or the state has changed since it was armed.
	if len(batch) == 0 {
		a.setAlarm()
		return nil
	}
	a.rested = false
	// From here on the state is ahead of what is committed.
	t, broken := a.planBatch(batch, now)
	if broken != nil {
		return a.quarantineRun(batch, broken)
	}
	if len(t.records) > 0 {
		err := a.recoverPanic(func() error { return a.store.Commit(a.state, t.records, t.blobs, t.events) })
		// The record cannot be encoded. Loading the run and trying again, as after a full disk, would never end.
		if unspeakable := (*codec.Error)(nil); errors.As(err, &unspeakable) {
			return a.quarantineRun(batch, err) // however often it is tried
		}
		if err != nil {
			return a.reloadAfterFailure(batch, t, err)
		}
		// Callers are answered after the effects have left: who knows that a message is committed may rely on its
		// effects being on their way.
		if err := a.recoverPanic(func() error { a.releaseEffects(t); return nil }); err != nil {
			return a.failBatch(batch, err)
		}
	} else {
		a.setAlarm() // it may have rung, and the clock was set back before this turn
	}
	woken := 0
	for i := range batch {
		if batch[i].reply != nil { // who waits for it is woken
			pace.Few(woken)
			woken++
		}
		batch[i].answerOnce(t.answers[i])
	}
	a.batch = nil
	a.flushIfDue(false)
	a.idle.Reset(a.options.Idle)
	if len(t.records) == 0 {
		return nil
	}
	// Only a commit makes a run larger, so a turn without one need not look.
	return a.endGrown()
}

// endGrown fails the run if it takes more bytes than it may. The answered messages are committed; nothing follows
// them. The RunGrown is a turn of its own, with a record in the journal. The turn after it ends here: the run is no
// longer running.
func (a *Actor) endGrown() error {
	if a.options.Still {
		return nil
	}
	bytes := a.store.Bytes()
	if a.state.Status != workflow.RunRunning && a.state.Status != workflow.RunPaused || bytes <= a.state.Graph.Limits.RunBytes {
		return nil
	}
	return a.runTurn([]envelope{{message: state.RunGrown{Bytes: bytes}}})
}

// currentInstant returns now as an instant of the planners. It is UTC in whole milliseconds, which is what a record
// can hold: a replay plans with the very same instant.
func (a *Actor) currentInstant() time.Time { return timeout.Instant(a.hook.Now()) }

// overlays has the memory of overlays that are discarded, of whichever run.
var overlays sync.Pool

// planBatch answers each message of a batch, one after another, on the state in
// memory. A panic of a planner is returned: the state is then spoilt.
func (a *Actor) planBatch(batch []envelope, now time.Time) (t turn, broken error) {
	defer func() {
		if r := recover(); r != nil {
			broken = fmt.Errorf("planner panicked: %v\n%s", r, debug.Stack())
		}
	}()
	// Each message sees the run as the ones before it have made it. A refused one leaves neither a decision nor a
	// number behind.
	t.answers = make([]error, len(batch))
	spare, _ := overlays.Get().(*state.State)
	a.state.GiveSpare(spare)
	defer func() {
		if spare := a.state.TakeSpare(); spare != nil {
			overlays.Put(spare)
		}
	}()
	for i, e := range batch {
		if e.message == nil {
			continue // somebody only wakes the run
		}
		began := a.options.Metrics.PlanBegins(now)
		plan, err := planning.Step(a.state, e.message, now)
		a.options.Metrics.Planned(e.message, began)
		if err != nil || len(plan.Decisions) == 0 {
			t.answers[i] = err
			continue
		}
		record := decision.Record{
			Seq: a.seq + int64(len(t.records)) + 1, At: now, Epoch: a.options.Epoch,
			Planner: planning.Version, Message: e.message, Decisions: plan.Decisions,
		}
		if t.records == nil { // most decisions tell one event, some two, and most further messages of a batch two
			t.records = make([]decision.Record, 0, len(batch)-i)
			t.events = make([]decision.Told, 0, len(plan.Decisions)+1+2*(len(batch)-i-1))
		}
		t.records, t.blobs = append(t.records, record), append(t.blobs, plan.Blobs...)
		var pacer pace.Pacer
		// The planner has folded the decisions into an overlay, which is gone. Now they are applied to the state,
		// which collects the changes for the store and gives the events their numbers.
		for _, d := range plan.Decisions {
			pacer.Spend(10)
			a.noteUnwanted(&t, d)
			t.events = decision.ApplyTo(t.events, a.state, d, &record)
		}
		if effects := plan.Effects(); t.effects == nil {
			t.effects = effects
		} else {
			t.effects = pace.Append(t.effects, effects...)
		}
		if resumesRun(plan) {
			t.effects = append(t.effects, planning.Pending(a.state)...)
		}
	}
	return t, nil
}

// resumesRun reports whether a plan resumes a paused or suspended run. A suspended run has sent nothing, not even
// what was out before, and a paused one starts no children: all that the run waits for is sent then.
func resumesRun(p decision.Plan) bool {
	for _, d := range p.Decisions {
		if _, ok := d.(decision.ResumeRun); ok {
			return true
		}
	}
	return false
}

// releaseEffects is the output gate: what a committed turn sends. Tasks are withdrawn before others are dispatched,
// since a withdrawal names only the token, and a batch may end one attempt and begin the next. Then come children and
// parent, and at last those who wait for the outcome of the run, who may look at all of the rest.
func (a *Actor) releaseEffects(t turn) {
	a.hook.Hit("release.begin")
	a.commitPause = 0
	a.seq += int64(len(t.records))
	a.events = append(a.events, t.events)
	a.fresh = false
	for _, id := range t.withdrawn {
		a.outbox.Withdraw(a.ID, id)
	}
	// If the batch has ended or suspended the run, what it decided before that does not leave.
	if a.state.Status == workflow.RunRunning || a.state.Status == workflow.RunPaused {
		var pacer pace.Pacer
		for i, e := range t.effects {
			pacer.Spend(30)
			a.sendEffect(e, i == len(t.effects)-1, false)
		}
	}
	a.tellRelatives(t)
	a.setAlarm()
	a.outbox.Committed(a.Outcome())
	a.hook.Hit("release.end")
}

// Outcome returns the outcome of the run so far. Only who has the turn calls it, and, when Run has
// returned, its caller.
// It is zero before the run is loaded.
func (a *Actor) Outcome() workflow.Outcome {
	if a.state == nil {
		return workflow.Outcome{}
	}
	return decision.Outcome(a.state)
}

// reloadAfterFailure answers a batch whose commit failed, and loads the run again. If the commit took effect after
// all, its effects leave. Nobody knows whether the records are on the disk, so the callers are told that nobody
// knows, and may send their messages again: what was taken before is taken only once. The load tells: if the last
// record is there, only withdrawals and the news of relatives are left to send, since activateRun has sent what is
// waited for.
func (a *Actor) reloadAfterFailure(batch []envelope, t turn, cause error) error {
	a.options.Fault(a.currentPlace(), fmt.Errorf("commit: %w", cause))
	// If the alarm was in the batch, it is due again at once.
	a.commitPause = commitBackoff.Next(a.commitPause)
	reply := cause
	// Where the store takes no commit at all that is certain, and sending it again never helps.
	if !errors.Is(cause, ErrUnknown) && !errors.Is(cause, ErrNotTaken) {
		reply = fmt.Errorf("%w: %w", ErrUnknown, cause)
	}
	a.answerBatch(batch, reply)
	after := a.seq + int64(len(t.records))
	if err := a.activateRun(); err != nil {
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
	a.tellRelatives(t)
	a.outbox.Committed(a.Outcome())
	return nil
}

// failBatch answers a batch whose effects could not leave: the messages are committed, and whoever comes next has the
// effects sent again. The error ends the actor; the next one resends what the run waits for as it loads the run.
func (a *Actor) failBatch(batch []envelope, broken error) error {
	a.answerBatch(batch, fmt.Errorf("%w: %s", ErrUnknown, firstLine(broken)))
	return broken
}

// quarantineRun suspends a run whose planner broke an invariant, or made a record that cannot be encoded: the run is
// loaded again as it was, and the messages of the batch are refused. One run stops and says why; the engine and all
// other runs go on. The run keeps the state from before the batch, and Resume tries again, after an upgrade that
// mends the planner, say. If even that cannot be committed, the actor ends.
func (a *Actor) quarantineRun(batch []envelope, broken error) error {
	a.options.Fault(a.currentPlace(), broken)
	err := a.recoverPanic(func() error { return a.suspendRun(firstLine(broken)) })
	a.answerBatch(batch, errors.Join(state.ErrSuspended, errors.New(firstLine(broken))))
	return err
}

// suspendRun loads the run again and commits that it is suspended. The message Suspend is planned and recorded like
// any other, so that a replay suspends the run at the same place.
func (a *Actor) suspendRun(cause string) error {
	if err := a.activateRun(); err != nil {
		return err
	}
	t, err := a.planBatch([]envelope{{message: state.Suspend{Cause: cause}}}, a.currentInstant())
	if err != nil || len(t.records) == 0 {
		return err
	}
	if err := a.store.Commit(a.state, t.records, nil, t.events); err != nil {
		return err
	}
	a.releaseEffects(t)
	return nil
}

// firstLine returns the text of an error without the stack that follows in that of a panic: callers and the journal
// get only this much.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
