package state

import (
	"github.com/pawl-run/pawl/internal/idset"
	"github.com/pawl-run/pawl/workflow"
)

// countWaiting adds d tokens to those that wait at the join of the group of branch sc. A branch arrives when all that
// live in it wait.
func (s *State) countWaiting(sc workflow.Scope, d int) {
	if d == 0 || sc.Group == 0 {
		return
	}
	b := s.Branch(sc)
	b.Waiting += d
	s.putBranch(sc, b)
}

// siblingWait returns 1 if t waits at its group's join.
func siblingWait(t *Token) int {
	if t.Status == workflow.WaitingForSiblings {
		return 1
	}
	return 0
}

// countToken adds d live tokens like t to the counters of everything that t is in. d is 1 for a token that comes, -1
// for one that ends or leaves its branch or node; t is then the token as it was.
func (s *State) countToken(t *Token, d int) {
	s.live += d
	s.countAtNode(t.Node, d)
	if t.Scope.Group == 0 {
		s.trackRootToken(t.ID, d > 0)
		return
	}
	b := s.branchBefore(t, d)
	b.Live += d
	b.Waiting += d * siblingWait(t)
	b.Tokens = b.Tokens.Put(t.ID, d > 0)
	s.putBranch(t.Scope, b)
	s.countInGroups(t.Scope, d)
}

// branchBefore returns the branch of t as it was before t, which is already replaced, came into it or left it. Branch
// would give a wrong answer here: for a branch without a row it looks at its first token, and the table has already
// the new one. If t is the first token and leaves, the branch consisted of it alone; if t comes, the branch was
// empty. The latter is one that AddBranch has added, since the tokens of the others are put by PutBranches, which
// makes no rows.
func (s *State) branchBefore(t *Token, d int) Branch {
	g := s.Group(t.Scope.Group)
	if d < 0 && t.ID == g.TokenOf(t.Scope.Branch) && s.branchRow(t.Scope) == nil {
		return Branch{Live: 1, Tokens: idset.Set[workflow.TokenID]{}.Put(t.ID, true)}
	}
	if d > 0 && t.ID == g.TokenOf(t.Scope.Branch) && s.branchRow(t.Scope) == nil {
		return Branch{} // it was added
	}
	return s.Branch(t.Scope)
}

// countInGroups adds d live tokens to the group of sc and to all groups and branches that enclose it. The branches
// around a group that has fired do not count the tokens left in it, which are stragglers; the enclosing groups do, so
// that the stragglers can be found. Example: group 2 began in branch 0 of group 1, fired with remaining: ignore, and
// one of its tokens runs on. Group 1 has Live 1, and branch 0 lists group 2, so that whoever cancels the branch finds
// the token. The Live of the branch leaves it out, so that the branch arrives as soon as its other tokens wait at the
// join.
func (s *State) countInGroups(sc workflow.Scope, d int) {
	straggling := false
	for sc.Group != 0 {
		g := s.countedGroup(sc.Group)
		g.Live += d
		if g.Scope.Group == 0 {
			s.trackRootGroup(g.ID, g.isListedInBranch())
			return
		}
		b := s.Branch(g.Scope)
		b.Groups = b.Groups.Put(g.ID, g.isListedInBranch())
		if straggling = straggling || g.Phase == workflow.Fired; !straggling {
			b.Live += d
		}
		s.putBranch(g.Scope, b)
		sc = g.Scope
	}
}

// countAtNode adds d live tokens to those at a node, for the variable active.
func (s *State) countAtNode(n workflow.NodeID, d int) {
	if !s.Graph.UsesActive {
		return
	}
	// An overlay writes the sum, not the difference: a reader takes the first entry that it finds.
	c := s.LiveCountAt(n) + d
	if s.liveAt == nil {
		s.liveAt = map[workflow.NodeID]int{}
	}
	s.liveAt[n] = c
}

// moveToJoin counts a token that waits for its siblings where it stands, in place of where it was; with d -1 it undoes that.
func (s *State) moveToJoin(t *Token, d int) {
	if !s.Graph.UsesActive || t == nil || t.Status != workflow.WaitingForSiblings {
		return
	}
	if s.movedAt == nil {
		s.movedAt = map[workflow.NodeID]int{}
	}
	at := s.NodeOf(t)
	s.movedAt[t.Node] = s.movedCountAt(t.Node) - d
	s.movedAt[at] = s.movedCountAt(at) + d
}
