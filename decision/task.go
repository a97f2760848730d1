package decision

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// DispatchTask hands an attempt of a token's task to the executor.
//
// Run, token, attempt and epoch together are the key under which one result is taken. A
// repetition after a crash carries the stored epoch and not that of the new life of the
// engine, so that a result of the first dispatch still counts.
type DispatchTask struct {
	Token   workflow.TokenID `json:"token"`
	Task    string           `json:"task"`
	Attempt int              `json:"attempt"`
	Epoch   state.Epoch      `json:"epoch"`
	Input   any              `json:"input,omitzero"`
	Due     time.Time        `json:"due,omitzero"`  // the attempt times out
	Beat    time.Time        `json:"beat,omitzero"` // the first heartbeat is due

	Evaluated bool `json:"evaluated,omitzero"` // Task is the value of an expression

	Budget amount.Sums `json:"budget,omitzero"` // set aside until the attempt ends
}

// String implements fmt.Stringer.
func (d DispatchTask) String() string {
	return newLine("dispatch-task", d.Token).addField("task", d.Task).addField("attempt", fmt.Sprint(d.Attempt)).
		addJSON("input", d.Input).addTime("due", d.Due).addTime("beat", d.Beat).addSums("budget", d.Budget).String()
}

// evolveState keeps all that planning.Pending needs to send the same again: the state is the
// outbox.
func (d DispatchTask) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	noteInput(s, &t)
	noteBudget(&t, d.Budget)
	t.Status, t.Attempt, t.Epoch = workflow.Dispatched, d.Attempt, d.Epoch
	t.Input, t.Due, t.Beat, t.Held = d.Input, d.Due, d.Beat, false
	if d.Evaluated {
		noteChoice(&t, d.Task)
	}
	s.PutToken(&t)
}

func (d DispatchTask) toldEvents(s *state.State) []Event { return EventsOf(d.appendTold(nil, s)) }

func (d DispatchTask) appendTold(told []Told, s *state.State) []Told {
	return pace.Push(told, tellOf(s, workflow.EventTaskDispatched, d.Token, dispatchData{d.Task, d.Attempt, d.Epoch}))
}

// dispatchData are those of a dispatch.
type dispatchData struct {
	task    string
	attempt int
	epoch   state.Epoch
}

func (d dispatchData) makeData(*Event) map[string]any {
	return map[string]any{"task": d.task, "attempt": int64(d.attempt), "epoch": d.epoch.String()}
}

func (d dispatchData) appendText(text []byte, e *Event, branch int) []byte {
	text = appendField(append(text, '{'), "attempt", int64(d.attempt))
	if e.Group != 0 {
		text = appendField(append(text, ','), "branch", int64(branch))
	}
	text = value.AppendHex(append(text, `,"epoch":"`...), uint64(d.epoch))
	text = append(text, `",`...)
	return append(appendTextField(text, "task", d.task), '}')
}

func (DispatchTask) withdrawnTokens(*state.State) []workflow.TokenID { return nil }
func (DispatchTask) effect()                                         {}

// noteInput remembers, as the first attempt of a task begins or waits for room, by which revision of the
// definition its input was evaluated. A run that was never patched needs no note: no revision
// is 0 as well.
func noteInput(s *state.State, t *state.Token) {
	if t.Attempt > 0 || s.Patches == 0 || t.Remembered().Short {
		return
	}
	m := t.Remembered()
	m.Patches = s.Patches
	t.Memory = &m
}

// noteChoice remembers what the expression of a token's node has chosen, for all its
// attempts. It is asked for once, and not again for a retry, because what it reads may have
// changed since.
func noteChoice(t *state.Token, chosen string) {
	m := t.Remembered()
	m.Chosen = chosen
	t.Memory = &m
}

// KeepResult keeps what a token came with to a task that may be parked, so that the task's
// input can be evaluated anew. A patch may mend the expression that parked the task; without
// the result it could not be evaluated once more. The map around it tells a result of null
// from none, also for a wait whose expressions ask for one that is null.
type KeepResult struct {
	Token  workflow.TokenID `json:"token"`
	Result any              `json:"result,omitzero"`
}

// String implements fmt.Stringer.
func (d KeepResult) String() string {
	return newLine("keep-result", d.Token).addJSON("result", d.Result).String()
}

func (d KeepResult) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	m := t.Remembered()
	m.Kept = map[string]any{"result": d.Result}
	t.Memory = &m
	s.PutToken(&t)
}

func (KeepResult) toldEvents(*state.State) []Event                 { return nil }
func (KeepResult) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// RenewInput replaces the input of a token's task, and the values that expressions chose for it, by ones
// that were evaluated anew. An operator's retry does so if the definition was patched since or the
// operator asks for it.
//
// It comes between the RetryTask that sets a parked task going and the dispatch of the next
// attempt.
type RenewInput struct {
	Token workflow.TokenID `json:"token"`
	Input any              `json:"input,omitzero"`
	Asked bool             `json:"asked,omitzero"`

	Chosen string `json:"chosen,omitzero"` // the task type or subworkflow; "" if the node names one
}

// String implements fmt.Stringer.
func (d RenewInput) String() string {
	return newLine("renew-input", d.Token).addFlag("asked", d.Asked).addField("chosen", d.Chosen).addJSON("input", d.Input).String()
}

func (d RenewInput) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	m := t.Remembered()
	m.Patches, m.Details = s.Patches, nil // they are of the old input
	t.Input, t.Memory = d.Input, &m
	if d.Chosen != "" {
		noteChoice(&t, d.Chosen)
	}
	s.PutToken(&t)
}

func (d RenewInput) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventTaskInputRenewed, d.Token, map[string]any{"revision": int64(s.Revision()), "asked": d.Asked})}
}

func (RenewInput) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// ExtendTask moves the instant at which an attempt's silence is too long. It follows a
// heartbeat, and moves only Beat: the time of the attempt, Due, is not longer for that.
type ExtendTask struct {
	Token workflow.TokenID `json:"token"`
	Beat  time.Time        `json:"beat"`
}

// String implements fmt.Stringer.
func (d ExtendTask) String() string {
	return newLine("extend-task", d.Token).addTime("beat", d.Beat).String()
}

func (d ExtendTask) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Beat = d.Beat
	s.PutToken(&t)
}

func (ExtendTask) toldEvents(*state.State) []Event                 { return nil }
func (ExtendTask) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// KeepDetails keeps what an attempt has said of how far it is, for the next one. They survive
// a crash and reach the next attempt with its task, which may go on from there.
type KeepDetails struct {
	Token   workflow.TokenID `json:"token"`
	Details any              `json:"details"`
}

// String implements fmt.Stringer.
func (d KeepDetails) String() string {
	return newLine("keep-details", d.Token).addJSON("details", d.Details).String()
}

func (d KeepDetails) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	m := t.Remembered()
	m.Details = d.Details
	t.Memory = &m
	s.PutToken(&t)
}

func (KeepDetails) toldEvents(*state.State) []Event                 { return nil }
func (KeepDetails) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// RetryTask makes a token wait for its next attempt. Base is the number of
// attempts that no longer count against the budget.
//
// A retry by policy has no Base. An operator's has the number of attempts made, which gives a
// fresh budget: with 3 attempts allowed and Base 3, attempts 4 to 6 may follow. The number of
// an attempt itself never goes back, since it is part of its key.
type RetryTask struct {
	Token   workflow.TokenID  `json:"token"`
	Due     time.Time         `json:"due"`
	Base    int               `json:"base,omitzero"`
	Snoozed int               `json:"snoozed,omitzero"` // with Base: how often the task has asked to be called again before
	Failure *workflow.Failure `json:"failure,omitzero"`
}

// String implements fmt.Stringer.
func (d RetryTask) String() string {
	return newLine("retry-task", d.Token).addTime("due", d.Due).addFailure(d.Failure).String()
}

// evolveState keeps the input: every attempt has the same.
func (d RetryTask) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Due, t.Failure = workflow.Retrying, d.Due, d.Failure
	t.Base, t.Beat, t.Held = max(t.Base, d.Base), never, false
	if m := t.Remembered(); d.Base > 0 && m.Snoozes > 0 { // an operator's retry
		m.Snoozes, m.Earlier = 0, d.Snoozed
		t.Memory = &m
	}
	s.PutToken(&t)
}

func (d RetryTask) toldEvents(s *state.State) []Event {
	data := map[string]any{"due": timeText(d.Due)}
	if d.Failure != nil {
		data["error"] = FailureValue(d.Failure)
	}
	return []Event{tokenEvent(s, workflow.EventTaskRetrying, d.Token, data)}
}

func (d RetryTask) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, d.Token)
}

// SnoozeTask makes a token wait for its next attempt, as its task has asked; the attempt that
// has asked does not count against the budget. How often a task may do so is a limit of the
// definition, which the planner checks by Snoozes.
type SnoozeTask struct {
	Token workflow.TokenID `json:"token"`
	Due   time.Time        `json:"due"`
}

// String implements fmt.Stringer.
func (d SnoozeTask) String() string {
	return newLine("snooze-task", d.Token).addTime("due", d.Due).String()
}

// evolveState leaves no failure, by which a snooze is told from a retry when it comes once
// more.
func (d SnoozeTask) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	m := t.Remembered()
	m.Snoozes++
	t.Status, t.Due, t.Failure, t.Memory = workflow.Retrying, d.Due, nil, &m
	t.Base, t.Beat, t.Held = t.Base+1, never, false
	s.PutToken(&t)
}

func (d SnoozeTask) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventTaskSnoozed, d.Token, map[string]any{"due": timeText(d.Due)})}
}

func (d SnoozeTask) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, d.Token)
}

// ParkTask makes a token wait for an operator: a dead letter is open. The rest of the run
// goes on. Retry, Skip and CancelNodes end the wait, and so does what ends the branch or the
// run; time does not.
type ParkTask struct {
	Token   workflow.TokenID `json:"token"`
	Failure workflow.Failure `json:"failure"`
}

// String implements fmt.Stringer.
func (d ParkTask) String() string {
	return newLine("park-task", d.Token).addFailure(&d.Failure).String()
}

// evolveState keeps the failure, which the dead letter shows, and the input, for a retry.
func (d ParkTask) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Failure, t.Due, t.Beat = workflow.WaitingForOperator, &d.Failure, never, never
	t.Held, t.Order = false, s.NextPlace()
	s.PutToken(&t)
}

func (d ParkTask) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventTaskParked, d.Token, FailureValue(&d.Failure))}
}

func (d ParkTask) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, d.Token)
}

// StageArtifacts adds what a token's task hands over to the artifacts of the run. They count
// when the run completes. It stands before the decision that completes the token, in the same
// plan, so that a result is taken with its artifacts or not at all.
type StageArtifacts struct {
	Token     workflow.TokenID    `json:"token"`
	Artifacts []workflow.Artifact `json:"artifacts"`
}

// String implements fmt.Stringer.
func (d StageArtifacts) String() string {
	w := newLine("stage-artifacts", d.Token)
	for _, a := range d.Artifacts {
		w = w.addField("artifact", fmt.Sprintf("%s:%d", a.Name, a.Size))
	}
	return w.String()
}

func (d StageArtifacts) evolveState(s *state.State) { s.AddArtifacts(d.Artifacts) }

func (d StageArtifacts) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventArtifactStaged, d.Token, map[string]any{"artifacts": artifactValues(d.Artifacts)})}
}

func (StageArtifacts) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// artifactValues returns artifacts as the data of an event.
func artifactValues(as []workflow.Artifact) []any {
	out := make([]any, len(as))
	for i, a := range as {
		out[i] = map[string]any{"name": a.Name, "hash": a.Hash, "size": a.Size}
	}
	return out
}
