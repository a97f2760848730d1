package planning

import (
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// stampFailure returns a copy of f with the node, token and attempts of t. The failure of a
// node that never made an attempt has the number 1, as if it had failed in the first.
func (p *planner) stampFailure(t *state.Token, f *workflow.Failure) *workflow.Failure {
	out := *f
	out.Node, out.Token, out.Attempts = t.Node, t.ID, max(p.attemptsOf(t), 1)
	if out.Code == "" {
		out.Code = workflow.CodeError
	}
	return &out
}

// attemptsOf returns how many attempts a token has made. Up to version 2 a call that ended with
// a snooze counted.
func (p *planner) attemptsOf(t *state.Token) int {
	if p.planLike() < 3 {
		return t.Attempt
	}
	return t.Attempts()
}

// snoozesOf returns how often a task has asked to be called again, for an operator's retry to
// keep. Up to version 2 none did.
func (p *planner) snoozesOf(t *state.Token) int {
	if p.planLike() < 3 {
		return 0
	}
	return t.AllSnoozes()
}

// failAttempt ends an attempt of a node as failed: it is retried, parked, caught by an error
// transition, or raised to what encloses it. expired says that time ended the attempt. The
// failures of expressions, results, children and time come here; those that an executor tells
// go to retryOrRaise.
func (p *planner) failAttempt(t *state.Token, cause *workflow.Failure, expired bool) {
	p.retryOrRaise(t, cause, 0, expired)
}

// retryOrRaise is failAttempt of a task that may have asked for a delay of its own.
//
// Errors of expressions and schemas are never retried or parked, since the next attempt would
// come to the same: they are the definition's. Parking comes before error transitions, which
// are not tried for a task that is parked.
func (p *planner) retryOrRaise(t *state.Token, cause *workflow.Failure, after time.Duration, expired bool) {
	f := p.stampFailure(t, cause)
	n := p.s.Graph.Node(t.Node)
	unsound := f.Code == workflow.CodeExpression || f.Code == workflow.CodeSchema
	if r := n.Node.Retry; r != nil && !unsound {
		if due, ok := p.retryAt(t, n, f, after); ok {
			p.decide(decision.RetryTask{Token: t.ID, Due: due, Failure: f})
			return
		}
		if r.Exhausted == workflow.ExhaustedPark && hasBegun(t) {
			p.decide(decision.ParkTask{Token: t.ID, Failure: *f})
			return
		}
	}
	p.raiseFailure(t, f, expired)
}

// raiseFailure looks for an error transition that catches f; without one the branch, or the
// run, fails. The token ends in each case. The branch or the run around it fails after
// that, so that the token's own end tells its own failure and not that it was cancelled
// with its branch.
func (p *planner) raiseFailure(t *state.Token, f *workflow.Failure, expired bool) {
	caught, branch, next := p.catchFailure(t, f, expired)
	switch {
	case caught:
		return
	case branch != nil:
		p.failArrival(t, branch)
		return
	case next != nil: // choosing among the error transitions failed: not caught again
		f = p.stampFailure(t, next)
	}
	p.endFailedToken(t.ID, f, expired)
	p.failEnclosing(t.Scope, f)
}

// catchFailure follows the error transitions that catch f, and reports whether there were
// any. If choosing among them failed itself, it returns that failure, or the branch which it
// ends. The conditions of error transitions see error, and a result of null. The token fails
// although the failure is caught, and new ones take the transitions: the node has not
// completed.
func (p *planner) catchFailure(t *state.Token, f *workflow.Failure, expired bool) (bool, *branchFailure, *workflow.Failure) {
	v := vars{p: p, scope: t.Scope, token: t, caught: f, bound: true}
	matched, failure := p.matchTiers(p.s.Graph.Node(t.Node).Failure, v, f)
	if failure != nil || len(matched) == 0 {
		return false, nil, failure
	}
	matches, branch, failure := p.evalMatches(matched, v)
	if branch != nil || failure != nil {
		return false, branch, failure
	}
	p.followTransitions(matches, v, func(*decision.AwaitSiblings) bool {
		p.endFailedToken(t.ID, f, expired)
		return false
	})
	return true, nil, nil
}

// failArrival fails the branch whose value could not be evaluated as t took the transition to
// its join. It is not offered to error transitions, because the node itself has done its
// work: what is wrong is the source of the merge, for which the whole branch answers.
func (p *planner) failArrival(t *state.Token, b *branchFailure) {
	f := p.stampFailure(t, b.failure)
	p.decide(decision.FailToken{Token: t.ID, Failure: *f})
	p.touchBranch(t.Scope)
	p.failBranch(b.scope, f)
}

// endFailedToken ends a token whose failure ended its node. A time-out gives the status
// timed_out, which tells readers that nobody reported the failure.
func (p *planner) endFailedToken(t workflow.TokenID, f *workflow.Failure, expired bool) {
	if expired {
		p.decide(decision.ExpireToken{Token: t, Failure: *f})
		return
	}
	p.decide(decision.FailToken{Token: t, Failure: *f})
}

// failEnclosing fails what encloses a failure that nothing caught: the branch or the run; in
// a dag, the node. It goes up one level only. The group of the branch may tolerate the
// failure; if it does not, it fails in turn and raises the failure one level further out.
func (p *planner) failEnclosing(sc workflow.Scope, f *workflow.Failure) {
	switch {
	case p.isDAG():
		p.failNode(f)
	case sc.Group == 0:
		p.failRun(*f)
	default:
		p.failBranch(sc, f)
	}
}

// failRun ends the run as failed; all that lives in it is cancelled by the same decision.
func (p *planner) failRun(f workflow.Failure) { p.decide(decision.FailRun{Failure: f, At: p.now}) }

// failBranch fails a branch: what else lives in it is cancelled, and its group is
// decided, unless it was decided before.
//
// The group has the failure, since its tolerance may be exceeded by it: the failure is then
// the group's own. Both branches are looked at afterwards, because a group that ends may be
// all that the outer one waited for.
func (p *planner) failBranch(sc workflow.Scope, f *workflow.Failure) {
	p.decide(decision.FailBranch{Scope: sc, Failure: *f})
	p.decideGroup(sc.Group, f)
	p.touchBranch(sc)
	p.touchBranch(p.s.Group(sc.Group).Scope)
}

// failGroup ends a group as failed and raises the failure at the node that
// fanned out.
//
// The failure keeps its code, so that an error transition of that node may ask for it. The
// token that fanned out has ended long since, so that a new one stands at the node for it,
// with its scope and counts; what catches the failure goes on from there as from any node.
// Where the node has no error transitions at all the token is spared.
func (p *planner) failGroup(id workflow.GroupID, cause *workflow.Failure, why firing) {
	g := p.s.Group(id)
	f := *cause
	f.Node, f.Token, f.Attempts = g.Node, g.Origin, 1
	p.decide(decision.FailGroup{Group: id, Failure: f, Shortfall: why.shortfall, TimedOut: why.timedOut})
	p.touchBranch(g.Scope)
	if len(p.s.Graph.Node(g.Node).Failure) == 0 {
		p.failEnclosing(g.Scope, &f)
		return
	}
	if p.tooManyTokens(1) {
		return
	}
	t := state.Token{ID: p.s.NextToken, Node: g.Node, Parent: g.Origin, Scope: g.Scope, Counts: g.Counts, Attempt: 1}
	p.decide(decision.CreateToken{Token: t})
	p.raiseFailure(&t, p.stampFailure(&t, &f), false)
}
