package planning

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// forkRun turns the state, which is that of the forked run, into the state of the fork. Timers keep
// the time that was left. Running tasks and children belong to the forked run: in the fork each of
// them gets the result that the message gives, completes as it has in the forked run (see keep.go), is
// sent again, or waits for an operator.
//
// Say that task a is out with a result given and task b without: a completes, everything
// that follows from that is decided, and b is sent, unless it is to be parked, under the
// epoch of the engine that forks, so that the fork does not take a result which the executor
// of the other run sends.
func (p *planner) forkRun(m state.RunForked) error {
	if m.Run == m.From.Run && !m.Moved {
		return state.ErrRunExists
	}
	// Time that had passed for the forked run by AsOf has passed for the fork as well, and no
	// more.
	shift := max(0, p.now.Sub(time.UnixMilli(m.AsOf).UTC()))
	trace := m.Trace
	if m.Moved { // it is the same run
		trace = p.s.Trace
	}
	p.decide(decision.ForkRun{Run: m.Run, From: m.From, Shift: shift, Trace: trace})
	if p.s.Status == workflow.RunSuspended {
		if len(m.Results) > 0 {
			return state.ErrSuspended
		}
		p.keepNothing(&m)
		return nil // what is out is sent when the fork is resumed
	}
	// Noted before results are given, because what these set going is not to be sent a second
	// time.
	var out []workflow.TokenID
	for _, id := range p.s.LiveTokens() {
		if s := p.s.Token(id).Status; s == workflow.Dispatched || s == workflow.WaitingForChild {
			out = append(out, id)
		}
	}
	given, err := p.findGiven(m.Results)
	if err != nil {
		return err
	}
	out = append(out, p.keepEnds(&m, given)...)
	for i, id := range given {
		if err := p.giveResult(id, m.Results[i].Output); err != nil {
			return err
		}
		p.drainWork()
	}
	for _, id := range out {
		if p.hasStopped() {
			break
		}
		p.sendInFork(id, m.InFlight)
	}
	return nil
}

// findGiven returns the tokens for whose tasks results are given. All are found before any is
// given, since the first may end or make tokens that another would name.
func (p *planner) findGiven(results []workflow.ForkResult) (given []workflow.TokenID, err error) {
	seen := map[workflow.TokenID]bool{}
	for _, r := range results {
		t, err := FindToken(p.s, r.Token, r.Node, workflow.Dispatched)
		if err != nil {
			return nil, fmt.Errorf("a result is given: %w", err)
		}
		if seen[t.ID] {
			return nil, fmt.Errorf("%w: two results are given for thread %d at node %q", state.ErrAmbiguous, t.ID, string(t.Node))
		}
		seen[t.ID] = true
		given = append(given, t.ID)
	}
	return given, nil
}

// giveResult completes a task that was out, unless a result before has ended it. A result
// that does not fit the node is refused. If an earlier result ended this token, by the
// cancels of its node for example, nothing is left to do.
func (p *planner) giveResult(id workflow.TokenID, output any) error {
	t := p.s.Token(id)
	if t.Status != workflow.Dispatched {
		return nil
	}
	n := p.s.Graph.Node(t.Node)
	if err := p.refuseValue(output); err != nil {
		return fmt.Errorf("the result given for node %q: %w", string(t.Node), err)
	}
	if err := p.checkSchema(n.Schema, output); err != nil {
		return fmt.Errorf("the result given for node %q: %w", string(t.Node), err)
	}
	branch, f := p.leaveNode(t, n, completion{output: output})
	if branch != nil {
		f = branch.failure
	}
	if f != nil {
		return fmt.Errorf("the result given for node %q: %w", string(t.Node), f)
	}
	return nil
}

// sendInFork sends a task or a child that was out again, as the same attempt with all its
// time, when the run is resumed if it is paused, or has it wait for an operator.
func (p *planner) sendInFork(id workflow.TokenID, which workflow.InFlight) {
	t := p.s.Token(id)
	if t.Status != workflow.Dispatched && t.Status != workflow.WaitingForChild {
		return // a result has ended it
	}
	// The attempt keeps its number, which the decision counts up from the one before.
	same := *t
	same.Attempt-- // it is the attempt that it was
	chosen := t.ChosenAt(p.s.Graph.Node(t.Node))
	switch input, _ := t.Input.(map[string]any); {
	case p.s.Status == workflow.RunPaused && which != workflow.InFlightPark:
		p.decide(decision.RetryTask{Token: id, Due: p.now, Base: t.Base + 1, Snoozed: p.snoozesOf(t), Failure: t.Failure}) // nothing of it was performed here
		p.decide(decision.HoldToken{Token: id, Result: t.Input})
	case which == workflow.InFlightPark:
		p.decide(decision.ParkTask{Token: id, Failure: workflow.Failure{
			Code: workflow.CodeForked, Message: "it was out when the run was forked: retry it, or skip it", Attempts: max(p.attemptsOf(t), 1), Node: t.Node, Token: id,
		}})
	case t.Status == workflow.Dispatched:
		p.dispatchTask(&same, chosen, t.Input)
	default:
		p.startChild(&same, chosen, input)
	}
}
