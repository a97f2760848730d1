package planning

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Budgets hold what a run reports below its limits, as a bank holds cards below theirs: an attempt has its budget
// authorized when it is dispatched, and what it reports is settled when it ends. So at every moment
//
//	reported + reserved <= limit
//
// for each name, as long as no attempt reports more than its budget, however many run at once. reported is what the
// results that the run took have said, with the children's; reserved are the budgets of the attempts that run. Both are
// exact and the same in any order, see package amount.
//
// An attempt that would exceed a limit even if nothing were reserved never fits, since what is reported only grows: its
// node fails with limit_exceeded, which an error transition may catch, or is parked. An attempt that
// lacks only what others have reserved waits for them, in the order of arrival. An attempt without a budget needs some room, of a size that nobody
// knows; one whose budget is 0 needs none, and begins at the limit too, such as the node that tells somebody of it.

// reserveBudget returns what the next attempt of a token sets aside, and whether it may begin. If not, the token waits
// for room, or its node has failed.
func (p *planner) reserveBudget(t *state.Token, chosen string, input any) (budget amount.Sums, ok bool) {
	// A fork sends an attempt again that has set its budget aside already.
	if now := p.s.Token(t.ID); now.Status == workflow.Dispatched || now.Status == workflow.WaitingForChild {
		return now.Remembered().Budget, true
	}
	n := p.s.Graph.Node(t.Node)
	said := amount.FromFloats(n.Budget)
	for _, x := range said {
		if !x.IsZero() {
			budget = append(budget, x)
		}
	}
	limits := p.s.MetaLimits()
	if len(limits) == 0 {
		return budget, true
	}
	reported := p.s.Reported.Total()
	reserved := p.s.Reserved()
	needs, short := false, false
	for _, limit := range limits {
		need, is := said.Named(limit.Name)
		if is && need.IsZero() {
			continue
		}
		needs = true
		spent, _ := reported.Named(limit.Name)
		if exceedsLimit(spent, need, limit) {
			p.refuseAttempt(t, chosen, input, shortFailure(spent, need, limit))
			return nil, false
		}
		out, _ := reserved.Named(limit.Name)
		short = short || exceedsLimit(spent.Plus(out), need, limit)
	}
	if !needs {
		return budget, true
	}
	first := p.s.FirstInLine(state.WaitKey{Kind: state.LineBudget})
	if !short && (first == nil || first.ID == t.ID) {
		return budget, true
	}
	if t.Status != workflow.WaitingForBudget {
		p.decide(decision.AwaitBudget{Token: t.ID, Chosen: chosen, Input: input})
	}
	return nil, false
}

// exceedsLimit reports whether an attempt that needs so much has no room above what is taken.
func exceedsLimit(taken, need, limit amount.Sum) bool {
	if need.IsZero() {
		return taken.Compare(limit) >= 0
	}
	return taken.Plus(need).Compare(limit) > 0
}

// shortFailure returns the failure of a node whose attempt would exceed a limit.
func shortFailure(spent, need, limit amount.Sum) workflow.Failure {
	text := fmt.Sprintf("limit meta.%s: %v of %v is reported", limit.Name, spent, limit)
	if !need.IsZero() {
		text += fmt.Sprintf(", and the budget of an attempt is %v", need)
	}
	return workflow.Failure{Code: workflow.CodeLimit, Permanent: true, Message: text}
}

// refuseAttempt fails the node of a token that may not begin an attempt. It waits first where it is to be parked, so that
// its input is kept for when the limit is raised, and where it has made attempts, so that a late result of the last one is
// told from one that was taken before: the failure is not of that attempt.
func (p *planner) refuseAttempt(t *state.Token, chosen string, input any, f workflow.Failure) {
	r := p.s.Graph.Node(t.Node).Node.Retry
	parks := r != nil && r.Exhausted == workflow.ExhaustedPark
	if (parks || t.Attempt > 0) && t.Status != workflow.WaitingForBudget {
		p.decide(decision.AwaitBudget{Token: t.ID, Chosen: chosen, Input: input})
		if p.hasStopped() {
			return
		}
		t = p.s.Token(t.ID)
	}
	p.failAttempt(t, &f, false)
}

// grantBudget lets the token begin that has waited longest for room, or fails its node if it can never have it, and
// reports whether it did either. It is asked after everything that may have given back what was reserved.
func (p *planner) grantBudget() bool {
	if p.s.CountByStatus(workflow.WaitingForBudget) == 0 || p.s.Status == workflow.RunPaused {
		return false
	}
	made := len(p.decisions)
	p.beginNextAttempt(p.s.FirstInLine(state.WaitKey{Kind: state.LineBudget}))
	return len(p.decisions) > made
}

// raiseLimits raises limits of what the run may report. Tokens that wait for room begin, and those that were parked for
// want of it. The planner passes over a limit that is as high already. A higher limit, or none of the name, refuses all.
func (p *planner) raiseLimits(m state.Raise) error {
	var raised amount.Sums
	limits := p.s.MetaLimits()
	for _, x := range m.Meta {
		have, ok := limits.Named(x.Name)
		switch c := x.Compare(have); {
		case !ok:
			return fmt.Errorf("%w: the run has no limit of %s", state.ErrNotLive, x.Name)
		case c < 0:
			return fmt.Errorf("%w: the limit of %s is %v, which is more than %v", state.ErrNotLive, x.Name, have, x)
		case c > 0:
			raised = append(raised, x)
		}
	}
	if len(raised) == 0 {
		return nil
	}
	p.decide(decision.RaiseLimits{Meta: raised})
	for _, t := range slices.Collect(p.s.TokensInLine(state.WaitKey{Kind: state.LineParked})) {
		if t = p.s.Token(t.ID); p.hasStopped() || t.Status != workflow.WaitingForOperator || !t.Remembered().Short {
			continue
		}
		p.decide(decision.RetryTask{Token: t.ID, Due: p.now, Base: t.Attempt, Snoozed: p.snoozesOf(t), Failure: t.Failure})
		if again := p.s.Token(t.ID); !p.hasStopped() {
			p.beginNextAttempt(again)
		}
	}
	return nil
}
