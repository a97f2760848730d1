package workflow

import "slices"

// components are the strongly connected components of a graph, numbered so that edges lead to components with the
// same or a lower number. The order is what checkJoinable needs: when a component is looked at, all that edges from
// it lead to has a lower number or the same.
type components struct {
	of    []int // component, by node
	count int
}

// stronglyConnected finds the strongly connected components over the edges that follow accepts: Tarjan, Depth-first
// search and linear graph algorithms, 1972, with a stack of its own instead of recursion. A chain of 10,000 nodes
// would be as deep a recursion.
func (g *adjacency) stronglyConnected(follow func(edge) bool) components {
	t := tarjan{
		graph: g, follow: follow,
		order: make([]int, len(g.nodes)), low: make([]int, len(g.nodes)),
		found: components{of: make([]int, len(g.nodes))},
	}
	// A node without a component is one that is not visited or still on the stack.
	for i := range t.found.of {
		t.found.of[i] = -1
	}
	for n := range g.nodes {
		// It was not reached from a node before it.
		if t.order[n] == 0 {
			t.visitFrom(n)
		}
	}
	return t.found
}

// A tarjan is one search. A node is on stack from its visit until its component is complete.
type tarjan struct {
	graph  *adjacency
	follow func(edge) bool
	order  []int // of the visit, from 1; 0 is not visited
	low    []int // lowest order that is reached
	next   int
	stack  []int // visited nodes without a component
	found  components
}

// A frame is a node being visited and the edge to look at next.
type frame struct{ node, edge int }

// visitFrom visits all nodes that can be reached from root and were not visited before.
func (t *tarjan) visitFrom(root int) {
	frames := []frame{t.enterNode(root)}
	for len(frames) > 0 {
		// The frame is changed in place: the search goes on with the next edge when it comes back.
		f := &frames[len(frames)-1]
		out := t.graph.out[f.node]
		if f.edge == len(out) {
			t.leaveNode(f.node)
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				// A recursion would do this when it comes back from a call.
				parent := frames[len(frames)-1].node
				t.low[parent] = min(t.low[parent], t.low[f.node])
			}
			continue
		}
		e := out[f.edge]
		f.edge++
		switch {
		case !t.follow(e):
		case t.order[e.to] == 0:
			// Popping the frame brings to its parent what was found below it.
			frames = append(frames, t.enterNode(e.to))
		// The node is on the stack: there is a way from it to this one, and now one back.
		case t.found.of[e.to] < 0:
			t.low[f.node] = min(t.low[f.node], t.order[e.to])
		}
	}
}

// enterNode gives a node the next number and puts it on the stack.
func (t *tarjan) enterNode(n int) frame {
	t.next++
	t.order[n], t.low[n] = t.next, t.next
	t.stack = append(t.stack, n)
	return frame{node: n}
}

// leaveNode closes the component of n if n is its root. All that is on the stack above n has no way to a node below
// n, and one to n itself.
func (t *tarjan) leaveNode(n int) {
	if t.low[n] != t.order[n] {
		return
	}
	for {
		last := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.found.of[last] = t.found.count
		if last == n {
			t.found.count++
			return
		}
	}
}

// membersOf returns the nodes of each component in order; the components are in
// the order of their first nodes.
func (c components) membersOf() [][]int {
	// Nodes are visited in order, so that the first of a component is the lowest.
	sets := make([][]int, c.count)
	var order []int
	for n, k := range c.of {
		if sets[k] == nil {
			order = append(order, k)
		}
		sets[k] = append(sets[k], n)
	}
	out := make([][]int, 0, c.count)
	for _, k := range order {
		out = append(out, sets[k])
	}
	return out
}

// findCycle returns the shortest cycle through the first of the nodes of one component, nil without a cycle. A
// breadth-first search finds the shortest. A component of one node has a cycle only if an edge leads from it to
// itself.
func (g *adjacency) findCycle(nodes []int, c components, follow func(edge) bool) []int {
	first := nodes[0]
	// The first node is not in it: it is found when an edge leads back to it.
	before := map[int]int{} // the node from which another was reached first
	for work := []int{first}; len(work) > 0; work = work[1:] {
		n := work[0]
		for _, e := range g.out[n] {
			// A cycle does not leave its component.
			if !follow(e) || c.of[e.to] != c.of[first] {
				continue
			}
			if e.to == first {
				return trailTo(before, first, n)
			}
			if _, ok := before[e.to]; !ok {
				before[e.to] = n
				work = append(work, e.to)
			}
		}
	}
	return nil
}

// trailTo returns the nodes from first to last, along those from which each was reached.
func trailTo(before map[int]int, first, last int) []int {
	out := []int{last}
	for last != first {
		last = before[last]
		out = append(out, last)
	}
	slices.Reverse(out)
	return out
}
