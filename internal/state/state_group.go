package state

import (
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// PutGroup replaces a group, or adds the next one. g is the state's from then on, which sets its GroupCounts: they stay
// as they are, whatever g has. If the group becomes fired by that, its stragglers no longer count
// as live in the branches around it.
func (s *State) PutGroup(g *Group) {
	old := s.Group(g.ID)
	if old == nil {
		s.NextGroup = g.ID + 1
		g.GroupCounts = &GroupCounts{}
	} else {
		g.GroupCounts = old.countsIn(s)
	}
	// From now on countInGroups leaves its tokens out of the branches around it: those that were counted there must
	// go as well, or they would be counted for ever.
	if old != nil && old.Phase != workflow.Fired && g.Phase == workflow.Fired && g.Live > 0 {
		s.uncountStragglers(g)
	}
	s.groups.putRow(g.ID, g)
	s.markMoved(g.Scope)
	s.scheduleItem(Item{At: g.Due, Group: g.ID})
	s.indexGroup(old, g)
	// A group that gathers keeps everything around it busy, even when no token lives in it: its join is yet to be
	// decided, and its continuation may begin there.
	if d := oneIf(g.Phase == workflow.Gathering) - oneIf(old != nil && old.Phase == workflow.Gathering); d != 0 {
		s.countGathering(g.Scope, d)
		s.countStanding(g.Node, d)
	}
	if g.Scope.Group == 0 || old == nil || old.isListedInBranch() != g.isListedInBranch() {
		s.listInBranch(g)
	}
}

// countGathering adds d gathering groups to the counters of all groups that enclose sc. A branch lists a group until
// nothing is left in that group, so a change of the counter may change the list. It goes outwards, and does not stop
// at groups that have fired: a group in which one gathers is Busy, and the next occurrence of a join with remaining:
// block waits for it.
func (s *State) countGathering(sc workflow.Scope, d int) {
	for sc.Group != 0 {
		g := s.countedGroup(sc.Group)
		was := g.isListedInBranch()
		g.Inner += d
		if g.isListedInBranch() != was {
			s.listInBranch(g)
		}
		sc = g.Scope
	}
}

// countBytes adds the bytes that t brings to the join of its group, or takes them off, if its branch has arrived
// there. If the sum shows that the merged value will be too large, the planner fails the group without waiting for
// the other branches.
func (s *State) countBytes(t *Token, d int) {
	if t == nil || siblingWait(t) == 0 || t.Source == nil || s.Branch(t.Scope).Status != BranchArrived {
		return
	}
	s.countedGroup(t.Scope.Group).Bytes += d * value.Size(t.Source)
}

// countedGroup returns a group whose counts are to be changed: in an overlay a copy, once, of what the base has.
func (s *State) countedGroup(id workflow.GroupID) *Group {
	g := s.Group(id)
	if s.base == nil || s.groups.own[id] != nil {
		return g
	}
	c := *g
	c.GroupCounts = g.countsIn(s)
	s.groups.putCounts(id, &c)
	return &c
}

// countsIn returns the counts of g, a row that s has or that its base has, for a row of s.
func (g *Group) countsIn(s *State) *GroupCounts {
	if s.base == nil || s.groups.own[g.ID] != nil {
		return g.GroupCounts
	}
	c := *g.GroupCounts
	return &c
}

// listInBranch adds a group to the list of the branch in which it began, or removes it, by whether the branch still
// lists it. The list leads down from a branch to what is nested in it: TokensInScope follows it, and FailBranch
// closes the groups that it names.
func (s *State) listInBranch(g *Group) {
	if g.Scope.Group == 0 {
		s.trackRootGroup(g.ID, g.isListedInBranch())
		return
	}
	b := s.Branch(g.Scope)
	b.Groups = b.Groups.Put(g.ID, g.isListedInBranch())
	s.putBranch(g.Scope, b)
}

// uncountStragglers takes g's live tokens out of the branches that enclose it, except for stragglers of fired groups
// within it, which are no longer counted there. It ends at the first enclosing group that has fired: the branches
// further out left these tokens out when that one fired.
func (s *State) uncountStragglers(g *Group) {
	n := 0
	for i := range g.Total {
		n += s.Branch(workflow.Scope{Group: g.ID, Branch: i}).Live
	}
	for sc := g.Scope; sc.Group != 0; {
		b := s.Branch(sc)
		b.Live -= n
		s.putBranch(sc, b)
		outer := s.Group(sc.Group)
		if outer.Phase == workflow.Fired {
			return
		}
		sc = outer.Scope
	}
}

// branchRows are the rows of branches in which something has happened. A row is immutable. In a State they are dense, by
// the branch, as the branches of a group are numbered from 0; an overlay holds those that it changed.
type branchRows struct {
	dense map[workflow.GroupID][]*Branch // without base
	own   map[workflow.Scope]*Branch     // with base
}

// branchRow returns the row of a branch, here or beneath; nil if it has none: nothing has happened to it, nor is it
// being restored.
func (s *State) branchRow(sc workflow.Scope) *Branch {
	for s.base != nil {
		if b := s.branches.own[sc]; b != nil {
			return b
		}
		s = s.base
	}
	if rows := s.branches.dense[sc.Group]; sc.Branch >= 0 && sc.Branch < len(rows) {
		return rows[sc.Branch]
	}
	return nil
}

// putBranch replaces the row of a branch. From then on the branch is no longer derived from its first token.
func (s *State) putBranch(sc workflow.Scope, b Branch) {
	if s.base != nil {
		if s.branches.own == nil {
			s.branches.own = map[workflow.Scope]*Branch{}
		}
		s.branches.own[sc] = &b
		return
	}
	if s.branches.dense == nil {
		s.branches.dense = map[workflow.GroupID][]*Branch{}
	}
	rows := s.branches.dense[sc.Group]
	for sc.Branch >= len(rows) {
		rows = pace.Push(rows, nil)
	}
	rows[sc.Branch] = &b
	s.branches.dense[sc.Group] = rows
}
