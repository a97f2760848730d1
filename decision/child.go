package decision

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// StartChild hands the start of a child run to the engine. Its id follows
// from run, token and attempt, see state.ChildID.
//
// Since the id follows from them, the same start may be sent again and again and there is
// still one child. Definition is one of the pins of the run, so that a version which was
// published since changes nothing.
type StartChild struct {
	Token      workflow.TokenID `json:"token"`
	Attempt    int              `json:"attempt"`
	Definition string           `json:"definition"` // hash
	Input      any              `json:"input,omitzero"`
	Due        time.Time        `json:"due,omitzero"` // the attempt times out

	Chosen string `json:"chosen,omitzero"` // the name of the definition, if it is the value of an expression

	Budget amount.Sums `json:"budget,omitzero"` // set aside until the child ends
}

// String implements fmt.Stringer.
func (d StartChild) String() string {
	return newLine("start-child", d.Token).addField("attempt", fmt.Sprint(d.Attempt)).addField("chosen", d.Chosen).addField("definition", shortHash(d.Definition)).
		addJSON("input", d.Input).addTime("due", d.Due).addSums("budget", d.Budget).String()
}

// evolveState keeps all that planning.Pending and planning.Children need to ask for the same
// child again.
func (d StartChild) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	noteInput(s, &t)
	noteBudget(&t, d.Budget)
	t.Status, t.Attempt, t.Input, t.Due, t.Held = workflow.WaitingForChild, d.Attempt, d.Input, d.Due, false
	if d.Chosen != "" {
		noteChoice(&t, d.Chosen)
	}
	s.PutToken(&t)
}

func (d StartChild) toldEvents(s *state.State) []Event {
	child := state.ChildID(s.Run, d.Token, d.Attempt)
	data := map[string]any{"run": string(child), "attempt": int64(d.Attempt)}
	if d.Chosen != "" {
		data["chosen"] = d.Chosen
	}
	return []Event{tokenEvent(s, workflow.EventSubworkflowStarted, d.Token, data)}
}

func (StartChild) withdrawnTokens(*state.State) []workflow.TokenID { return nil }
func (StartChild) effect()                                         {}

// EndChild notes how the child of a token has ended. The token is then as if it were about to
// begin; what follows says what becomes of it. In between nothing else can be planned: both
// are in one plan.
type EndChild struct {
	Token   workflow.TokenID   `json:"token"`
	Status  workflow.RunStatus `json:"status"`
	Failure *workflow.Failure  `json:"failure,omitzero"`
}

// String implements fmt.Stringer.
func (d EndChild) String() string {
	return newLine("end-child", d.Token).addField("status", d.Status.String()).addFailure(d.Failure).String()
}

// evolveState takes the deadline away, since the attempt is over whatever its node makes of
// the end.
func (d EndChild) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Due = workflow.Pending, never
	s.PutToken(&t)
}

func (d EndChild) toldEvents(s *state.State) []Event {
	child := state.ChildID(s.Run, d.Token, s.Token(d.Token).Attempt)
	data := map[string]any{"run": string(child), "status": d.Status.String()}
	if d.Failure == nil {
		return []Event{tokenEvent(s, workflow.EventSubworkflowCompleted, d.Token, data)}
	}
	data["error"] = FailureValue(d.Failure)
	return []Event{tokenEvent(s, workflow.EventSubworkflowFailed, d.Token, data)}
}

// withdrawnTokens has nothing to stop: the child has ended by itself.
func (EndChild) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// shortHash returns the beginning of a hash. It is for traces. A journal has all of it.
func shortHash(hash string) string { return hash[:min(len(hash), 8)] }
