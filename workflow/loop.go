package workflow

import "github.com/pawl-run/pawl/internal/problem"

// maxLoops bounds the memory that the natural loops of a definition take, in words of 64 bits. That is 16 MiB, such
// as 13,000 loops in a definition of 10,000 nodes.
const maxLoops = 2 << 20

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
	a := newAdjacency(g.Definition)
	incoming := a.incomingNodes()
	for _, id := range g.Loops {
		t := g.Transitions[id]
		t.body = naturalLoop(a.index[t.From], a.index[t.To], incoming)
	}
}

// Resets reports whether taking t, which loops, resets the count of inner: its natural loop is strictly contained in
// that of t. Two loops with the same nodes reset nothing in each other: neither is the inner one, and a definition
// with two back edges would never end.
func (t *GraphTransition) Resets(inner *GraphTransition) bool {
	return t.body.set != nil && inner.body.set != nil && t.body.strictlyContains(&inner.body)
}

// checkLoops checks that the natural loops of all transitions with a loop fit. They are found when the graph is
// built, which must not run out of memory for a definition that was found valid.
func (c *checker) checkLoops() {
	words := (len(c.def.Nodes) + 63) / 64
	total := 0
	for i := range c.def.Transitions {
		if c.def.Transitions[i].Loop == nil {
			continue
		}
		if total += words; total > maxLoops {
			c.reportProblem(c.atTransition(i), "loop", problem.TooLarge, "the loops up to here are too many for a definition of %d nodes: at most %d", len(c.def.Nodes), maxLoops/words)
			return
		}
	}
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

// incomingNodes returns the nodes from which edges lead to each node. A node from which two edges lead is there
// twice, which a walk does not mind.
func (g *adjacency) incomingNodes() [][]int {
	out := make([][]int, len(g.nodes))
	for n := range g.nodes {
		for _, e := range g.out[n] {
			out[e.to] = append(out[e.to], n)
		}
	}
	return out
}
