package layout

import (
	"cmp"
	"slices"
)

// boundRanks spreads the nodes of ranks that are too wide over further ranks: it fills one
// rank after another with nodes whose predecessors are placed, first those from which the
// longest ways lead on. A quarter of the width is left to edges that pass by.
//
// The simplex knows no widths: a fan-out of 500 nodes has one rank for all. Nodes only move down, and an edge keeps a length of at least 1.
// A rank takes at least one node, however wide, so the loop ends.
func (t *tangle) boundRanks() {
	room := t.options.MaxWidth * 3 / 4
	if t.widestRank() <= room {
		return
	}
	n := len(t.rank)
	order := t.topologicalOrder()
	// height of a node is the number of edges on the longest way on from it, waits how many of its predecessors are not placed.
	height, waits := make([]int, n), make([]int, n)
	for i := range order {
		v := order[n-1-i]
		waits[v] = len(t.in[v])
		for _, e := range t.out[v] {
			height[v] = max(height[v], height[t.headOf(e)]+1)
		}
	}
	// ready nodes by the rank that they would like
	ready := map[int][]int{}
	for v := range n {
		if waits[v] == 0 {
			ready[t.rank[v]] = append(ready[t.rank[v]], v)
		}
	}
	// late are the nodes that may be placed now, with those for which the ranks before had no room.
	var late []int
	for r, placed := 0, 0; placed < n; r++ {
		late = append(late, ready[r]...)
		delete(ready, r)
		slices.SortFunc(late, func(a, b int) int { return cmp.Or(cmp.Compare(height[b], height[a]), cmp.Compare(a, b)) })
		width, taken := 0, 0
		for _, v := range late {
			width += t.nodeWidth(v) + t.options.NodeGap
			if taken > 0 && width > room {
				break
			}
			taken++
		}
		for _, v := range late[:taken] {
			t.rank[v] = r
			for _, e := range t.out[v] {
				w := t.headOf(e)
				t.rank[w] = max(t.rank[w], r+1)
				if waits[w]--; waits[w] == 0 {
					ready[t.rank[w]] = append(ready[t.rank[w]], w)
				}
			}
		}
		placed += taken
		late = slices.Clone(late[taken:])
	}
}

// nodeWidth returns the width of a node with its self loops and their labels.
func (t *tangle) nodeWidth(v int) int { return t.graph.Nodes[v].Width + t.loopWidth(v) }

// loopWidth returns how far the self loops of a node reach out, with their labels.
func (t *tangle) loopWidth(v int) int {
	width := 0
	for _, e := range t.loops[v] {
		width = max(width, t.options.LoopWidth+t.graph.Edges[e].LabelWidth)
	}
	return width
}

// widestRank returns how wide the widest rank is, with a gap behind each node and without the edges that pass.
func (t *tangle) widestRank() int {
	widths := map[int]int{}
	widest := 0
	for v, r := range t.rank {
		widths[r] += t.nodeWidth(v) + t.options.NodeGap
		widest = max(widest, widths[r])
	}
	return widest
}

// cutLongEdges cuts the longest edges if they would need more items than a small multiple
// of what the graph has: such lines could not be followed by eye, and would cost without bound.
//
// Short edges are granted first, so that as many as possible are drawn. The bound is four items for each node and edge, and 1,000.
func (t *tangle) cutLongEdges() {
	edges := t.graph.Edges
	t.cut = make([]bool, len(edges))
	order := make([]int, 0, len(edges))
	for e, edge := range edges {
		if edge.From != edge.To {
			order = append(order, e)
		}
	}
	span := func(e int) int { return t.rank[t.headOf(e)] - t.rank[t.tailOf(e)] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(span(a), span(b)) })
	left := 4*(len(t.graph.Nodes)+len(edges)) + 1000
	for _, e := range order {
		left -= span(e)
		t.cut[e] = left < 0
	}
}
