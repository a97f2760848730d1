package decision

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// StartRun begins the run with its input.
//
// It is the first decision of every run. As is set in a fork alone: the records that it
// shares with the other run are applied under the id of that one, because expressions may
// have read run.id and the jitter of retries depends on it. ForkRun then gives the fork its
// own id.
type StartRun struct {
	Input  map[string]any    `json:"input"`
	At     time.Time         `json:"at"`
	Due    time.Time         `json:"due,omitzero"`    // the run times out
	Parent *workflow.Parent  `json:"parent,omitzero"` // of a child run
	Pins   state.Pins        `json:"pins,omitzero"`   // the definitions of subworkflows
	Tenant string            `json:"tenant,omitzero"` // on whose behalf
	Labels map[string]string `json:"labels,omitzero"` // nil without
	As     workflow.RunID    `json:"as,omitzero"`     // the run that began so; this one is a fork of it
	Trace  *state.Trace      `json:"trace,omitzero"`  // nil without

	ScheduledAt time.Time `json:"scheduledAt,omitzero"` // the instant of the schedule that started it; zero of any other run

	Limits amount.Sums `json:"limits,omitzero"` // of what it may report, in place of those of its definition
}

// String implements fmt.Stringer.
func (d StartRun) String() string {
	return newLine("start-run").addObject("input", d.Input).addTime("due", d.Due).addTime("scheduled", d.ScheduledAt).addField("as", string(d.As)).addSums("limits", d.Limits).String()
}

// evolveState also makes the sections state, output and nodes of the run's own scope, so that
// whatever is written later finds its parent.
func (d StartRun) evolveState(s *state.State) {
	moveRun(s, state.MoveStart)
	s.Input, s.StartedAt, s.Due = d.Input, d.At, d.Due
	s.Parent, s.Pins, s.Tenant, s.Labels, s.Trace = d.Parent, d.Pins, d.Tenant, d.Labels, d.Trace
	s.ScheduledAt = d.ScheduledAt
	s.Run, s.OwnLimits = cmp.Or(d.As, s.Run), d.Limits
	s.InitData()
}

// toldEvents copies the labels, because the data of an event are values of the JSON model,
// and a map of texts is not.
func (d StartRun) toldEvents(s *state.State) []Event {
	def := s.Graph.Definition
	data := map[string]any{"workflow": def.Name, "version": int64(def.Version)}
	if d.Tenant != "" {
		data["tenant"] = d.Tenant
	}
	if len(d.Labels) > 0 {
		labels := make(map[string]any, len(d.Labels))
		for key, v := range d.Labels {
			labels[key] = v
		}
		data["labels"] = labels
	}
	return []Event{{Type: workflow.EventWorkflowStarted, Data: data}}
}

func (StartRun) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// CompleteRun ends the run with its output and cancels what lives.
//
// The planner decides it when no token lives and no open group gathers, or when a token
// reaches an end node. In the latter case others may live, which it cancels.
type CompleteRun struct {
	Output map[string]any `json:"output"`
	At     time.Time      `json:"at"`
}

// String implements fmt.Stringer.
func (d CompleteRun) String() string {
	return newLine("complete-run").addObject("output", d.Output).String()
}

// evolveState leaves a completed run with an output and without a failure; of any other end
// it is the other way round.
func (d CompleteRun) evolveState(s *state.State) {
	endRun(s, state.MoveComplete, nil, d.At)
	s.Output = d.Output
}

// toldEvents says first that what was staged counts from now on, and then that the run has
// ended, so that whoever reads the events until the end has read of the artifacts.
func (CompleteRun) toldEvents(s *state.State) []Event {
	end := runEnd(s, workflow.EventWorkflowCompleted, nil)
	if len(s.Artifacts) == 0 {
		return []Event{end}
	}
	return []Event{{Type: workflow.EventArtifactCommitted, Data: map[string]any{"count": int64(len(s.Artifacts))}}, end}
}

func (CompleteRun) withdrawnTokens(s *state.State) []workflow.TokenID { return allRunning(s) }

// FailRun ends the run as failed and cancels what lives. It follows from a failure that
// nothing in the run catches, an end node that says so, a limit, a deadlock or a stall.
type FailRun struct {
	Failure workflow.Failure `json:"failure"`
	At      time.Time        `json:"at"`
}

// String implements fmt.Stringer.
func (d FailRun) String() string { return newLine("fail-run").addFailure(&d.Failure).String() }

func (d FailRun) evolveState(s *state.State) {
	endRun(s, state.MoveFail, &d.Failure, d.At)
}

func (d FailRun) toldEvents(s *state.State) []Event {
	data := FailureValue(&d.Failure)
	if c := d.Failure.Cause; c != nil {
		cause := FailureValue(c)
		cause["node"], cause["token"] = string(c.Node), int64(c.Token)
		data["cause"] = cause
	}
	return []Event{runEnd(s, workflow.EventWorkflowFailed, data)}
}

func (FailRun) withdrawnTokens(s *state.State) []workflow.TokenID { return allRunning(s) }

// ExpireRun ends the run as timed out and cancels what lives. Failure has the code timeout,
// so that whoever looks at nothing else knows why.
type ExpireRun struct {
	Failure workflow.Failure `json:"failure"`
	At      time.Time        `json:"at"`
}

// String implements fmt.Stringer.
func (d ExpireRun) String() string { return newLine("expire-run").addFailure(&d.Failure).String() }

func (d ExpireRun) evolveState(s *state.State) {
	endRun(s, state.MoveExpire, &d.Failure, d.At)
}

func (d ExpireRun) toldEvents(s *state.State) []Event {
	return []Event{runEnd(s, workflow.EventWorkflowTimedOut, FailureValue(&d.Failure))}
}

func (ExpireRun) withdrawnTokens(s *state.State) []workflow.TokenID { return allRunning(s) }

// CancelRun ends the run as cancelled and cancels what lives. Failure has the code cancelled,
// the caller's reason and name. A run that was cancelled has not failed: its status says so.
type CancelRun struct {
	Failure workflow.Failure `json:"failure"`
	At      time.Time        `json:"at"`
}

// String implements fmt.Stringer.
func (d CancelRun) String() string { return newLine("cancel-run").addFailure(&d.Failure).String() }

func (d CancelRun) evolveState(s *state.State) {
	endRun(s, state.MoveCancel, &d.Failure, d.At)
}

func (d CancelRun) toldEvents(s *state.State) []Event {
	return []Event{runEnd(s, workflow.EventWorkflowCancelled, FailureValue(&d.Failure))}
}

func (CancelRun) withdrawnTokens(s *state.State) []workflow.TokenID { return allRunning(s) }

// SuspendRun stops a run because of an internal fault. Its tokens stay as they are, with
// their deadlines, but nothing is sent and no alarm is set until somebody resumes the run,
// for example with a version that has the fault mended.
type SuspendRun struct {
	Failure workflow.Failure `json:"failure"`
}

// String implements fmt.Stringer.
func (d SuspendRun) String() string { return newLine("suspend-run").addFailure(&d.Failure).String() }

func (d SuspendRun) evolveState(s *state.State) {
	moveRun(s, state.MoveSuspend)
	s.Failure = &d.Failure
}

func (d SuspendRun) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventWorkflowSuspended, Data: FailureValue(&d.Failure)}}
}

func (SuspendRun) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// ResumeRun lets a paused or suspended run continue. It takes away the failure of a suspended
// run, which said why it was suspended.
type ResumeRun struct{}

// String implements fmt.Stringer.
func (d ResumeRun) String() string { return "resume-run" }

func (ResumeRun) evolveState(s *state.State) {
	moveRun(s, state.MoveResume)
	s.Failure, s.ParentPauses = nil, false
}

func (ResumeRun) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventWorkflowResumed}}
}

func (ResumeRun) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// PauseRun holds back the tasks and children that the run would dispatch. Tasks and children
// that are out stay out, and their results are taken; a token that would begin a task or a
// child, or take a lock, is held by HoldToken. Parent says whether the parent run pauses: a
// parent that is resumed does not resume a child that an operator has paused.
type PauseRun struct {
	Parent bool `json:"parent,omitzero"` // because the parent run is paused
}

// String implements fmt.Stringer.
func (d PauseRun) String() string { return newLine("pause-run").addFlag("parent", d.Parent).String() }

func (d PauseRun) evolveState(s *state.State) {
	moveRun(s, state.MovePause)
	s.ParentPauses = d.Parent
}

func (PauseRun) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventWorkflowPaused}}
}

func (PauseRun) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// DeferFailure notes that the run will fail once the rest of it has ended. Only a dag without
// failFast has it, and of its failures only the first: the rest of the graph goes on, and the
// run fails with this one where it would otherwise complete.
type DeferFailure struct {
	Failure workflow.Failure `json:"failure"`
}

// String implements fmt.Stringer.
func (d DeferFailure) String() string {
	return newLine("defer-failure").addFailure(&d.Failure).String()
}

func (d DeferFailure) evolveState(s *state.State)                    { s.Deferred = &d.Failure }
func (DeferFailure) toldEvents(*state.State) []Event                 { return nil }
func (DeferFailure) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// moveRun changes the status of the run; it panics if the move is not allowed.
// state.RunMove.From is the table of moves. A planner that breaks it panics here, which
// the actor answers by suspending the run, before anything is committed.
func moveRun(s *state.State, m state.RunMove) {
	to, err := m.From(s.Status)
	if err != nil {
		panic("decision: " + err.Error())
	}
	s.Status = to
}

// endRun ends the run, with a failure or nil, and cancels every live token. The tokens come
// first, because once the status is final nothing may live. Groups that gather stay as they
// are: no alarm is set for a run that has ended, so that none of them times out.
func endRun(s *state.State, m state.RunMove, f *workflow.Failure, now time.Time) {
	if s.LiveCount() > 0 {
		cancelTokens(s, slices.Values(s.LiveTokens()))
	}
	moveRun(s, m)
	s.Failure, s.EndedAt = f, now
}

// runEnd returns the event of a run's end, which says how many tokens are withdrawn by it. It
// counts all of them, in one event, however many there are: their own ends are not told.
func runEnd(s *state.State, typ workflow.EventType, data map[string]any) Event {
	if n := s.LiveCount(); n > 0 {
		if data == nil {
			data = map[string]any{}
		}
		data["withdrawn"] = int64(n)
	}
	return Event{Type: typ, Data: data}
}

// allRunning returns the tokens whose task or child runs as the run ends.
func allRunning(s *state.State) []workflow.TokenID {
	if s.LiveCount() == 0 {
		return nil
	}
	return runningTokens(s, s.LiveTokens()...)
}
