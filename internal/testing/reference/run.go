package reference

import (
	"maps"
	"slices"
)

// A State is what a token does.
type State int

// The states of a token.
const (
	Unbegun State = iota // its branch waits until others have ended
	Fresh                // it has come to its node
	Running              // its task is out
	AtJoin               // it waits at the join of its node
	AtGroup              // it waits at the join of its group
	Gone
)

// A Token stands at a node.
type Token struct {
	Parent *Token // the one that completed before; of a branch or a continuation, the one that fanned out
	Node   int
	Branch *Branch // nil outside all groups
	Counts map[int]int
	State  State
	Via    int  // the edge by which it came, or waits
	Joined bool // it goes on from the join of its node

	born *Branch
}

// Born returns the branch in which the token was made. A token that waits for an outer
// group has left it.
func (t *Token) Born() *Branch { return t.born }

// A Status is that of a run.
type Status int

// The statuses of a run.
const (
	Going Status = iota
	Completed
	Failed
)

// A Run executes a definition.
type Run struct {
	Status Status
	Code   string   // of the failure
	Tokens []*Token // that live
	Made   []*Token // so far, in order

	def    *Definition
	groups []*Group
	line   []*Token // that have come to a node or its join, in the order in which they came
}

// New starts a run.
func New(def *Definition) *Run {
	r := &Run{def: def}
	r.createToken(&Token{Node: def.Start, State: Fresh, Via: unset})
	r.advanceRun()
	return r
}

// Complete ends the task of a token with a result; below 0 it is one that cannot
// be compared.
func (r *Run) Complete(t *Token, result int) {
	r.completeNode(t, result)
	r.advanceRun()
}

// Fail ends the task of a token with an error.
func (r *Run) Fail(t *Token, code string) {
	r.failNode(t, code)
	r.advanceRun()
}

// advanceRun does what there is to do, one act at a time, and looks at everything
// again after each. Tokens that have come to a node at one instant all begin
// there before it is asked what arrived.
func (r *Run) advanceRun() {
	for acted := true; acted && r.Status == Going; {
		r.Tokens, r.line = slices.DeleteFunc(r.Tokens, isGone), slices.DeleteFunc(r.line, isGone)
		acted = r.openGroup() || r.beginToken() || r.fireAllJoin() || r.decideBranch() || r.fireSynchronizing()
	}
	switch {
	case r.Status != Going:
		r.Tokens = nil
	case slices.ContainsFunc(r.groups, func(g *Group) bool { return g.Phase == Gathering && g.taking }): // it waits to be closed
	case len(r.Tokens) == 0:
		r.Status = Completed
	case !slices.ContainsFunc(r.Tokens, func(t *Token) bool { return t.State == Running }):
		r.failRun("deadlock")
	}
}

// failRun fails the run.
func (r *Run) failRun(code string) {
	if r.Status == Going {
		r.Status, r.Code, r.Tokens = Failed, code, nil
	}
}

func (r *Run) createToken(t *Token) *Token {
	t.born = t.Branch
	r.Tokens, r.Made, r.line = append(r.Tokens, t), append(r.Made, t), append(r.line, t)
	return t
}

// beginToken lets the token begin that has come to its node first.
func (r *Run) beginToken() bool {
	i := slices.IndexFunc(r.line, func(t *Token) bool { return t.State == Fresh })
	if i < 0 {
		return false
	}
	t := r.line[i]
	r.line = slices.Delete(r.line, i, i+1)
	n := r.def.Nodes[t.Node]
	switch {
	case n.Join != NoJoin && t.Via != unset && !t.Joined:
		t.State, r.line = AtJoin, append(r.line, t)
	case n.End:
		r.Status = Completed
	case n.Task:
		t.State = Running
	default:
		r.completeNode(t, 0)
	}
	return true
}

// completeNode ends a node and follows its edges.
func (r *Run) completeNode(t *Token, result int) {
	n := r.def.Nodes[t.Node]
	edges, ok := r.chooseEdges(t, result, func(e Edge) bool { return e.Outcome != Error })
	switch {
	case !ok:
		r.failNode(t, "expression_error")
		return
	case len(edges) == 0 && n.FailUnmatched:
		r.failNode(t, "unmatched")
		return
	}
	for _, other := range r.Tokens {
		if other != t && isWithin(other.Branch, t.Branch) && slices.Contains(n.Cancels, r.nodeOf(other)) {
			r.cancelToken(other)
		}
	}
	r.followEdges(t, edges)
}

// chooseEdges returns the matching edges of the first tier that has any; not ok if a
// condition cannot be evaluated.
func (r *Run) chooseEdges(t *Token, result int, fits func(Edge) bool) (chosen []int, ok bool) {
	tiers := map[int]bool{}
	for _, e := range r.def.outgoingEdges(t.Node) {
		tiers[r.def.Edges[e].Tier] = true
	}
	for _, tier := range slices.Sorted(maps.Keys(tiers)) {
		for _, i := range r.def.outgoingEdges(t.Node) {
			e := r.def.Edges[i]
			switch {
			case e.Tier != tier || !fits(e) || e.Loop > 0 && t.Counts[i] >= e.Loop:
			case e.AtLeast > 0 && result < 0:
				return nil, false
			case e.AtLeast == 0 || result >= e.AtLeast:
				chosen = append(chosen, i)
			}
		}
		if len(chosen) > 0 {
			return chosen, true
		}
	}
	return nil, true
}

// failNode ends a node with an error, which an edge may catch.
func (r *Run) failNode(t *Token, code string) {
	edges, _ := r.chooseEdges(t, 0, func(e Edge) bool {
		return e.Outcome != Success && (e.Code == "" || e.Code == code)
	})
	if len(edges) > 0 {
		r.followEdges(t, edges)
		return
	}
	t.State = Gone
	r.raiseFailure(t.Branch, code)
}

// raiseFailure fails a branch, or the run. The group is decided at once, as an error
// outside all groups ends the run at once.
func (r *Run) raiseFailure(b *Branch, code string) {
	if b == nil {
		r.failRun(code)
		return
	}
	r.emptyBranch(b)
	b.Status, b.Group.lastCode = BranchFailed, code
	if b.Group.Phase == Gathering {
		r.decideGroup(b.Group)
	}
}

// followEdges takes edges, in definition order. The token itself waits at the first
// join of a group among them.
func (r *Run) followEdges(t *Token, edges []int) {
	from := t.Branch
	t.State = Gone
	made := map[string]bool{}
	arrival := unset
	for _, i := range edges {
		if b := r.joinedBranch(from, i); b != nil && arrival == unset {
			arrival = i
			if !b.tooLate() {
				t.State, t.Branch, t.Via = AtGroup, b, i
			}
		}
	}
	for k, i := range edges {
		e := r.def.Edges[i]
		switch b := r.joinedBranch(from, i); {
		case b != nil && (i == arrival || b.tooLate()):
		case b != nil:
			r.createToken(&Token{Parent: t, Node: t.Node, Branch: b, Counts: t.Counts, State: AtGroup, Via: i}).born = from
		case !e.Fan:
			r.createToken(&Token{Parent: t, Node: e.To, Branch: from, Counts: r.traverseEdge(t.Counts, i), State: Fresh, Via: i})
		case e.Group == "":
			r.fanOut(t, from, edges[k:k+1])
		case !made[e.Group]:
			made[e.Group] = true
			r.fanOut(t, from, slices.DeleteFunc(slices.Clone(edges), func(j int) bool {
				return !r.def.Edges[j].Fan || r.def.Edges[j].Group != e.Group
			}))
		}
	}
}

// traverseEdge returns the counts of a token that has taken an edge: one more if it
// loops, none for the loops in it.
func (r *Run) traverseEdge(counts map[int]int, edge int) map[int]int {
	if r.def.Edges[edge].Loop == 0 {
		return counts
	}
	out := map[int]int{}
	for e, n := range counts {
		if !r.def.loopInside(e, edge) {
			out[e] = n
		}
	}
	out[edge]++
	return out
}

func isGone(t *Token) bool { return t.State == Gone }

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
