package diagram

import "slices"

// A structure is the order in which an outline tells the nodes: below each node those that
// can be reached only through it.
//
// A node dominates another one if each way from the beginning to that one leads through it. In a diamond a -> b, a -> c, b -> d, c -> d
// node a dominates the other three, so b, c and d are below a: b and c as its branches, and d where they meet. If a node is
// above another one, it has the smaller position. Tables are by the places in Diagram.nodes.
type structure struct {
	order    []int   // nodes, each before those that it leads to, but for loops
	position []int   // by node: its place in order
	above    []int   // by node: the one that dominates it; -1 at the top
	below    [][]int // by node: those that it dominates at once, in order
}

// findStructure computes the dominators, as of Cooper, Harvey and Kennedy (A Simple, Fast
// Dominance Algorithm, 2001). Nodes to which nothing leads are at the top.
//
// It goes through the nodes in order until nothing changes any more; without loops that is one round, and one more that finds nothing.
func (d *Diagram) findStructure() *structure {
	n := len(d.nodes)
	s := &structure{position: make([]int, n), above: make([]int, n), below: make([][]int, n)}
	incoming := make([][]int, n)
	for _, e := range d.edges {
		incoming[e.to] = append(incoming[e.to], e.from)
	}
	begins := s.sortNodes(d, incoming)
	// -1 means that nothing dominates a node, so what was not computed yet needs another value.
	const unknown = -2
	for v := range n {
		s.above[v] = unknown
	}
	// Each round only moves nodes further up, so there is an end.
	for changed := true; changed; {
		changed = false
		for _, v := range s.order {
			above, known := -1, false
			// The nodes that dominate v are those that dominate each of its predecessors.
			for _, u := range incoming[v] {
				switch {
				// A self loop says nothing, nor does the way back of a loop in the first round.
				case u == v || s.above[u] == unknown:
				case !known:
					above, known = u, true
				default:
					above = s.meet(above, u)
				}
			}
			// A run may begin here, whatever leads back to it.
			if begins[v] {
				above = -1
			}
			if s.above[v] != above {
				s.above[v], changed = above, true
			}
		}
	}
	for _, v := range s.order {
		if s.above[v] >= 0 {
			s.below[s.above[v]] = append(s.below[s.above[v]], v)
		}
	}
	return s
}

// reachedNodes returns which nodes can be reached from the start, or from one that nothing leads to.
//
// In a definition that is sound those are all. Others are loops that nothing enters.
func (d *Diagram) reachedNodes(incoming [][]int) []bool {
	reached := make([]bool, len(d.nodes))
	var visit func(v int)
	visit = func(v int) {
		if reached[v] {
			return
		}
		reached[v] = true
		for _, e := range d.nodes[v].outgoing {
			visit(d.edges[e].to)
		}
	}
	for v := range d.nodes {
		if v == d.start || len(incoming[v]) == 0 {
			visit(v)
		}
	}
	return reached
}

// sortNodes sorts the nodes in reverse postorder of a depth-first search that begins with
// the start, then with nodes that nothing leads to, then with one of each loop that nothing leads
// to. It returns with which nodes.
//
// Each of these searches appends, and the whole is reversed at the end: so what is visited last comes first in order, which is why the
// start is visited at the end, and the nodes from the last to the first.
func (s *structure) sortNodes(d *Diagram, incoming [][]int) (begins []bool) {
	seen := make([]bool, len(d.nodes))
	begins = make([]bool, len(d.nodes))
	var visit func(v int)
	visit = func(v int) {
		if seen[v] {
			return
		}
		seen[v] = true
		for _, e := range slices.Backward(d.nodes[v].outgoing) { // so that the first comes first
			visit(d.edges[e].to)
		}
		s.order = append(s.order, v)
	}
	for v, reached := range d.reachedNodes(incoming) {
		if !reached {
			// One of a loop was enough: visit has marked the others.
			begins[v] = !seen[v]
			visit(v)
		}
	}
	for v := len(d.nodes) - 1; v >= 0; v-- {
		if v != d.start && len(incoming[v]) == 0 {
			begins[v] = true
			visit(v)
		}
	}
	if d.start >= 0 {
		begins[d.start] = true
		visit(d.start)
	}
	slices.Reverse(s.order)
	for i, v := range s.order {
		s.position[v] = i
	}
	return begins
}

// meet returns the closest node that dominates both; -1 if none does.
//
// The later of two nodes in order cannot dominate the earlier one, so meet goes up from the later one until both are the same. All nodes that it meets
// on the way must be known, as findStructure sees to.
func (s *structure) meet(a, b int) int {
	for a != b {
		if a < 0 || b < 0 {
			return -1
		}
		if s.position[a] > s.position[b] {
			a = s.above[a]
		} else {
			b = s.above[b]
		}
	}
	return a
}
