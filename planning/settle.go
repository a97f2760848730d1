package planning

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// settle sees whether a branch has arrived or ended, now that something in it
// has changed, and decides its group.
func (p *planner) settle(sc workflow.Scope) {
	p.settleBranch(sc)
	p.unblock(p.s.Group(sc.Group))
}

func (p *planner) settleBranch(sc workflow.Scope) {
	g, b := p.s.Group(sc.Group), p.s.Branch(sc)
	straggles := p.straggles(g)
	switch {
	case b.Status != workflow.BranchRunning, g.Phase != workflow.Gathering && !straggles:
		p.drop(sc, g, b)
		return
	case p.undecided(b):
		return
	case b.Live == 0 && (!straggles || empty(b)):
		p.decide(decision.EndBranch{Scope: sc})
	case b.Live == b.Waiting && !straggles:
		p.decide(decision.ArriveBranch{Scope: sc, Due: p.joinDue(g)})
	default:
		return
	}
	p.conclude(g.ID, nil)
	p.touch(g.Scope)
}

// straggles reports whether the join of a group has fired and left what still
// runs in it to itself.
func (p *planner) straggles(g *workflow.Group) bool {
	return g.Phase == workflow.Fired && !cancels(p.syncOf(g))
}

// empty reports whether nothing lives in a branch, stragglers included.
func empty(b workflow.Branch) bool { return len(b.Tokens) == 0 && len(b.Groups) == 0 }

// undecided reports whether a group that began in a branch is yet to be decided: it
// may go on, in the branch, also if nothing lives in it but stragglers.
func (p *planner) undecided(b workflow.Branch) bool {
	for _, id := range b.Groups {
		if p.s.Group(id).Phase == workflow.Gathering {
			return true
		}
	}
	return false
}

// drop forgets a branch that is done once its last token has ended.
func (p *planner) drop(sc workflow.Scope, g *workflow.Group, b workflow.Branch) {
	if !empty(b) {
		return
	}
	if p.s.HasData(sc) {
		p.decide(decision.DropBranch{Scope: sc})
	}
	p.touch(g.Scope)
}

// joinDue returns when a group's join times out, at its first arrival.
func (p *planner) joinDue(g *workflow.Group) (due time.Time) {
	spec := p.s.Graph.Groups[g.Name]
	if !g.Due.IsZero() || spec == nil || spec.Sync == nil || p.blocked(g) {
		return due
	}
	return timeout.Deadline(p.now, spec.Sync.Timeout)
}

// conclude decides a group after one of its branches was resolved: fire, fail,
// give up, or let further branches begin. last is the failure of the branch
// that failed just now, if one did.
func (p *planner) conclude(id workflow.GroupID, last *workflow.Failure) {
	g := p.s.Group(id)
	switch {
	case p.stopped():
		return
	case g.Phase == workflow.Fired: // what is left of it are stragglers
		p.startBranches(id, g.Result)
		return
	case g.Phase != workflow.Gathering:
		return
	case p.closed(g.Scope):
		p.decide(decision.AbandonGroup{Group: id})
		return
	}
	sync := p.syncOf(g)
	if sync == nil {
		p.concludeUnjoined(g, last)
		return
	}
	p.note(g.Origin, "", "%v %s: %d arrived, %d ended, %d failed of %d, waits for %v", g.ID, g.Name, g.Arrived, g.Ended, g.Failed, g.Total, sync.Strategy)
	quorum := sync.Strategy.Quorum()
	done := g.Unresolved() == 0 && !g.Open
	switch {
	case last != nil && intolerable(sync, g):
		p.failGroup(id, last, firing{})
	case p.blocked(g):
		p.startBranches(id, g.Result)
	case g.Closed, quorum > 0 && g.Arrived >= quorum, quorum == 0 && done && (g.Arrived > 0 || g.Total == 0):
		p.fire(g, firing{})
	case quorum > 0 && !g.Open && g.Arrived+g.Unresolved() < quorum, quorum == 0 && done && g.Failed > 0:
		p.shortfall(g, sync)
	case quorum == 0 && done:
		p.decide(decision.AbandonGroup{Group: id})
		p.touch(g.Scope)
	default:
		p.startBranches(id, g.Result)
	}
}

// closed reports whether all that lives in a branch has been cancelled with it,
// or with one around it. A group in it that ran dry just before does not go on.
func (p *planner) closed(sc workflow.Scope) bool {
	for sc.Group != 0 {
		g := p.s.Group(sc.Group)
		if g.Phase == workflow.Broken || g.Phase == workflow.Fired && cancels(p.syncOf(g)) || p.s.Branch(sc).Status == workflow.BranchFailed {
			return true
		}
		sc = g.Scope
	}
	return false
}

// concludeUnjoined decides a group that no transition joins: its first failure
// fails it, and the end of its last branch ends it.
func (p *planner) concludeUnjoined(g *workflow.Group, last *workflow.Failure) {
	switch {
	case last != nil:
		p.failGroup(g.ID, last, firing{})
	case g.Unresolved() == 0 && !g.Open:
		p.decide(decision.AbandonGroup{Group: g.ID})
		p.touch(g.Scope)
	default:
		p.startBranches(g.ID, g.Result)
	}
}

// syncOf returns how a group is joined; nil if it is not.
func (p *planner) syncOf(g *workflow.Group) *workflow.Synchronization {
	if spec := p.s.Graph.Groups[g.Name]; g.Name != "" && spec != nil {
		return spec.Sync
	}
	return nil
}

// intolerable reports whether more branches have failed than the join
// tolerates. Without a rule of its own, all tolerates none; for a quorum the
// shortfall decides alone.
func intolerable(sync *workflow.Synchronization, g *workflow.Group) bool {
	tol := sync.Tolerate
	switch {
	case tol != nil && tol.Failures != nil:
		return g.Failed > *tol.Failures
	case tol != nil && tol.FailureRatio != nil:
		return float64(g.Failed)/float64(g.Total) > *tol.FailureRatio
	}
	return sync.Strategy.IsAll() && g.Failed > 0
}

// shortfall decides a group whose quorum can no longer be met.
func (p *planner) shortfall(g *workflow.Group, sync *workflow.Synchronization) {
	if sync.OnShortfall == workflow.ShortfallProceed {
		p.fire(g, firing{shortfall: true})
		return
	}
	p.failGroup(g.ID, &workflow.Failure{
		Code: workflow.CodeJoinShortfall, Permanent: true,
		Message: fmt.Sprintf("%d of %d branches of %q arrived, %d failed: %v cannot be met", g.Arrived, g.Total, g.Name, g.Failed, sync.Strategy),
	}, firing{shortfall: true})
}
