package decision

import (
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// AwaitBudget makes a token wait for room below the limits of what the run may report: what others that run have set
// aside, and do not come to report, is free for it then.
//
// Its input is evaluated, and kept for the attempt, as between two attempts. A token that is parked because there is no
// room at all has waited first, so that an operator who raises the limit finds it.
type AwaitBudget struct {
	Token  workflow.TokenID `json:"token"`
	Chosen string           `json:"chosen,omitzero"` // the task type or subworkflow, if it is the value of an expression
	Input  any              `json:"input,omitzero"`
}

// String implements fmt.Stringer.
func (d AwaitBudget) String() string {
	return newLine("await-budget", d.Token).addField("chosen", d.Chosen).addJSON("input", d.Input).String()
}

func (d AwaitBudget) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	noteInput(s, &t)
	m := t.Remembered()
	m.Short = true
	t.Memory = &m
	if d.Chosen != "" {
		noteChoice(&t, d.Chosen)
	}
	t.Status, t.Input, t.Due, t.Beat, t.Held, t.Order = workflow.WaitingForBudget, d.Input, never, never, false, s.NextPlace()
	s.PutToken(&t)
}

func (d AwaitBudget) toldEvents(s *state.State) []Event {
	return []Event{waitingFor(s, d.Token, "budget", nil)}
}

func (AwaitBudget) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// RaiseLimits raises limits of what the run may report, in place of those of its definition and its start.
type RaiseLimits struct {
	Meta amount.Sums `json:"meta"`
}

// String implements fmt.Stringer.
func (d RaiseLimits) String() string {
	return newLine("raise-limits").addSums("meta", d.Meta).String()
}

func (d RaiseLimits) evolveState(s *state.State) { s.OwnLimits = s.OwnLimits.With(d.Meta) }

func (d RaiseLimits) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventLimitsRaised, Data: map[string]any{"meta": d.Meta.Values()}}}
}

func (RaiseLimits) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// noteBudget remembers what an attempt that begins sets aside. It waits for room no more.
func noteBudget(t *state.Token, budget amount.Sums) {
	if t.Memory == nil && budget == nil {
		return
	}
	m := t.Remembered()
	m.Budget, m.Short = budget, false
	t.Memory = &m
}
