package planning

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// The fan-in rule. The branches of a sibling group meet at the transitions that
// synchronize it, and one token continues in the place of the token that fanned
// out. This file has the rule in the order in which it applies:
//
//	arrive     A token that takes a synchronizing transition waits there. A
//	           branch has arrived when all its live tokens wait, it has ended
//	           when none is left, and it has failed when nothing caught an error
//	           in it. Tokens that come too late, the stragglers, just end.
//	decide     Each time a branch is resolved, the group is decided anew: it
//	           fires, fails, is abandoned, or lets further branches begin.
//	tolerate   A failed branch fails the group as soon as more have failed than
//	           tolerate allows; without that field, all allows none.
//	quorum     all fires when every branch is resolved and one has arrived;
//	           any (a quorum of 1) and mOfN(n) fire with the arrival that makes
//	           the quorum. When it can no longer be met, onShortfall decides.
//	timeout    It runs from the first arrival; then onTimeout decides.
//	fire       The group ends, and its one continuation begins at the target.
//	cancel     remaining: cancel ends what still runs in the group, in the same
//	           decision (FireGroup.Cancel); ignore and block leave it running.
//	merge      Before the group fires, the values of the arrived branches become
//	           one, and tolerated failures are listed. If that fails, so does the
//	           group; and so it does before, with the arrival that makes them too
//	           large. See merge.go.
//	block      remaining: block: while stragglers of a group run, the next group
//	           of that name in the same branch neither fires nor times out. See
//	           block.go.
//
// An any join with remaining: cancel is thus decideGroup (quorum is 1), then
// fireGroup (Cancel is set). The effect of FireGroup on the tokens is written
// in package decision, group.go.

// Arrive.

// arriveAtJoin lets a token wait at the join of a branch, unless it is too late. A token that
// is too late completes its node all the same, and goes nowhere.
func (p *planner) arriveAtJoin(d decision.AwaitSiblings) {
	if p.tooLate(d.Scope) {
		p.decide(decision.CompleteToken{Token: d.Token, Output: d.Output, Metadata: d.Metadata, Skipped: d.Skipped})
	} else {
		p.decide(d)
	}
	p.touchBranch(d.Scope)
}

// tooLate reports whether the join of a branch, or the branch itself, has been
// decided already, so that a token which arrives there now just ends.
func (p *planner) tooLate(sc workflow.Scope) bool {
	return p.s.Group(sc.Group).Phase != workflow.Gathering || p.s.Branch(sc).Status != state.BranchRunning
}

// branchChanged looks whether a branch in which something has changed is
// resolved by that, and decides its group, and those that it blocked.
//
// It is called by drainWork for every branch that was touched. A branch may have been touched
// for nothing.
func (p *planner) branchChanged(sc workflow.Scope) {
	p.resolveBranch(sc)
	p.unblockNext(p.s.Group(sc.Group))
}

// resolveBranch counts a branch as arrived or ended if it is. In a group that
// has fired, a branch ends only when its last straggler has.
//
// The branch around it is touched in turn, since a group that is decided may be the last
// thing that the outer branch waited for.
func (p *planner) resolveBranch(sc workflow.Scope) {
	g, b := p.s.Group(sc.Group), p.s.Branch(sc)
	straggles := p.leavesStragglers(g)
	switch {
	// It was resolved before, or its group was decided: only its data may be left to forget.
	case b.Status != state.BranchRunning, g.Phase != workflow.Gathering && !straggles:
		p.dropBranch(sc, g, b)
		return
	// A group inside will continue in this branch, or fail it.
	case p.hasUndecidedGroup(b):
		return
	// Nothing in it can come to the join any more; of stragglers, none is left.
	case b.Live == 0 && (!straggles || branchEmpty(b)):
		p.decide(decision.EndBranch{Scope: sc})
	// All that lives in it waits at the join. If one of two tokens waits and the other still
	// runs, the branch has not arrived: it would lack what that one brings.
	case b.Live == b.Waiting && !straggles:
		p.decide(decision.ArriveBranch{Scope: sc, Due: p.joinDue(g)})
	default:
		return
	}
	p.decideGroup(g.ID, nil)
	p.touchBranch(g.Scope)
}

// leavesStragglers reports whether the join of a group has fired without
// cancelling what still runs in the group.
func (p *planner) leavesStragglers(g *state.Group) bool {
	return g.Phase == workflow.Fired && !cancelsRemaining(p.syncOf(g))
}

// branchEmpty reports whether nothing lives in a branch, stragglers included.
func branchEmpty(b state.Branch) bool { return b.Tokens.Len() == 0 && b.Groups.Len() == 0 }

// hasUndecidedGroup reports whether a group that began in a branch is yet to be
// decided: its continuation may begin in the branch even when only stragglers
// live there.
func (p *planner) hasUndecidedGroup(b state.Branch) bool {
	for id := range b.Groups.All() {
		if p.s.Group(id).Phase == workflow.Gathering {
			return true
		}
	}
	return false
}

// dropBranch forgets the data of a branch that was resolved before, once its last token has
// ended. The outer branch is touched because it may have waited for nothing else.
func (p *planner) dropBranch(sc workflow.Scope, g *state.Group, b state.Branch) {
	if !branchEmpty(b) {
		return
	}
	if p.s.HasData(sc) {
		p.decide(decision.DropBranch{Scope: sc})
	}
	p.touchBranch(g.Scope)
}

// Decide.

// decideGroup decides a group after one of its branches was resolved: it fires,
// fails, is abandoned, or lets further branches begin. last is the failure of
// the branch that failed just now, nil if none did.
//
// It is called after each branch that is resolved, when a group is made that may lack
// branches, when one is closed, when stragglers that blocked it have ended, and after a
// patch. As long as nothing is decided by that, the next branches begin.
func (p *planner) decideGroup(id workflow.GroupID, last *workflow.Failure) {
	g := p.s.Group(id)
	switch {
	case p.hasStopped():
		return
	case g.Phase == workflow.Fired: // the branches that remain are stragglers
		p.startBranches(id, g.Result)
		return
	case g.Phase != workflow.Gathering:
		return
	// The branch around it has gone: its continuation would begin where nothing may live any
	// more.
	case p.insideClosed(g.Scope):
		p.decide(decision.AbandonGroup{Group: id})
		return
	}
	sync := p.syncOf(g)
	if sync == nil {
		p.decideUnjoined(g, last)
		return
	}
	if p.explains { // for each branch, ten values would be made for nobody
		p.addNote(g.Origin, "", "%v %s: %d arrived, %d ended, %d failed of %d, waits for %v", g.ID, g.Name, g.Arrived, g.Ended, g.Failed, g.Total, sync.Strategy)
	}
	// A quorum of 0 is the strategy all. The order of the cases is that of the rules:
	// tolerance before shortfall; what is too large to merge before it could fire; and
	// blocked before both firing and shortfall, since neither happens while stragglers run.
	quorum := sync.Strategy.Quorum()
	done := g.UnresolvedBranches() == 0 && !g.Open
	switch {
	case last != nil && sync.Tolerate.Exceeded(g.Failed, g.Total):
		p.failGroup(id, last, firing{})
	case p.exceedsMerge(g):
		p.failGroup(id, p.mergeTooLarge(g, g.Bytes, g.Arrived), firing{})
	case p.blockedByStragglers(g):
		p.startBranches(id, g.Result)
	case g.Closed, quorum > 0 && g.Arrived >= quorum, quorum == 0 && done && (g.Arrived > 0 || g.Total == 0):
		p.fireGroup(g, firing{})
	case quorum > 0 && !g.Open && g.Arrived+g.UnresolvedBranches() < quorum, quorum == 0 && done && g.Failed > 0:
		p.quorumLost(g, sync)
	case quorum == 0 && done:
		p.decide(decision.AbandonGroup{Group: id})
		p.touchBranch(g.Scope)
	default:
		p.startBranches(id, g.Result)
	}
}

// insideClosed reports whether a branch, or one around it, was closed with all
// that lived in it. A group there whose last token ended just before does not
// continue.
func (p *planner) insideClosed(sc workflow.Scope) bool {
	for sc.Group != 0 {
		g := p.s.Group(sc.Group)
		if g.Phase == workflow.Broken || g.Phase == workflow.Fired && cancelsRemaining(p.syncOf(g)) || p.s.Branch(sc).Status == state.BranchFailed {
			return true
		}
		sc = g.Scope
	}
	return false
}

// decideUnjoined decides a group that no transition joins: its first failure fails it, and
// the end of its last branch ends it. Such a group tolerates nothing, and what its branches
// write is dropped with them.
func (p *planner) decideUnjoined(g *state.Group, last *workflow.Failure) {
	switch {
	case last != nil:
		p.failGroup(g.ID, last, firing{})
	case g.UnresolvedBranches() == 0 && !g.Open:
		p.decide(decision.AbandonGroup{Group: g.ID})
		p.touchBranch(g.Scope)
	default:
		p.startBranches(g.ID, g.Result)
	}
}

// syncOf returns how a group is joined; nil if no transition joins it. Anonymous groups have
// none, whatever the definition says.
func (p *planner) syncOf(g *state.Group) *workflow.Synchronization {
	if spec := p.s.Graph.Groups[g.Name]; g.Name != "" && spec != nil {
		return spec.Sync
	}
	return nil
}

// Quorum.

// quorumLost decides a group whose quorum can no longer be met. With a quorum of 3 of 5
// branches that is the third which fails or ends. proceed fires with what has arrived, which
// may be nothing.
func (p *planner) quorumLost(g *state.Group, sync *workflow.Synchronization) {
	if sync.OnShortfall == workflow.ShortfallProceed {
		p.fireGroup(g, firing{shortfall: true})
		return
	}
	p.failGroup(g.ID, &workflow.Failure{
		Code: workflow.CodeJoinShortfall, Permanent: true,
		Message: fmt.Sprintf("%d of %d branches of %q arrived, %d failed: %v cannot be met", g.Arrived, g.Total, g.Name, g.Failed, sync.Strategy),
	}, firing{shortfall: true})
}

// Timeout.

// joinDue returns when the join of a group times out, given that its first branch arrives
// now; zero if the time runs already, or may not run yet. The instant is kept with the group,
// so that a restart or a later arrival does not set the time anew.
func (p *planner) joinDue(g *state.Group) (due time.Time) {
	sync := p.syncOf(g)
	if !g.Due.IsZero() || sync == nil || p.blockedByStragglers(g) {
		return due
	}
	return timeout.Deadline(p.now, sync.Timeout)
}

// joinTimedOut decides a group whose join has waited too long. Tokens that time changes at
// the same instant come before groups on the agenda, so that what they bring to the join
// still counts.
func (p *planner) joinTimedOut(g *state.Group) {
	sync := p.syncOf(g)
	if sync.OnTimeout == workflow.TimeoutProceed {
		p.fireGroup(g, firing{timedOut: true})
		return
	}
	p.failGroup(g.ID, &workflow.Failure{
		Code: workflow.CodeJoinTimeout, Permanent: true,
		Message: fmt.Sprintf("%d of %d branches of %q arrived within %v of the first", g.Arrived, g.Total, g.Name, sync.Timeout),
	}, firing{timedOut: true})
}

// Fire.

// A firing says why a group is decided although its join has not got all that
// it waited for.
type firing struct {
	shortfall bool
	timedOut  bool
}

// fireGroup merges what has arrived at the join of a group, ends the group, and
// creates its one continuation, in the place of the token that fanned out.
//
// If the merge fails, the group fails in place of firing, with its origin's error
// transitions. why is zero if the join has all that it waits for.
func (p *planner) fireGroup(g *state.Group, why firing) {
	spec := p.s.Graph.Groups[g.Name]
	// The values of the tokens at the join are read first: the tokens complete when the
	// group fires.
	arrivals, loops := p.collectArrivals(g)
	q := p.forkPlanner()
	merged, f := q.mergeArrivals(g, spec, arrivals)
	if f == nil {
		f = q.listErrors(g, spec)
	}
	if f != nil {
		p.failGroup(g.ID, f, firing{})
		return
	}
	// The token by which the group counts as having come is looked for while it still waits.
	via := p.viaIfJoined(p.arrivingTransition(g, spec), spec.To)
	p.adoptFork(q)
	p.decide(decision.FireGroup{Group: g.ID, Cancel: cancelsRemaining(spec.Sync), Shortfall: why.shortfall, TimedOut: why.timedOut})
	p.disarmBlocked(p.s.Group(g.ID))
	// With ignore or block, branches that maxConcurrency has held back begin now, as
	// stragglers. g is the group as it was, which has the result that they begin with.
	p.startBranches(g.ID, g.Result)
	// The one continuation has its origin's scope and counts, and one more traversal of each
	// synchronizing transition with a loop by which a branch has come.
	counts := g.Counts
	for _, t := range loops {
		counts = decision.Traverse(p.s.Graph, counts, t)
	}
	p.createToken(state.Token{Node: spec.To, Via: via, Parent: g.Origin, Scope: g.Scope, Counts: counts}, merged)
	p.touchBranch(g.Scope)
}

// arrivingTransition returns the synchronizing transition by which a group reaches a node
// with a join of its own: that of the first branch that arrived, or the first of all if none
// did; "" if the node has no join. A node with a join of its own must know on which of its
// incoming transitions the continuation counts.
func (p *planner) arrivingTransition(g *state.Group, spec *compiled.GroupSpec) workflow.TransitionID {
	if p.s.Graph.Node(spec.To).Join == workflow.JoinNone {
		return ""
	}
	for _, b := range p.branchesOf(g, state.BranchArrived) {
		for id := range b.Tokens.All() {
			if t := p.s.Token(id); t.Status == workflow.WaitingForSiblings {
				return t.Via
			}
		}
	}
	return spec.Joins[0].ID
}

// Cancel.

// cancelsRemaining reports whether a join that fires cancels what still runs. The graph has
// the default filled in.
func cancelsRemaining(sync *workflow.Synchronization) bool {
	return sync.Remaining == workflow.RemainingCancel
}
