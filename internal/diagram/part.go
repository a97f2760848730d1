package diagram

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/workflow"
)

// Size returns how many nodes the diagram has.
func (d *Diagram) Size() int { return len(d.nodes) }

// Edges returns how many transitions the diagram has.
func (d *Diagram) Edges() int { return len(d.edges) }

// Nodes returns the ids of the nodes that the diagram has.
func (d *Diagram) Nodes() (ids []workflow.NodeID) {
	for i := range d.nodes {
		ids = append(ids, d.nodes[i].key)
	}
	return ids
}

// Part returns what matters most of a diagram, at most so many nodes in their order and at most so many transitions among them: the chosen one or, if there is no such
// node, what has changed, or else where a run has tokens that are not done, the most pressing first, or else the start;
// then the nodes that are the fewest transitions away from those. Nodes say how many of their
// transitions are left out. A diagram that has no more of either is returned as it is.
//
// It is for graphs that are too large to be drawn or read whole. d itself is not changed: nodes are copied, and outgoing and marks
// of the copies are their own. An edge with one end left out is counted at the other end and drawn nowhere.
func (d *Diagram) Part(most, edges int, chosen workflow.NodeID) *Diagram {
	if len(d.nodes) <= most && len(d.edges) <= edges {
		return d
	}
	place := make([]int, len(d.nodes)) // in the part, counted from 1; 0 of what is left out
	near := d.nearestNodes(most, edges, d.centres(chosen))
	// The order of the definition is kept, by which the layout tells what is first.
	slices.Sort(near)
	out := &Diagram{title: d.title, run: d.run, start: -1}
	for i, n := range near {
		place[n] = i + 1
		kept := d.nodes[n]
		kept.outgoing = nil
		out.nodes = append(out.nodes, kept)
		if n == d.start {
			out.start = i
		}
	}
	// left counts the transitions of each node that are left out: mostly since their other end is.
	left := make([]int, len(near))
	for _, e := range d.edges {
		from, to := place[e.from]-1, place[e.to]-1
		switch {
		case from >= 0 && to >= 0 && len(out.edges) == edges: // of so many between two nodes
			left[from]++
		case from >= 0 && to >= 0:
			e.from, e.to = from, to
			out.nodes[from].outgoing = append(out.nodes[from].outgoing, len(out.edges))
			out.edges = append(out.edges, e)
		case from >= 0:
			left[from]++
		case to >= 0:
			left[to]++
		}
	}
	for i, n := range left {
		if n > 0 {
			out.nodes[i].marks = append(slices.Clip(out.nodes[i].marks), fmt.Sprintf("%s more →", GroupDigits(n)))
		}
	}
	return out
}

// centres returns the nodes around which a part is drawn, the most important first.
//
// Each of the reasons counts alone: a reader who has chosen a node wants to see what is around it, and one who looks at a patch what it changes.
func (d *Diagram) centres(chosen workflow.NodeID) (out []int) {
	for i := range d.nodes {
		if d.nodes[i].key == chosen {
			return []int{i}
		}
	}
	for i := range d.nodes {
		if d.nodes[i].change != "" {
			out = append(out, i)
		}
	}
	for i := range d.edges {
		if d.edges[i].change != "" {
			out = append(out, d.edges[i].from, d.edges[i].to)
		}
	}
	if out != nil {
		return out
	}
	for i := range d.nodes {
		// A node where all is done or cancelled is no place where anything happens.
		if s, any := d.nodes[i].counts.worstStanding(); any && s < Done {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		x, _ := d.nodes[a].counts.worstStanding()
		y, _ := d.nodes[b].counts.worstStanding()
		return cmp.Compare(x, y)
	})
	// Nothing happens: 0 stands for the start of a dag, which has none.
	if out == nil {
		out = []int{max(d.start, 0)}
	}
	return out
}

// nearestNodes returns at most so many nodes, with at most so many transitions among them: some, and those nearest to them; if they lead
// nowhere, the first of all.
//
// It is a breadth-first search that follows transitions both ways, from all centres at once; near is also its queue. If there are more
// centres than most, only the first of them are in. A node whose transitions to those before it would be too many is left out; the first
// node never is.
func (d *Diagram) nearestNodes(most, edges int, from []int) (near []int) {
	beside := make([][]int, len(d.nodes))
	for _, e := range d.edges {
		beside[e.from], beside[e.to] = append(beside[e.from], e.to), append(beside[e.to], e.from)
	}
	seen, in := make([]bool, len(d.nodes)), make([]bool, len(d.nodes))
	add := func(i int) {
		if seen[i] || len(near) >= most {
			return
		}
		seen[i] = true
		among := 0
		for _, other := range beside[i] {
			if in[other] {
				among++
			}
		}
		if among > edges && len(near) > 0 {
			return
		}
		edges -= among
		in[i] = true
		near = append(near, i)
	}
	for _, i := range from {
		add(i)
	}
	for i := 0; i < len(near); i++ {
		for _, next := range beside[near[i]] {
			add(next)
		}
	}
	// There is room left, but nothing more is connected.
	for i := range d.nodes {
		add(i)
	}
	return near
}
