package planning

import (
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/workflow"
)

// stamp returns f with where and whose it is.
func (p *planner) stamp(t *workflow.Token, f *workflow.Failure) *workflow.Failure {
	out := *f
	out.Node, out.Token, out.Attempts = t.Node, t.ID, max(t.Attempt, 1)
	if out.Code == "" {
		out.Code = workflow.CodeError
	}
	return &out
}

// fail ends an attempt of a node as failed: it is retried, parked, caught by an
// error transition, or raised to what encloses it. expired says that time ended
// the attempt.
func (p *planner) fail(t *workflow.Token, cause *workflow.Failure, expired bool) {
	f := p.stamp(t, cause)
	n := p.s.Graph.Node(t.Node)
	unsound := f.Code == workflow.CodeExpression || f.Code == workflow.CodeSchema
	if r := n.Node.Retry; r != nil && !unsound {
		if due, ok := p.retryAt(t, n, f); ok {
			p.decide(decision.RetryTask{Token: t.ID, Due: due, Failure: f})
			return
		}
		if r.Exhausted == workflow.ExhaustedPark && t.Attempt > 0 {
			p.decide(decision.ParkTask{Token: t.ID, Failure: *f})
			return
		}
	}
	p.raise(t, f, expired)
}

// raise looks for an error transition that catches f; without one the branch,
// or the run, fails.
func (p *planner) raise(t *workflow.Token, f *workflow.Failure, expired bool) {
	caught, branch, next := p.handle(t, f, expired)
	switch {
	case caught:
		return
	case branch != nil:
		p.failArrival(t, branch)
		return
	case next != nil: // choosing among the error transitions failed: not caught again
		f = p.stamp(t, next)
	}
	p.endFailed(t.ID, f, expired)
	p.unhandled(t.Scope, f)
}

// handle follows the error transitions that catch f. Not caught, it returns the
// failure of choosing among them, if that failed.
func (p *planner) handle(t *workflow.Token, f *workflow.Failure, expired bool) (bool, *branchFailure, *workflow.Failure) {
	v := vars{p: p, scope: t.Scope, token: t, caught: f, bound: true}
	matched, failure := p.route(p.s.Graph.Node(t.Node).Failure, v, f)
	if failure != nil || len(matched) == 0 {
		return false, nil, failure
	}
	steps, branch, failure := p.prepare(matched, v)
	if branch != nil || failure != nil {
		return false, branch, failure
	}
	p.follow(steps, v, func(*decision.AwaitSiblings) bool {
		p.endFailed(t.ID, f, expired)
		return false
	})
	return true, nil, nil
}

// failArrival fails the branch whose value could not be evaluated as t took the
// transition to its join.
func (p *planner) failArrival(t *workflow.Token, b *branchFailure) {
	f := p.stamp(t, b.failure)
	p.decide(decision.FailToken{Token: t.ID, Failure: *f})
	p.touch(t.Scope)
	p.failBranch(b.scope, f)
}

func (p *planner) endFailed(t workflow.TokenID, f *workflow.Failure, expired bool) {
	if expired {
		p.decide(decision.ExpireToken{Token: t, Failure: *f})
		return
	}
	p.decide(decision.FailToken{Token: t, Failure: *f})
}

// unhandled lets what encloses a failure fail: the branch, or the run; in a dag,
// what follows from the node.
func (p *planner) unhandled(sc workflow.Scope, f *workflow.Failure) {
	switch {
	case p.dag():
		p.failStep(f)
	case sc.Group == 0:
		p.failRun(*f)
	default:
		p.failBranch(sc, f)
	}
}

func (p *planner) failRun(f workflow.Failure) { p.decide(decision.FailRun{Failure: f, At: p.now}) }

// failBranch fails a branch: what else lives in it is cancelled, and its group
// is decided. Of a group that is done, the failure changes nothing more.
func (p *planner) failBranch(sc workflow.Scope, f *workflow.Failure) {
	p.decide(decision.FailBranch{Scope: sc, Failure: *f})
	p.conclude(sc.Group, f)
	p.touch(sc)
	p.touch(p.s.Group(sc.Group).Scope)
}

// failGroup ends a group as failed and raises the failure at the node that
// fanned out.
func (p *planner) failGroup(id workflow.GroupID, cause *workflow.Failure, why firing) {
	g := p.s.Group(id)
	f := *cause
	f.Node, f.Token, f.Attempts = g.Node, g.Origin, 1
	p.decide(decision.FailGroup{Group: id, Failure: f, Shortfall: why.shortfall, TimedOut: why.timedOut})
	p.touch(g.Scope)
	if len(p.s.Graph.Node(g.Node).Failure) == 0 {
		p.unhandled(g.Scope, &f)
		return
	}
	if p.crowded(1) {
		return
	}
	t := workflow.Token{ID: p.s.NextToken, Node: g.Node, Parent: g.Origin, Scope: g.Scope, Counts: g.Counts, Attempt: 1}
	p.decide(decision.CreateToken{Token: t})
	p.raise(&t, p.stamp(&t, &f), false)
}

// retryable reports whether a policy retries a failure at all.
func retryable(r *workflow.RetrySpec, f *workflow.Failure) bool {
	return !f.Permanent && !slices.Contains(r.NonRetryable, f.Code)
}
