package diagram

import "slices"

// A structure is the order in which an outline tells the nodes: below each node those that
// can be reached only through it.
type structure struct {
	order    []int   // nodes, each before those that it leads to, but for loops
	position []int   // by node: its place in order
	above    []int   // by node: the one that dominates it; -1 at the top
	below    [][]int // by node: those that it dominates at once, in order
}

// findStructure computes the dominators, as of Cooper, Harvey and Kennedy (A Simple, Fast
// Dominance Algorithm, 2001). What nothing leads to is at the top.
func (d *Diagram) findStructure() *structure {
	n := len(d.nodes)
	s := &structure{position: make([]int, n), above: make([]int, n), below: make([][]int, n)}
	incoming := make([][]int, n)
	for _, e := range d.edges {
		incoming[e.to] = append(incoming[e.to], e.from)
	}
	s.sortNodes(d, incoming)
	const unknown = -2
	for v := range n {
		s.above[v] = unknown
	}
	for changed := true; changed; {
		changed = false
		for i, v := range s.order {
			above, known := -1, false
			for _, u := range incoming[v] {
				switch {
				case u == v || s.above[u] == unknown:
				case !known:
					above, known = u, true
				default:
					above = s.meet(above, u)
				}
			}
			if v == d.start || i == 0 {
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

// sortNodes sorts the nodes in reverse postorder of a depth-first search that begins with
// the start, then with nodes that nothing leads to.
func (s *structure) sortNodes(d *Diagram, incoming [][]int) {
	seen := make([]bool, len(d.nodes))
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
	for v := len(d.nodes) - 1; v >= 0; v-- {
		if v != d.start && len(incoming[v]) == 0 {
			visit(v)
		}
	}
	if d.start >= 0 {
		visit(d.start)
	}
	for v := range d.nodes {
		visit(v)
	}
	slices.Reverse(s.order)
	for i, v := range s.order {
		s.position[v] = i
	}
}

// meet returns the closest node that dominates both; -1 if none does.
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
