package layout

// maxSimplexWork bounds the work of the network simplex, in edges looked at: far more than
// graphs of a thousand nodes need. At the bound the ranks are sound, if not the best.
const maxSimplexWork = 20_000_000

// assignRanks gives each node a rank so that edges lead down and are short in sum.
//
// First each node is as high as its predecessors let it, by longest paths: these ranks are sound, and the simplex only ever moves between
// sound ones, so it may end at any time. In a -> b -> c with d -> c, d begins at rank 0 and its edge has length 2; the simplex moves d
// to rank 1, beside b.
func (t *tangle) assignRanks() {
	t.rank = make([]int, len(t.graph.Nodes))
	for _, v := range t.topologicalOrder() {
		for _, e := range t.in[v] {
			t.rank[v] = max(t.rank[v], t.rank[t.tailOf(e)]+1)
		}
	}
	s := newSimplex(t)
	// Components that are not connected are ranked one by one, each from 0: nothing says which should be lower.
	for v := range t.rank {
		if !s.inTree[v] {
			s.optimize(v)
		}
	}
	t.balanceRanks()
}

// topologicalOrder returns the nodes so that all edges lead forwards.
//
// All nodes are in it, since breakCycles has left no cycle.
func (t *tangle) topologicalOrder() []int {
	waits := make([]int, len(t.graph.Nodes))
	var order []int
	for v := range waits {
		if waits[v] = len(t.in[v]); waits[v] == 0 {
			order = append(order, v)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, e := range t.out[order[i]] {
			w := t.headOf(e)
			if waits[w]--; waits[w] == 0 {
				order = append(order, w)
			}
		}
	}
	return order
}

// A simplex holds a spanning tree of tight edges, those of length 1, for each component.
// The cut value of a tree edge is how much shorter the edges get in sum for each rank by
// which it is lengthened, negated.
//
// Ranks are a linear program: as little length in sum as possible, each edge at least 1 long. Any spanning tree whose edges are tight is
// one of its corners. A negative cut value says that the sum gets less if the tree edge is replaced by another one; when there
// is no such edge, the ranks are the best. For each component inTree, treeEdge, tree and edges agree, and parent, low and lim hold the tree as it
// was numbered last. work counts what was looked at in all components.
type simplex struct {
	*tangle
	inTree   []bool  // by node
	treeEdge []bool  // by edge
	tree     [][]int // by node: its tree edges
	cutValue []int   // by edge
	parent   []int   // by node: the tree edge to its parent, -1 at the root
	low, lim []int   // by node: the subtree of v has the numbers low..lim in postorder, v has lim
	work     int
	next     int // where the search for an edge that should leave goes on
	members  []int
	edges    []int // tree edges of the component
}

func newSimplex(t *tangle) *simplex {
	n, m := len(t.graph.Nodes), len(t.graph.Edges)
	return &simplex{
		tangle: t, inTree: make([]bool, n), treeEdge: make([]bool, m), tree: make([][]int, n), cutValue: make([]int, m),
		parent: make([]int, n), low: make([]int, n), lim: make([]int, n),
	}
}

// slack returns by how much an edge is longer than it must be; it is never negative, and 0 of tree edges.
func (s *simplex) slack(e int) int { return s.rank[s.headOf(e)] - s.rank[s.tailOf(e)] - 1 }

// optimize ranks the component of root.
//
// The tree is rebuilt in place with each exchange, not from scratch. At the end the component begins at rank 0.
func (s *simplex) optimize(root int) {
	s.members, s.edges, s.next = nil, nil, 0
	s.growTree(root)
	s.numberSubtree(root, -1, 1)
	s.initCutValues()
	for s.work < maxSimplexWork {
		e := s.leavingEdge()
		if e < 0 {
			break
		}
		s.exchange(e, s.enteringEdge(e))
	}
	first := s.rank[root]
	for _, v := range s.members {
		first = min(first, s.rank[v])
	}
	for _, v := range s.members {
		s.rank[v] -= first
	}
}

// growTree makes a spanning tree of tight edges: while none leads out of it, it moves so
// that the edge with the least slack becomes tight.
//
// Moving the whole tree keeps its own edges tight, and no edge gets too short, as none at its border has less slack. Afterwards all
// nodes that can be reached from root, in either direction, are in members.
func (s *simplex) growTree(root int) {
	frontier := s.collectTight(root, nil)
	for len(frontier) > 0 {
		best, kept := -1, frontier[:0]
		for _, e := range frontier {
			s.work++
			// Its other end has come into the tree meanwhile: it leads out no more.
			if s.inTree[s.tailOf(e)] && s.inTree[s.headOf(e)] {
				continue
			}
			kept = append(kept, e)
			if best < 0 || s.slack(e) < s.slack(best) {
				best = e
			}
		}
		if best < 0 {
			return
		}
		// The tree moves down to an edge that leaves it, and up to one that enters it.
		delta, out := s.slack(best), s.headOf(best)
		if s.inTree[out] {
			delta, out = -delta, s.tailOf(best)
		}
		for _, v := range s.members {
			s.rank[v] += delta
		}
		s.addTreeEdge(best)
		frontier = s.collectTight(out, kept)
	}
}

// collectTight adds v and all that tight edges reach from it to the tree, and returns the
// frontier with the other edges at these nodes.
func (s *simplex) collectTight(v int, frontier []int) []int {
	s.inTree[v] = true
	todo := []int{v}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		s.members = append(s.members, v)
		for _, edges := range [2][]int{s.out[v], s.in[v]} {
			for _, e := range edges {
				s.work++
				// The other end of e: the sum of both less the one that is known.
				w := s.tailOf(e) + s.headOf(e) - v
				switch {
				case s.inTree[w]:
				case s.slack(e) == 0:
					s.inTree[w] = true
					s.addTreeEdge(e)
					todo = append(todo, w)
				default:
					frontier = append(frontier, e)
				}
			}
		}
	}
	return frontier
}

// addTreeEdge notes a tree edge at both of its ends. The caller sees to it that it is tight and closes no cycle.
func (s *simplex) addTreeEdge(e int) {
	s.treeEdge[e] = true
	s.edges = append(s.edges, e)
	for _, v := range [2]int{s.tailOf(e), s.headOf(e)} {
		s.tree[v] = append(s.tree[v], e)
	}
}

// numberSubtree numbers v and all below it, from low on, and returns the next number.
//
// With these numbers below answers in two comparisons whether a node is in a subtree, and a subtree that was exchanged is numbered
// again in the same range, while the rest of the tree keeps its numbers.
func (s *simplex) numberSubtree(v, parent, low int) int {
	s.work++
	s.parent[v], s.low[v] = parent, low
	lim := low
	for _, e := range s.tree[v] {
		if e != parent {
			lim = s.numberSubtree(s.tailOf(e)+s.headOf(e)-v, e, lim)
		}
	}
	s.lim[v] = lim
	return lim + 1
}

// below reports whether v is in the subtree of root.
func (s *simplex) below(v, root int) bool { return s.low[root] <= s.lim[v] && s.lim[v] <= s.lim[root] }

// child returns the end of a tree edge that is farther from the root.
//
// The child has the lower number, as postorder numbers it before its parent.
func (s *simplex) child(e int) int {
	if s.lim[s.tailOf(e)] < s.lim[s.headOf(e)] {
		return s.tailOf(e)
	}
	return s.headOf(e)
}

// initCutValues computes the cut values from the leaves upwards. An edge between two
// subtrees counts at all tree edges on the way from one of its ends to the other.
//
// The edges within a subtree cancel out in its sum, and what is left are the edges that leave it less those that enter it. That is the cut
// value if the tree edge leads out of the subtree, and the negative of it if it leads in.
func (s *simplex) initCutValues() {
	sum := make(map[int]int, len(s.members)) // by node: edges out of it less those into it, in its subtree
	byLim := make([]int, len(s.members)+1)
	for _, v := range s.members {
		byLim[s.lim[v]] = v
		sum[v] = len(s.out[v]) - len(s.in[v])
	}
	// In postorder each node comes after all below it, so its sum is complete.
	for _, v := range byLim[1:] {
		e := s.parent[v]
		if e < 0 {
			continue
		}
		s.cutValue[e] = sum[v]
		up := s.headOf(e)
		if v == up {
			up, s.cutValue[e] = s.tailOf(e), -sum[v]
		}
		sum[up] += sum[v]
	}
}

// leavingEdge returns a tree edge with a negative cut value, -1 if no edge has one. It goes on
// where the last search has ended, which spreads the exchanges.
//
// The place of the edge in edges stays in s.next, where exchange puts the edge that enters.
func (s *simplex) leavingEdge() int {
	for range s.edges {
		s.work++
		s.next = (s.next + 1) % len(s.edges)
		if e := s.edges[s.next]; s.cutValue[e] < 0 {
			return e
		}
	}
	return -1
}

// enteringEdge returns the edge with the least slack that connects the parts into which the
// tree falls without e, against the direction of e.
//
// Such an edge exists, or the cut value would not be negative. The least slack is taken so that no other edge gets too short when the
// subtree moves by it. Only the subtree of the child is searched, as every such edge has one end in it.
func (s *simplex) enteringEdge(e int) int {
	root, best := s.child(e), -1
	lookOut := root == s.headOf(e) // an edge out of the subtree, else one into it
	var search func(v int)
	search = func(v int) {
		edges := s.in[v]
		if lookOut {
			edges = s.out[v]
		}
		for _, f := range edges {
			s.work++
			if !s.below(s.tailOf(f)+s.headOf(f)-v, root) && (best < 0 || s.slack(f) < s.slack(best)) {
				best = f
			}
		}
		for _, f := range s.tree[v] {
			if f != s.parent[v] {
				search(s.tailOf(f) + s.headOf(f) - v)
			}
		}
	}
	search(root)
	return best
}

// exchange puts f in the place of e in the tree.
//
// The subtree below e moves until f is tight; e may become longer than 1 by that. Only the cut values on the way between the ends of f
// change, by that of e, and only the part of the tree below where that way turns, at top, is numbered again.
func (s *simplex) exchange(e, f int) {
	root, delta := s.child(e), s.slack(f)
	if root == s.tailOf(e) {
		delta = -delta
	}
	s.shiftSubtree(root, delta)
	value := s.cutValue[e]
	top := s.addUpwards(s.tailOf(f), s.headOf(f), value, true)
	s.addUpwards(s.headOf(f), s.tailOf(f), value, false)
	s.cutValue[f], s.cutValue[e] = -value, 0
	s.treeEdge[e], s.treeEdge[f] = false, true
	s.edges[s.next] = f
	for _, v := range [2]int{s.tailOf(e), s.headOf(e)} {
		s.tree[v] = withoutItem(s.tree[v], e)
	}
	for _, v := range [2]int{s.tailOf(f), s.headOf(f)} {
		s.tree[v] = append(s.tree[v], f)
	}
	s.numberSubtree(top, s.parent[top], s.low[top])
}

// withoutItem takes x out of list, in place.
func withoutItem(list []int, x int) []int {
	for i, y := range list {
		if y == x {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// shiftSubtree moves v and all below it by delta ranks. It goes by the parents of the last numbering, before the exchange changes the tree.
func (s *simplex) shiftSubtree(v, delta int) {
	s.work++
	s.rank[v] += delta
	for _, e := range s.tree[v] {
		if e != s.parent[v] {
			s.shiftSubtree(s.tailOf(e)+s.headOf(e)-v, delta)
		}
	}
}

// addUpwards corrects the cut values from v up to the first node that also has w below it,
// which it returns.
//
// exchange calls it from both ends of the entering edge, so that together the calls cover the way between them. forwards is true from the
// tail: tree edges that the way runs along and against get the value with different signs.
func (s *simplex) addUpwards(v, w, value int, forwards bool) int {
	for !s.below(w, v) {
		s.work++
		e := s.parent[v]
		if (v == s.tailOf(e)) == forwards {
			s.cutValue[e] += value
		} else {
			s.cutValue[e] -= value
		}
		v = s.tailOf(e) + s.headOf(e) - v
	}
	return v
}

// balanceRanks moves nodes that are as well elsewhere to the rank with the fewest.
//
// Such nodes have as many edges in as out, so the sum of the lengths stays the same wherever they are between their neighbours. The move
// makes the drawing narrower. At most 64 ranks are looked at for each node.
func (t *tangle) balanceRanks() {
	last := 0
	for _, r := range t.rank {
		last = max(last, r)
	}
	count := make([]int, last+1)
	for _, r := range t.rank {
		count[r]++
	}
	for v, r := range t.rank {
		if len(t.in[v]) != len(t.out[v]) || len(t.in[v]) == 0 {
			continue
		}
		from, to := 0, last
		for _, e := range t.in[v] {
			from = max(from, t.rank[t.tailOf(e)]+1)
		}
		for _, e := range t.out[v] {
			to = min(to, t.rank[t.headOf(e)]-1)
		}
		best := r
		for i := from; i <= min(to, from+64); i++ {
			if count[i] < count[best] {
				best = i
			}
		}
		count[r]--
		count[best]++
		t.rank[v] = best
	}
}
