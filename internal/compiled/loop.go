package compiled

// findLoops finds the natural loop of every transition with a loop: the target of the back edge and the nodes that
// reach its source without passing the target (Aho, Lam, Sethi and Ullman, Compilers, 9.6.6). A token that takes an
// outer loop begins its inner loops anew: their counts are reset, or an inner loop of 3 would run 3 times in all, and
// not 3 times in each round. Which loops are inner is a question of the graph, not of the run.
func (b *builder) findLoops() {
	g := b.graph
	// A single loop has nothing to reset.
	if len(g.Loops) < 2 {
		return
	}
	incoming := g.incomingNodes()
	for _, id := range g.Loops {
		t := g.Transitions[id]
		t.body = naturalLoop(g.Nodes[t.From].Index, g.Nodes[t.To].Index, incoming)
	}
}

// Resets reports whether taking t, which loops, resets the count of inner: its natural loop is strictly contained in
// that of t. Two loops with the same nodes reset nothing in each other: neither is the inner one, and a definition
// with two back edges would never end.
func (t *Transition) Resets(inner *Transition) bool {
	return t.body.set != nil && inner.body.set != nil && t.body.strictlyContains(&inner.body)
}

// A loopBody is a natural loop, by the indices of its nodes. The source is the node that the back edge leaves, the
// target that to which it leads. size is the number of bits in set.
type loopBody struct {
	source, target int
	size           int
	set            []uint64 // a bit for each node
}

// naturalLoop returns the loop of a back edge from source to target. The target is put into the set first, so that
// the walk backwards from the source ends there.
func naturalLoop(source, target int, incoming [][]int) loopBody {
	b := loopBody{source: source, target: target, set: make([]uint64, (len(incoming)+63)/64)}
	b.addNode(target)
	for work := []int{source}; len(work) > 0; {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if b.addNode(n) {
			work = append(work, incoming[n]...)
		}
	}
	return b
}

// hasNode reports whether the loop has a node.
func (b *loopBody) hasNode(n int) bool { return b.set[n/64]&(1<<(n%64)) != 0 }

// addNode reports whether n is new.
func (b *loopBody) addNode(n int) bool {
	if b.hasNode(n) {
		return false
	}
	b.set[n/64] |= 1 << (n % 64)
	b.size++
	return true
}

// strictlyContains reports whether b holds all nodes of inner and more. A walk
// back from a node of b leaves b only through its target, so that what inner's
// source reaches is in b unless inner goes on beyond that target.
func (b *loopBody) strictlyContains(inner *loopBody) bool {
	// These tests need no look at the sets, and answer for most pairs of loops.
	if inner.size >= b.size || !b.hasNode(inner.source) || !b.hasNode(inner.target) {
		return false
	}
	// The walk that found inner did not go beyond the target of b, so it stayed within b.
	if b.target == inner.target || !inner.hasNode(b.target) {
		return true
	}
	// It may have left b through that target: only the sets can tell.
	for i, word := range inner.set {
		if word&^b.set[i] != 0 {
			return false
		}
	}
	return true
}

// incomingNodes returns the nodes from which transitions lead to each node, by index. A node from which two lead is there
// twice, which a walk does not mind.
func (g *Graph) incomingNodes() [][]int {
	out := make([][]int, len(g.Nodes))
	for _, n := range g.Nodes {
		for _, t := range n.Incoming {
			out[n.Index] = append(out[n.Index], g.Nodes[t.From].Index)
		}
	}
	return out
}
