package decision

import (
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

func evolveGroup(s *state.State, d Decision) {
	switch d := d.(type) {
	case ArriveBranch:
		g := *s.Group(d.Scope.Group)
		g.Arrived++
		if !d.Due.IsZero() {
			g.Due = d.Due
		}
		s.PutBranchStatus(d.Scope, state.BranchArrived, nil)
		s.PutGroup(&g)
	case EndBranch:
		g := *s.Group(d.Scope.Group)
		g.Ended++
		g.Unstarted += unstarted(&g, d.Scope)
		s.PutBranchStatus(d.Scope, state.BranchEnded, nil)
		s.PutGroup(&g)
		forget(s, d.Scope)
	case FailBranch:
		vacate(s, d.Scope)
		g := *s.Group(d.Scope.Group)
		g.Failed++
		g.Unstarted += unstarted(&g, d.Scope)
		s.PutBranchStatus(d.Scope, state.BranchFailed, &d.Failure)
		s.PutGroup(&g)
	case DropBranch:
		s.DropScope(d.Scope)
	case FireGroup:
		fire(s, d)
	case FailGroup:
		if d.TimedOut {
			expireWaiting(s, s.Group(d.Group))
		}
		closeGroup(s, d.Group, workflow.Broken)
	case AbandonGroup: // what lives in it are stragglers, left to themselves
		endGroup(s, d.Group, workflow.Abandoned)
	default:
		misplaced(d)
	}
}

// unstarted returns 1 if a branch is resolved before it has begun.
func unstarted(g *state.Group, sc workflow.Scope) int {
	if sc.Branch >= g.Started {
		return 1
	}
	return 0
}

// startBranches lets the next branches begin. Those that were resolved before
// are passed over.
func startBranches(s *state.State, d StartBranches) {
	g := *s.Group(d.Group)
	for i := g.Started; g.Unstarted > 0 && i < g.Started+d.Count; i++ {
		if s.Branch(workflow.Scope{Group: g.ID, Branch: i}).Status != state.BranchRunning {
			g.Unstarted--
		}
	}
	g.Started += d.Count
	s.PutGroup(&g)
}

// fire completes the tokens that arrived at the join; what else lives in the
// group is cancelled, or goes on as stragglers.
func fire(s *state.State, d FireGroup) {
	g := s.Group(d.Group)
	s.ReserveBranches(g.Total)
	for i := range g.Total {
		fireBranch(s, workflow.Scope{Group: g.ID, Branch: i}, d.Cancel)
	}
	next := *s.Group(d.Group)
	next.Phase, next.Due = workflow.Fired, never
	if d.Cancel || next.Started == next.Total {
		next.Result, next.Caught = nil, nil
	}
	s.PutGroup(&next)
}

func fireBranch(s *state.State, sc workflow.Scope, cancels bool) {
	b := s.Branch(sc)
	for _, id := range b.Tokens {
		t := s.Token(id)
		switch {
		case t.Status == workflow.WaitingForSiblings && (b.Status == state.BranchArrived || !cancels):
			complete(s, t)
		case cancels:
			end(s, t, workflow.Cancelled, nil, nil)
		}
	}
	if cancels {
		closeGroups(s, b.Groups)
	}
	forget(s, sc)
}

// complete ends a token whose node completed when it took its transition to
// the join: only the token is left to end.
func complete(s *state.State, t *state.Token) {
	s.PutToken(&state.Token{
		ID: t.ID, Node: t.Node, Status: workflow.Completed, Parent: t.Parent, Scope: t.Scope,
		Attempt: t.Attempt, Epoch: t.Epoch,
	})
}

// expireWaiting ends the tokens that wait at a join whose time is up.
func expireWaiting(s *state.State, g *state.Group) {
	for i := range g.Total {
		for _, id := range s.Branch(workflow.Scope{Group: g.ID, Branch: i}).Tokens {
			if t := s.Token(id); t.Status == workflow.WaitingForSiblings {
				end(s, t, workflow.TimedOut, nil, nil)
			}
		}
	}
}

// closeGroup ends a group that does not go on, with all that lives in it.
func closeGroup(s *state.State, id workflow.GroupID, phase workflow.Phase) {
	for i := range s.Group(id).Total {
		vacate(s, workflow.Scope{Group: id, Branch: i})
	}
	endGroup(s, id, phase)
}

// endGroup notes how a group ended that does not go on.
func endGroup(s *state.State, id workflow.GroupID, phase workflow.Phase) {
	g := *s.Group(id)
	if g.Phase == workflow.Gathering {
		g.Phase, g.Due, g.Result, g.Caught = phase, never, nil, nil
		s.PutGroup(&g)
	}
}

// closeGroups ends groups whose branch around them has ended: their joins never
// fire.
func closeGroups(s *state.State, ids []workflow.GroupID) {
	for _, id := range ids {
		closeGroup(s, id, workflow.Abandoned)
	}
}

// vacate cancels what lives in a branch and drops its data.
func vacate(s *state.State, sc workflow.Scope) {
	b := s.Branch(sc)
	cancel(s, b.Tokens)
	closeGroups(s, b.Groups)
	s.DropScope(sc)
}

// forget drops a branch's data once nothing lives in it that could see them.
func forget(s *state.State, sc workflow.Scope) {
	if b := s.Branch(sc); len(b.Tokens) == 0 && len(b.Groups) == 0 {
		s.DropScope(sc)
	}
}
