package state

import (
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/workflow"
)

// indexToken brings the indexes of tokens up to date when t replaces old, which
// is nil if t is new: the waiting lines, the number of tokens of each status, and
// the holders of locks.
func (s *State) indexToken(old, t *Token) {
	if old != nil && old.Live() {
		s.statusCounts[old.Status]--
		s.held -= oneIf(old.Held)
	}
	if t.Live() {
		s.statusCounts[t.Status]++
		s.held += oneIf(t.Held)
	}
	// A lock is freed before the next one is noted as held. The planner takes the names that an overlay collects and
	// grants each to whoever has waited longest; when the decisions are applied to the state itself, the grants are
	// among them.
	if old != nil && old.Holds != "" && old.Holds != t.Holds {
		s.setHolder(old.Holds, 0)
		if s.base != nil {
			s.freed = append(s.freed, old.Holds)
		}
	}
	if t.Holds != "" {
		s.setHolder(t.Holds, t.ID)
	}
	// It neither waits nor waited, or it keeps its place, as an approval does that gets a vote.
	if t.Order == 0 && (old == nil || old.Order == 0) || old != nil && old.Order == t.Order && old.Status == t.Status {
		return
	}
	// Its spot in the old line is stale since the row was replaced. If it was the first, the line must begin with a
	// fresh one again.
	if old != nil && old.Order > 0 {
		for _, k := range s.linesOf(old) {
			s.trimLine(k, func(p spot) bool { return s.waitsInLine(k, p) })
		}
	}
	if t.Order == 0 {
		return
	}
	for _, k := range s.linesOf(t) {
		s.addToLine(k, spot{t.Order, int64(t.ID)}, func(p spot) bool { return s.waitsInLine(k, p) })
	}
}

// oneIf returns 1 if b holds, 0 otherwise.
func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// setHolder notes who holds a lock; 0 frees it. A free lock keeps its entry with 0, which in an overlay hides the
// holder beneath.
func (s *State) setHolder(lock string, by workflow.TokenID) {
	if s.holders == nil {
		s.holders = map[string]workflow.TokenID{}
	}
	s.holders[lock] = by
}

// LockHolder returns the token that holds a lock, 0 if it is free. Locks are of one run: the same name in another run
// is another lock.
func (s *State) LockHolder(lock string) workflow.TokenID {
	for t := s; t != nil; t = t.base {
		if id, ok := t.holders[lock]; ok {
			return id
		}
	}
	return 0
}

// markMoved notes a branch in which something has changed, if a join: synchronize may ask for it.
func (s *State) markMoved(sc workflow.Scope) {
	if s.base == nil || len(s.Graph.Synchronize) == 0 {
		return
	}
	if n := len(s.moved); n == 0 || s.moved[n-1] != sc {
		s.moved = pace.Push(s.moved, sc)
	}
}

// TakeMoved returns the branches in which tokens or groups have changed since it was called last, some of them more than
// once. It is for overlays, and for definitions that have joins: synchronize.
func (s *State) TakeMoved() []workflow.Scope {
	out := s.moved
	s.moved = nil
	return out
}

// TakeFreedLocks returns the locks that became free in an overlay since the last call, in order. They are granted in
// the plan that frees them, so that no committed state has a free lock for which a token waits, unless the run is
// paused.
func (s *State) TakeFreedLocks() []string {
	out := s.freed
	s.freed = nil
	return out
}

// CountByStatus returns the number of live tokens that have a status.
func (s *State) CountByStatus(status workflow.TokenStatus) int {
	if int(status) >= len(s.statusCounts) {
		return 0
	}
	return s.statusCounts[status]
}

// HeldTokens returns how many pending tokens a pause holds back.
func (s *State) HeldTokens() int { return s.held }

// OpenGroups returns how many groups gather and are open: while there is one, the run is not over. An open group
// waits for CloseGroup or for further branches, also when no token lives.
func (s *State) OpenGroups() int { return s.open }

// indexGroup brings the indexes of groups up to date when g replaces old, which is nil if g is new: the number of
// open groups, and the lines of the groups whose stragglers block. For other groups nobody asks which occurrences
// come after one another, and no line is kept.
func (s *State) indexGroup(old, g *Group) {
	was := old != nil && old.Open && old.Phase == workflow.Gathering
	s.open += oneIf(g.Open && g.Phase == workflow.Gathering) - oneIf(was)
	if !s.stragglersBlock(g) {
		return
	}
	if old == nil {
		k := WaitKey{LineGather, g.Name, g.Scope}
		s.addToLine(k, spot{id: int64(g.ID)}, func(p spot) bool { return s.Group(workflow.GroupID(p.id)).Phase == workflow.Gathering })
	}
	// It may have fired just now.
	if old != nil && old.Phase != workflow.Fired {
		s.lineUpDraining(g)
	}
}

// stragglersBlock reports whether stragglers of g block the next occurrence. With remaining: block, a join in the
// same enclosing branch may not fire while stragglers of an earlier occurrence run.
func (s *State) stragglersBlock(g *Group) bool {
	spec := s.Graph.Groups[g.Name]
	return g.Name != "" && spec != nil && spec.Sync != nil && spec.Sync.Remaining == workflow.RemainingBlock
}

// lineUpDraining adds a group to the line of those that drain, if it has fired
// and still holds stragglers. A group that fires without stragglers never gets any.
func (s *State) lineUpDraining(g *Group) {
	if g.Phase == workflow.Fired && g.Busy() && s.stragglersBlock(g) {
		k := WaitKey{LineDrain, g.Name, g.Scope}
		s.addToLine(k, spot{id: int64(g.ID)}, func(p spot) bool { return s.Group(workflow.GroupID(p.id)).Busy() })
	}
}

// GatheringGroups returns the groups of a name, begun in a scope, that gather, oldest
// first. It knows only groups whose stragglers block.
func (s *State) GatheringGroups(name string, sc workflow.Scope) []workflow.GroupID {
	var out []workflow.GroupID
	for p := range s.spotsOf(WaitKey{LineGather, name, sc}) {
		if g := s.Group(workflow.GroupID(p.id)); g.Phase == workflow.Gathering {
			out = append(out, g.ID)
		}
	}
	return out
}

// IsDraining reports whether a group of a name, begun in a scope, has fired and
// still holds stragglers. It knows only groups whose stragglers block.
func (s *State) IsDraining(name string, sc workflow.Scope) bool {
	for p := range s.spotsOf(WaitKey{LineDrain, name, sc}) {
		if s.Group(workflow.GroupID(p.id)).Busy() {
			return true
		}
	}
	return false
}

// rootBranch returns the tokens and groups outside any group. They are tracked only for definitions that need them.
// Nodes with cancels and joins that synchronize look for tokens of their own branch, which may be the run itself.
// Status is always BranchRunning, and Live and Waiting are not counted.
func (s *State) rootBranch() Branch {
	for t := s; t != nil; t = t.base {
		if t.root != nil {
			return *t.root
		}
	}
	return Branch{}
}

// trackRootToken adds a token to the root branch, or takes it out.
func (s *State) trackRootToken(id workflow.TokenID, in bool) {
	if s.Graph.TracksRoot {
		b := s.rootBranch()
		b.Tokens = b.Tokens.Put(id, in)
		s.root = &b
	}
}

// trackRootGroup adds a group to the root branch, or takes it out.
func (s *State) trackRootGroup(id workflow.GroupID, in bool) {
	if s.Graph.TracksRoot {
		b := s.rootBranch()
		b.Groups = b.Groups.Put(id, in)
		s.root = &b
	}
}
