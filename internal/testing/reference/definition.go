package reference

import (
	"fmt"
	"slices"
)

// A Join says how a node waits for its incoming transitions.
type Join int

// The joins of a node.
const (
	NoJoin      Join = iota
	All              // a token on every incoming transition
	Synchronize      // tokens on those by which one can still come
)

// An Outcome says with which end of its node a transition is taken.
type Outcome int

// The outcomes of a transition.
const (
	Success Outcome = iota
	Error
	Always
)

// A Definition is a graph of nodes and edges, which are named by their indices.
type Definition struct {
	Start int
	Nodes []Node
	Edges []Edge
}

// A Node is a task, the end of the run, or a gateway, which completes at once.
type Node struct {
	Task          bool
	End           bool
	Join          Join
	FailUnmatched bool  // it fails if no transition matches
	Cancels       []int // nodes whose tokens it cancels when it completes
}

// An Edge is a transition.
type Edge struct {
	From, To int
	Tier     int // lower first
	Outcome  Outcome
	Code     string // of the errors that it catches; "" catches any
	AtLeast  int    // it is taken if the result is at least that; 0: always
	Loop     int    // how often it may be taken; 0: no bound

	Fan   bool   // it makes branches
	Group string // the name of their group; "": one of its own
	Count int    // how many
	Most  int    // how many run at once; 0: no bound
	Open  bool   // the group takes further branches until it is closed

	Sync *Sync // it joins the branches of a group
}

// A Remaining says what becomes of branches that run when their join fires.
type Remaining int

// The fates of stragglers.
const (
	Cancel Remaining = iota
	Ignore
	Block
)

// A Sync joins the branches of a group. All of a group's are equal.
type Sync struct {
	Group     string
	Quorum    int // 0: all branches
	Remaining Remaining
	Tolerate  int  // failures; below 0: the default
	Proceed   bool // in a shortfall
}

// unset marks an absent edge.
const unset = -1

// outgoingEdges returns the edges that leave a node, in definition order.
func (d *Definition) outgoingEdges(node int) []int {
	return d.edgesWhere(func(e Edge) bool { return e.From == node })
}

// incomingEdges returns the edges that lead to a node, in definition order.
func (d *Definition) incomingEdges(node int) []int {
	return d.edgesWhere(func(e Edge) bool { return e.To == node })
}

// joinEdges returns the edges that join a group, in definition order.
func (d *Definition) joinEdges(group string) []int {
	return d.edgesWhere(func(e Edge) bool { return e.Sync != nil && e.Sync.Group == group && group != "" })
}

func (d *Definition) edgesWhere(fits func(Edge) bool) []int {
	var out []int
	for i, e := range d.Edges {
		if fits(e) {
			out = append(out, i)
		}
	}
	return out
}

// staysInside returns the groups that a token would still leave its branch by joining,
// after it has taken an edge: one that it has fanned out anew within the branch is
// joined there. It is not ok if the edge joins one of them, and so leaves the branch.
func (d *Definition) staysInside(edge int, enclosing []string) (after []string, ok bool) {
	e := d.Edges[edge]
	switch {
	case e.Sync != nil && slices.Contains(enclosing, e.Sync.Group):
		return nil, false
	case e.Fan && slices.Contains(enclosing, e.Group):
		return slices.DeleteFunc(slices.Clone(enclosing), func(name string) bool { return name == e.Group }), true
	default:
		return enclosing, true
	}
}

// reachesEdge reports whether a token that stands at node from, and has passed it,
// can come to take an edge without passing the node to which that leads, and
// without leaving the branch, which is one of the enclosing groups.
func (d *Definition) reachesEdge(from, edge int, enclosing []string) bool {
	target := d.Edges[edge].To
	seen := map[string]bool{}
	var visit func(node int, enclosing []string) bool
	visit = func(node int, enclosing []string) bool {
		if at := fmt.Sprint(node, enclosing); seen[at] {
			return false
		} else {
			seen[at] = true
		}
		for _, e := range d.outgoingEdges(node) {
			after, ok := d.staysInside(e, enclosing)
			if ok && (e == edge || d.Edges[e].To != target && visit(d.Edges[e].To, after)) {
				return true
			}
		}
		return false
	}
	return visit(from, enclosing)
}

// loopBody returns the natural loop of an edge: its two nodes, and those that reach
// its source without passing its target.
func (d *Definition) loopBody(edge int) map[int]bool {
	from, to := d.Edges[edge].From, d.Edges[edge].To
	body := map[int]bool{from: true, to: true}
	for changed := true; changed; {
		changed = false
		for _, e := range d.Edges {
			if body[e.To] && e.To != to && !body[e.From] {
				body[e.From], changed = true, true
			}
		}
	}
	return body
}

// loopInside reports whether the loop of an edge is strictly within that of another.
func (d *Definition) loopInside(inner, outer int) bool {
	a, b := d.loopBody(inner), d.loopBody(outer)
	for node := range a {
		if !b[node] {
			return false
		}
	}
	return len(a) < len(b)
}
