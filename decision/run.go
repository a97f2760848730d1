package decision

import (
	"cmp"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// StartRun begins the run with its input.
type StartRun struct {
	Input  map[string]any    `json:"input"`
	At     time.Time         `json:"at"`
	Due    time.Time         `json:"due,omitzero"`    // the run times out
	Parent *workflow.Parent  `json:"parent,omitzero"` // of a child run
	Pins   workflow.Pins     `json:"pins,omitzero"`   // the definitions of subworkflows
	Tenant string            `json:"tenant,omitzero"` // on whose behalf
	Labels map[string]string `json:"labels,omitzero"` // nil without
	As     workflow.RunID    `json:"as,omitzero"`     // the run that began so, of which this one is a fork
}

// String implements fmt.Stringer.
func (d StartRun) String() string {
	return newLine("start-run").addObject("input", d.Input).addTime("due", d.Due).addField("as", string(d.As)).String()
}

func (d StartRun) evolveState(s *state.State) {
	moveRun(s, workflow.MoveStart)
	s.Input, s.StartedAt, s.Due = d.Input, d.At, d.Due
	s.Parent, s.Pins, s.Tenant, s.Labels = d.Parent, d.Pins, d.Tenant, d.Labels
	s.Run = cmp.Or(d.As, s.Run)
	s.InitData()
}

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
type CompleteRun struct {
	Output map[string]any `json:"output"`
	At     time.Time      `json:"at"`
}

// String implements fmt.Stringer.
func (d CompleteRun) String() string {
	return newLine("complete-run").addObject("output", d.Output).String()
}

func (d CompleteRun) evolveState(s *state.State) {
	endRun(s, workflow.MoveComplete, nil, d.At)
	s.Output = d.Output
}

func (CompleteRun) toldEvents(s *state.State) []Event {
	end := runEnd(s, workflow.EventWorkflowCompleted, nil)
	if len(s.Artifacts) == 0 {
		return []Event{end}
	}
	return []Event{{Type: workflow.EventArtifactCommitted, Data: map[string]any{"count": int64(len(s.Artifacts))}}, end}
}

func (CompleteRun) withdrawnTokens(s *state.State) []workflow.TokenID { return allRunning(s) }

// FailRun ends the run as failed and cancels what lives.
type FailRun struct {
	Failure workflow.Failure `json:"failure"`
	At      time.Time        `json:"at"`
}

// String implements fmt.Stringer.
func (d FailRun) String() string { return newLine("fail-run").addFailure(&d.Failure).String() }

func (d FailRun) evolveState(s *state.State) {
	endRun(s, workflow.MoveFail, &d.Failure, d.At)
}

func (d FailRun) toldEvents(s *state.State) []Event {
	return []Event{runEnd(s, workflow.EventWorkflowFailed, FailureValue(&d.Failure))}
}

func (FailRun) withdrawnTokens(s *state.State) []workflow.TokenID { return allRunning(s) }

// ExpireRun ends the run as timed out and cancels what lives.
type ExpireRun struct {
	Failure workflow.Failure `json:"failure"`
	At      time.Time        `json:"at"`
}

// String implements fmt.Stringer.
func (d ExpireRun) String() string { return newLine("expire-run").addFailure(&d.Failure).String() }

func (d ExpireRun) evolveState(s *state.State) {
	endRun(s, workflow.MoveExpire, &d.Failure, d.At)
}

func (d ExpireRun) toldEvents(s *state.State) []Event {
	return []Event{runEnd(s, workflow.EventWorkflowTimedOut, FailureValue(&d.Failure))}
}

func (ExpireRun) withdrawnTokens(s *state.State) []workflow.TokenID { return allRunning(s) }

// CancelRun ends the run as cancelled and cancels what lives.
type CancelRun struct {
	Failure workflow.Failure `json:"failure"`
	At      time.Time        `json:"at"`
}

// String implements fmt.Stringer.
func (d CancelRun) String() string { return newLine("cancel-run").addFailure(&d.Failure).String() }

func (d CancelRun) evolveState(s *state.State) {
	endRun(s, workflow.MoveCancel, &d.Failure, d.At)
}

func (d CancelRun) toldEvents(s *state.State) []Event {
	return []Event{runEnd(s, workflow.EventWorkflowCancelled, FailureValue(&d.Failure))}
}

func (CancelRun) withdrawnTokens(s *state.State) []workflow.TokenID { return allRunning(s) }

// SuspendRun stops a run because of an internal fault.
type SuspendRun struct {
	Failure workflow.Failure `json:"failure"`
}

// String implements fmt.Stringer.
func (d SuspendRun) String() string { return newLine("suspend-run").addFailure(&d.Failure).String() }

func (d SuspendRun) evolveState(s *state.State) {
	moveRun(s, workflow.MoveSuspend)
	s.Failure = &d.Failure
}

func (d SuspendRun) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventWorkflowSuspended, Data: FailureValue(&d.Failure)}}
}

func (SuspendRun) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// ResumeRun lets a paused or suspended run continue.
type ResumeRun struct{}

// String implements fmt.Stringer.
func (d ResumeRun) String() string { return "resume-run" }

func (ResumeRun) evolveState(s *state.State) {
	moveRun(s, workflow.MoveResume)
	s.Failure, s.ParentPauses = nil, false
}

func (ResumeRun) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventWorkflowResumed}}
}

func (ResumeRun) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// PauseRun holds back what the run would dispatch.
type PauseRun struct {
	Parent bool `json:"parent,omitzero"` // because the parent run is paused
}

// String implements fmt.Stringer.
func (d PauseRun) String() string { return newLine("pause-run").addFlag("parent", d.Parent).String() }

func (d PauseRun) evolveState(s *state.State) {
	moveRun(s, workflow.MovePause)
	s.ParentPauses = d.Parent
}

func (PauseRun) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventWorkflowPaused}}
}

func (PauseRun) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// DeferFailure notes that the run will fail once the rest of it has ended.
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
func moveRun(s *state.State, m workflow.RunMove) {
	to, err := s.Status.Next(m)
	if err != nil {
		panic("decision: " + err.Error())
	}
	s.Status = to
}

// endRun ends the run, with a failure or nil, and cancels every live token.
func endRun(s *state.State, m workflow.RunMove, f *workflow.Failure, now time.Time) {
	if s.LiveCount() > 0 {
		cancelTokens(s, s.LiveTokens())
	}
	moveRun(s, m)
	s.Failure, s.EndedAt = f, now
}

// runEnd returns the event of a run's end, which says how many tokens are withdrawn by it.
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
