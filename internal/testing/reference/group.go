package reference

import "slices"

// A BranchStatus is that of a branch.
type BranchStatus int

// The statuses of a branch.
const (
	BranchOpen BranchStatus = iota
	BranchArrived
	BranchEnded
	BranchFailed
)

// A Branch is everything that grew from one sibling.
type Branch struct {
	Group  *Group
	Index  int
	Status BranchStatus

	begun bool
}

// A Phase is how far a group is.
type Phase int

// The phases of a group.
const (
	Gathering Phase = iota
	Fired
	Over // abandoned, failed or cancelled
)

// A Group is one occurrence of a fan-out.
type Group struct {
	Origin   *Token
	First    int // the edge that made its first branch
	Outer    *Branch
	Branches []*Branch
	Phase    Phase

	taking   bool // further branches, until it is closed
	closed   bool // its join fires with what has arrived, when nothing blocks it
	opened   bool
	name     string
	counts   map[int]int
	most     int // branches that run at once; 0: no bound
	lastCode string
}

// tooLate reports whether a token comes too late for the join of a branch.
func (b *Branch) tooLate() bool { return b.Group.Phase != Gathering || b.Status != BranchOpen }

// isWithin reports whether a branch is another or nested in it.
func isWithin(b, outer *Branch) bool {
	for ; b != outer; b = b.Group.Outer {
		if b == nil {
			return false
		}
	}
	return true
}

// joinedBranch returns the branch of the innermost group that an edge joins, nil if
// the edge joins none that a token in branch b stands in.
func (r *Run) joinedBranch(b *Branch, edge int) *Branch {
	s := r.def.Edges[edge].Sync
	for s != nil && b != nil && b.Group.name != s.Group {
		b = b.Group.Outer
	}
	if s == nil {
		return nil
	}
	return b
}

// fanOut makes one group.
func (r *Run) fanOut(t *Token, outer *Branch, edges []int) {
	g := &Group{Origin: t, First: edges[0], Outer: outer, name: r.def.Edges[edges[0]].Group, counts: t.Counts}
	for _, i := range edges {
		e := r.def.Edges[i]
		for range e.Count {
			b := &Branch{Group: g, Index: len(g.Branches)}
			g.Branches = append(g.Branches, b)
			r.createToken(&Token{Parent: t, Node: e.To, Branch: b, Counts: r.traverseEdge(t.Counts, i), Via: i})
		}
		g.taking = g.taking || e.Open
		if e.Most > 0 && (g.most == 0 || e.Most < g.most) {
			g.most = e.Most
		}
	}
	r.groups = append(r.groups, g)
}

// openGroup lets the first branches of a new group begin, unless its join decides at
// once.
func (r *Run) openGroup() bool {
	for _, g := range r.groups {
		if g.opened {
			continue
		}
		g.opened = true
		if s := r.syncOf(g); g.Phase == Gathering && !g.taking && (len(g.Branches) == 0 || s != nil && len(g.Branches) < s.Quorum) {
			r.decideGroup(g)
		}
		for r.startBranch(g) {
		}
		return true
	}
	return false
}

// decideBranch makes the first decision about a branch and its group that is due.
// Branches that are done at one instant are looked at one after another.
func (r *Run) decideBranch() bool {
	for _, g := range r.groups {
		resolved := slices.ContainsFunc(g.Branches, func(b *Branch) bool { return b.Status == BranchOpen && r.resolveBranch(b) })
		if g.Phase == Gathering && r.decideGroup(g) || r.startBranch(g) || resolved {
			return true
		}
	}
	return false
}

// resolveBranch sees whether a branch has arrived or ended.
func (r *Run) resolveBranch(b *Branch) bool {
	if b.Group.Phase == Fired { // a straggler, until its last token is gone
		if r.branchLives(b) {
			return false
		}
		b.Status = BranchEnded
		return true
	}
	waits := false
	for _, t := range r.Tokens {
		if t.State != Gone && t.Branch == b {
			if t.State != AtGroup {
				return false
			}
			waits = true
		}
	}
	for _, inner := range r.groups {
		if inner.Outer == b && inner.Phase == Gathering {
			return false
		}
	}
	b.Status = BranchEnded
	if waits {
		b.Status = BranchArrived
	}
	return true
}

// branchLives reports whether a branch may go on: a token lives in it, or a group
// gathers.
func (r *Run) branchLives(b *Branch) bool {
	return slices.ContainsFunc(r.Tokens, func(t *Token) bool { return t.State != Gone && isWithin(t.Branch, b) }) ||
		slices.ContainsFunc(r.groups, func(g *Group) bool { return g.Phase == Gathering && isWithin(g.Outer, b) })
}

func (g *Group) countBranches(s BranchStatus) int {
	n := 0
	for _, b := range g.Branches {
		if b.Status == s {
			n++
		}
	}
	return n
}

// syncOf returns how a group is joined, nil if it is not.
func (r *Run) syncOf(g *Group) *Sync {
	if joins := r.def.joinEdges(g.name); len(joins) > 0 {
		return r.def.Edges[joins[0]].Sync
	}
	return nil
}

// decideGroup decides a group that gathers, if it can be decided.
func (r *Run) decideGroup(g *Group) bool {
	open, arrived, failed := g.countBranches(BranchOpen), g.countBranches(BranchArrived), g.countBranches(BranchFailed)
	s := r.syncOf(g)
	if s == nil {
		switch {
		case failed > 0:
			r.failGroup(g, g.lastCode)
		case open == 0 && !g.taking:
			g.Phase = Over
		default:
			return false
		}
		return true
	}
	done := open == 0 && !g.taking
	short := s.Quorum > 0 && arrived+open < s.Quorum && !g.taking || s.Quorum == 0 && done && failed > 0
	switch {
	case s.Tolerate >= 0 && failed > s.Tolerate, s.Tolerate < 0 && s.Quorum == 0 && failed > 0:
		r.failGroup(g, g.lastCode)
	case r.blockedByStragglers(g, s):
		return false
	case g.closed, s.Quorum > 0 && arrived >= s.Quorum, s.Quorum == 0 && done && (arrived > 0 || len(g.Branches) == 0), short && s.Proceed:
		r.fireGroup(g, s)
	case short:
		r.failGroup(g, "join_shortfall")
	case done && s.Quorum == 0:
		g.Phase = Over
	default:
		return false
	}
	return true
}

// blockedByStragglers reports whether an occurrence of a group that fired before still has
// stragglers.
func (r *Run) blockedByStragglers(g *Group, s *Sync) bool {
	if s.Remaining != Block {
		return false
	}
	return slices.ContainsFunc(r.groups, func(e *Group) bool {
		return e.name == g.name && e.Outer == g.Outer && e.Phase == Fired && slices.ContainsFunc(e.Branches, r.branchLives)
	})
}

// startBranch lets the next branches of a group begin.
func (r *Run) startBranch(g *Group) bool {
	running := 0
	for _, b := range g.Branches {
		if b.begun && b.Status == BranchOpen {
			running++
		}
	}
	if g.most > 0 && running >= g.most {
		return false
	}
	for _, t := range r.Tokens {
		if t.State == Unbegun && t.Branch.Group == g {
			t.State, t.Branch.begun = Fresh, true
			r.line = append(slices.DeleteFunc(r.line, func(other *Token) bool { return other == t }), t)
			return true
		}
	}
	return false
}

// fireGroup ends a group with its one continuation.
func (r *Run) fireGroup(g *Group, s *Sync) {
	joins := r.def.joinEdges(g.name)
	via, counts := unset, g.counts
	taken := map[int]bool{}
	for _, b := range g.Branches {
		for _, t := range r.Tokens {
			if t.State != AtGroup || t.Branch != b || b.Status != BranchArrived {
				continue
			}
			taken[t.Via] = true
			if via == unset {
				via = t.Via
			}
		}
	}
	if via == unset {
		via = joins[0]
		taken[via] = true
	}
	for _, e := range joins {
		if taken[e] {
			counts = r.traverseEdge(counts, e)
		}
	}
	g.Phase = Fired
	for _, b := range g.Branches {
		if s.Remaining == Cancel {
			r.emptyBranch(b)
		}
	}
	for _, t := range r.Tokens {
		if t.State == AtGroup && t.Branch.Group == g {
			t.State = Gone
		}
	}
	r.createToken(&Token{Parent: g.Origin, Node: r.def.Edges[joins[0]].To, Branch: g.Outer, Counts: counts, State: Fresh, Via: via})
}

// failGroup ends a group with an error, which is raised at the node that fanned
// out.
func (r *Run) failGroup(g *Group, code string) {
	for _, b := range g.Branches {
		r.emptyBranch(b)
	}
	g.Phase = Over
	r.failNode(r.createToken(&Token{Parent: g.Origin, Node: g.Origin.Node, Branch: g.Outer, Counts: g.counts, State: Fresh, Via: unset}), code)
}

// emptyBranch cancels all that lives in a branch.
func (r *Run) emptyBranch(b *Branch) {
	for _, t := range r.Tokens {
		if isWithin(t.Branch, b) {
			t.State = Gone
		}
	}
	for _, g := range r.groups {
		if g.Phase == Gathering && isWithin(g.Outer, b) {
			g.Phase = Over
		}
	}
}
