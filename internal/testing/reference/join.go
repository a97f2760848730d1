package reference

import "slices"

// A place is the join of a node in one branch.
type place struct {
	node   int
	branch *Branch
}

// waitingTokens returns the tokens that wait at a place by an edge, in the order in
// which they came.
func (r *Run) waitingTokens(p place, edge int) []*Token {
	var out []*Token
	for _, t := range r.line {
		if t.State == AtJoin && t.Node == p.node && t.Branch == p.branch && t.Via == edge {
			out = append(out, t)
		}
	}
	return out
}

// joinPlaces returns where tokens wait at joins of a kind, in definition order; the
// branches of one node in the order in which tokens came.
func (r *Run) joinPlaces(kind Join) []place {
	var out []place
	for node, n := range r.def.Nodes {
		if n.Join != kind {
			continue
		}
		for _, t := range r.line {
			if p := (place{node, t.Branch}); t.State == AtJoin && t.Node == node && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// fireAllJoin fires one join of a node that has tokens on all of its edges.
func (r *Run) fireAllJoin() bool {
	for _, p := range r.joinPlaces(All) {
		if !slices.ContainsFunc(r.def.incomingEdges(p.node), func(e int) bool { return len(r.waitingTokens(p, e)) == 0 }) {
			r.fireJoin(p)
			return true
		}
	}
	return false
}

// fireSynchronizing fires those joins of nodes that synchronize and wait for nothing,
// or the first of those that wait for each other.
func (r *Run) fireSynchronizing() bool {
	places := r.joinPlaces(Synchronize)
	waiting := slices.DeleteFunc(slices.Clone(places), func(p place) bool {
		others, free := r.waitsFor(p)
		return free && len(others) == 0
	})
	if len(waiting) < len(places) {
		for _, p := range places {
			if !slices.Contains(waiting, p) {
				r.fireJoin(p)
			}
		}
		return true
	}
	for _, p := range places {
		if r.waitMutually(p) {
			r.fireJoin(p)
			return true
		}
	}
	return false
}

// fireJoin takes a token from each edge that has one and goes on with another.
func (r *Run) fireJoin(p place) {
	counts := map[int]int{}
	var last *Token
	for _, e := range r.def.incomingEdges(p.node) {
		line := r.waitingTokens(p, e)
		if len(line) == 0 {
			continue
		}
		t := line[0]
		t.State = Gone
		if last == nil || slices.Index(r.line, t) > slices.Index(r.line, last) {
			last = t
		}
		for loop, n := range t.Counts {
			counts[loop] = max(counts[loop], n)
		}
	}
	r.createToken(&Token{Parent: last, Node: p.node, Branch: p.branch, Counts: counts, State: Fresh, Via: unset, Joined: true})
}

// waitsFor returns the other synchronizing joins of the same branch from which a
// token may still come to a place by an edge that has none. It is not free if
// something else may come as well.
func (r *Run) waitsFor(p place) (others []place, free bool) {
	var missing []int
	for _, e := range r.def.incomingEdges(p.node) {
		if len(r.waitingTokens(p, e)) == 0 {
			missing = append(missing, e)
		}
	}
	free = true
	for _, t := range r.Tokens {
		if !r.countsIn(t.Branch, p.branch) || !slices.ContainsFunc(missing, func(e int) bool { return r.mayCome(t, e, p.branch) }) {
			continue
		}
		if t.State != AtJoin || t.Branch != p.branch || r.def.Nodes[t.Node].Join != Synchronize {
			free = false
		} else {
			others = append(others, place{t.Node, t.Branch})
		}
	}
	for _, g := range r.groups {
		if g.Phase != Gathering || !r.countsIn(g.Outer, p.branch) {
			continue
		}
		around := enclosingBranch(g.Outer, p.branch)
		free = free && !slices.ContainsFunc(missing, func(e int) bool { return r.groupComes(g, e, around) })
	}
	return others, free
}

// countsIn reports whether branch b is, or is nested in, another; what lives in
// groups that have fired does not count.
func (r *Run) countsIn(b, in *Branch) bool {
	for ; b != in; b = b.Group.Outer {
		if b == nil || b.Group.Phase == Fired {
			return false
		}
	}
	return true
}

// enclosingBranch returns the names of the groups around branch in which a token in
// branch b, which is or is nested in it, would leave by their joins. A namesake
// between the two is joined first.
func enclosingBranch(b, in *Branch) (names []string) {
	for outer := in; outer != nil; outer = outer.Group.Outer {
		if name := outer.Group.name; name != "" {
			names = append(names, name)
		}
	}
	for ; b != in; b = b.Group.Outer {
		names = slices.DeleteFunc(names, func(name string) bool { return name == b.Group.name })
	}
	return names
}

// mayCome reports whether a token may come to take an edge in a branch, without
// passing the node to which that leads.
func (r *Run) mayCome(t *Token, edge int, in *Branch) bool {
	switch t.State {
	case AtGroup: // it leaves its branch
		return t.Branch != in && r.leadsTo(t.Via, edge, enclosingBranch(t.Branch.Group.Outer, in))
	case Unbegun, AtJoin: // it has not passed its node
		return t.Node != r.def.Edges[edge].To && r.def.reachesEdge(t.Node, edge, enclosingBranch(t.Branch, in))
	default:
		return r.def.reachesEdge(t.Node, edge, enclosingBranch(t.Branch, in))
	}
}

// groupComes reports whether what a group that gathers goes on with may come to
// take an edge: its join, a branch that is added to it, or its failure.
func (r *Run) groupComes(g *Group, edge int, around []string) bool {
	if joins := r.def.joinEdges(g.name); len(joins) > 0 && r.leadsTo(joins[0], edge, around) {
		return true
	}
	ways := slices.DeleteFunc(r.def.outgoingEdges(g.Origin.Node), func(e int) bool { return r.def.Edges[e].Outcome == Success })
	if g.taking {
		ways = append(ways, g.First)
	}
	return slices.ContainsFunc(ways, func(way int) bool {
		after, ok := r.def.staysInside(way, around)
		return ok && r.leadsTo(way, edge, after)
	})
}

// leadsTo reports whether a way that is taken is an edge, or leads on to it.
func (r *Run) leadsTo(way, edge int, enclosing []string) bool {
	to := r.def.Edges[way].To
	return way == edge || to != r.def.Edges[edge].To && r.def.reachesEdge(to, edge, enclosing)
}

// waitMutually reports whether a place and all those that it waits for wait for each
// other, and for nothing else.
func (r *Run) waitMutually(p place) bool {
	closure := func(p place) ([]place, bool) {
		var seen []place
		for work := []place{p}; len(work) > 0; work = work[1:] {
			others, free := r.waitsFor(work[0])
			if !free {
				return seen, false
			}
			for _, o := range others {
				if !slices.Contains(seen, o) {
					seen, work = append(seen, o), append(work, o)
				}
			}
		}
		return seen, true
	}
	all, free := closure(p)
	for _, o := range all {
		back, _ := closure(o)
		free = free && slices.Contains(back, p)
	}
	return free
}
