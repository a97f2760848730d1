package reference

import "slices"

// Gathering returns the groups with a name that have neither been decided nor
// closed.
func (r *Run) Gathering() []*Group {
	return slices.DeleteFunc(slices.Clone(r.groups), func(g *Group) bool { return g.name == "" || g.Phase != Gathering || g.closed })
}

// CancelNodes ends the tokens that stand at a node, and reports whether there
// were any.
func (r *Run) CancelNodes(node int) bool {
	found := false
	for _, t := range r.Tokens {
		if t.State != Gone && r.nodeOf(t) == node {
			r.cancelToken(t)
			found = true
		}
	}
	r.advanceRun()
	return found
}

// cancelToken ends a token. A branch that had arrived with it has not arrived any more.
func (r *Run) cancelToken(t *Token) {
	if t.State == AtGroup && t.Branch.Status == BranchArrived {
		t.Branch.Status = BranchOpen
	}
	t.State = Gone
}

// nodeOf returns the node at which a token stands: one that waits for its siblings stands where
// their join leads.
func (r *Run) nodeOf(t *Token) int {
	if t.State == AtGroup {
		return r.def.Edges[t.Via].To
	}
	return t.Node
}

// AddBranch adds a branch to a group, by the group's first edge.
func (r *Run) AddBranch(g *Group) *Token {
	b := &Branch{Group: g, Index: len(g.Branches)}
	g.Branches = append(g.Branches, b)
	t := r.createToken(&Token{Parent: g.Origin, Node: r.def.Edges[g.First].To, Branch: b, Counts: r.traverseEdge(g.counts, g.First), Via: g.First})
	r.advanceRun()
	return t
}

// CloseGroup lets a group take no further branches, and fires its join with what
// has arrived, unless stragglers block it.
func (r *Run) CloseGroup(g *Group) {
	g.taking, g.closed = false, true
	r.decideGroup(g)
	r.advanceRun()
}
