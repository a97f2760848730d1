package planning

import (
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// codeUnknownSubworkflow is the failure of a node whose definition is not
// pinned. Start refuses such runs, so only a run begun without the engine has it.
const codeUnknownSubworkflow = "unknown_subworkflow"

// startChild hands the start of the child run of a token's next attempt to the
// engine. chosen is the name of its definition, if an expression chooses.
//
// The depth is counted from the root, so that a definition which starts itself comes to an
// end. A child that cannot be started fails its node and not the run.
func (p *planner) startChild(t *state.Token, chosen string, input map[string]any) {
	n := p.s.Graph.Node(t.Node)
	depth := 1
	if p.s.Parent != nil {
		depth = p.s.Parent.Depth + 1
	}
	if most := p.s.Graph.Limits.SubworkflowDepth; depth > most {
		f := limitFailure("subworkflowDepth", most, "subworkflows within each other")
		p.failAttempt(t, &f, false)
		return
	}
	spec := state.Chosen(n.Subworkflow, chosen)
	hash := p.s.Pins.Of(&spec)
	if hash == "" {
		which := "any version"
		if v := spec.Version; v > 0 {
			which = fmt.Sprintf("version %d", v)
		}
		p.failAttempt(t, &workflow.Failure{
			Code: codeUnknownSubworkflow, Permanent: true,
			Message: fmt.Sprintf("no definition is pinned for %s of subworkflow %s", which, spec.Name),
		}, false)
		return
	}
	budget, ok := p.reserveBudget(t, chosen, input)
	if !ok {
		return
	}
	p.decide(decision.StartChild{
		Token: t.ID, Attempt: t.Attempt + 1, Definition: hash, Chosen: chosen, Input: input, Due: timeout.Deadline(p.now, n.Timeout), Budget: budget,
	})
}

// childOf returns the token that waits for the child of an attempt; nil if none does. The
// attempt is part of a child's id, so that the child of an attempt which timed out does not
// belong to this one.
func childOf(s *state.State, id workflow.TokenID, attempt int) *state.Token {
	t := s.Token(id)
	if t == nil || t.Status != workflow.WaitingForChild || t.Attempt != attempt {
		return nil
	}
	return t
}

// childEnded takes the end of a child: its node completes or fails with it.
//
// It may come more than once, and long after: the child tells until the parent has answered.
func (p *planner) childEnded(m state.ChildEnded) error {
	t := childOf(p.s, m.Token, m.Attempt)
	if t == nil {
		return childRepeatedOrStale(p.s, m)
	}
	p.s.CountReport(m)
	p.decide(decision.EndChild{Token: t.ID, Status: m.Status, Failure: m.Failure})
	if p.hasStopped() {
		return nil
	}
	t = p.s.Token(t.ID)
	if m.Status == workflow.RunCompleted {
		output := m.Output
		if output == nil {
			output = map[string]any{}
		}
		if f := p.unfitResult(value.MeasureOf(output)); f != nil {
			p.failAttempt(t, f, false)
			return nil
		}
		p.completeNode(t, completion{output: output})
		return nil
	}
	p.failAttempt(t, p.childFailure(m), false)
	return nil
}

// childFailure returns the failure of a node whose child has not completed. The failure of
// a child passes through. Code, message, cause and whether it is worth another attempt are the
// child's own. If the child timed out or was cancelled, the code says so, and the node is
// not retried: its own timeout is a different matter.
func (p *planner) childFailure(m state.ChildEnded) *workflow.Failure {
	f := workflow.Failure{Permanent: true}
	if m.Failure != nil {
		f.Code, f.Message, f.Permanent = m.Failure.Code, m.Failure.Message, m.Failure.Permanent
		if p.planLike() >= 4 {
			f.Cause = withoutCause(m.Failure.Cause, 0)
		}
		if p.planLike() >= 6 {
			f.By = m.Failure.By
		}
	}
	switch m.Status {
	case workflow.RunTimedOut:
		f.Code, f.Permanent = workflow.CodeTimeout, true
	case workflow.RunCancelled:
		f.Code, f.Permanent = workflow.CodeCancelled, true
	default:
	}
	return &f
}

// childRepeatedOrStale answers the end of a child for which nothing waits: nil if it was
// taken before, state.ErrStale otherwise.
//
// It is repeatedOrStale for children, which have no epoch: the child outlives the engine that
// started it. A time-out that may be retried is the node's own, and says nothing of the
// child.
func childRepeatedOrStale(s *state.State, m state.ChildEnded) error {
	t := s.Token(m.Token)
	if t == nil || t.Attempt != m.Attempt {
		return state.ErrStale
	}
	completed := m.Status == workflow.RunCompleted
	taken := false
	switch t.Status {
	case workflow.Completed, workflow.WaitingForSiblings, workflow.WaitingForJoin:
		taken = completed
	case workflow.Cancelled:
		taken = completed && t.Via != "" // it had completed, and waited at a join
	case workflow.Failed, workflow.Retrying, workflow.WaitingForOperator, workflow.WaitingForBudget:
		own := t.Failure == nil || t.Failure.Code == workflow.CodeTimeout && !t.Failure.Permanent
		taken = !own && (!completed || failedAfterCompletion(t))
	default:
	}
	if !taken {
		return state.ErrStale
	}
	return nil
}

// childAsks answers a child that asks whether it is still wanted. It decides nothing. The
// child of a parent that went on without it is told ErrStale, and is cancelled then.
func (p *planner) childAsks(m state.ChildAsks) error {
	if childOf(p.s, m.Token, m.Attempt) == nil {
		return state.ErrStale
	}
	return nil
}

// pendingChild returns the start of the child that a token waits for. It is the decision that
// started it, derived from the token.
func pendingChild(s *state.State, t *state.Token) decision.StartChild {
	n := s.Graph.Node(t.Node)
	spec := t.SubworkflowAt(n)
	return decision.StartChild{
		Token: t.ID, Attempt: t.Attempt, Definition: s.Pins.Of(&spec), Chosen: t.ChosenAt(n), Input: t.Input, Due: t.Due, Budget: t.Remembered().Budget,
	}
}

// ChildLimits returns the limits of what the child run of a token may report: the budget of its node; of what that says
// nothing of and the run has limits of, all that is left. s is the state in which the token waits for the child.
func ChildLimits(s *state.State, id workflow.TokenID) amount.Sums {
	t := s.Token(id)
	said := amount.FromFloats(s.Graph.Node(t.Node).Budget)
	var left amount.Sums
	taken := s.Reported.Total().Plus(s.Reserved())
	for _, limit := range s.MetaLimits() {
		if x, ok := taken.Named(limit.Name); ok && x.Compare(limit) > 0 {
			limit = amount.Sum{Name: limit.Name}
		} else {
			limit = limit.Minus(x)
		}
		left = append(left, limit)
	}
	return left.With(said).With(t.Remembered().Budget)
}

// Children returns the starts of the child runs that s waits for, in the order of tokens.
// Unlike Pending it includes those of a paused run.
func Children(s *state.State) []decision.StartChild {
	var out []decision.StartChild
	for _, id := range s.LiveTokens() {
		if t := s.Token(id); t.Status == workflow.WaitingForChild {
			out = append(out, pendingChild(s, t))
		}
	}
	return out
}
