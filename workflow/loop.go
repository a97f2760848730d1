package workflow

// maxLoops bounds the memory that the natural loops of a definition take, in
// words of 64 bits.
const maxLoops = 2 << 20

// findLoops finds the natural loop of every transition with a loop: the target of
// the back edge and the nodes that reach its source without passing the target
// (Aho, Lam, Sethi and Ullman, Compilers, 9.6.6).
func (b *builder) findLoops() {
	g := b.graph
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

// Resets reports whether taking t, which loops, resets the count of inner: its
// natural loop is strictly contained in that of t.
func (t *GraphTransition) Resets(inner *GraphTransition) bool {
	return t.body.set != nil && inner.body.set != nil && t.body.strictlyContains(&inner.body)
}

// checkLoops checks that the natural loops of all transitions with a loop fit.
func (c *checker) checkLoops() {
	words := (len(c.def.Nodes) + 63) / 64
	total := 0
	for i := range c.def.Transitions {
		if c.def.Transitions[i].Loop == nil {
			continue
		}
		if total += words; total > maxLoops {
			c.reportProblem(c.atTransition(i), "loop", ProblemTooLarge, "the loops up to here are too many for a definition of %d nodes: at most %d", len(c.def.Nodes), maxLoops/words)
			return
		}
	}
}

// A loopBody is a natural loop, by the indices of its nodes.
type loopBody struct {
	source, target int
	size           int
	set            []uint64 // a bit for each node
}

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
	if inner.size >= b.size || !b.hasNode(inner.source) || !b.hasNode(inner.target) {
		return false
	}
	if b.target == inner.target || !inner.hasNode(b.target) {
		return true
	}
	for i, word := range inner.set {
		if word&^b.set[i] != 0 {
			return false
		}
	}
	return true
}

// incomingNodes returns the nodes from which edges lead to each node.
func (g *adjacency) incomingNodes() [][]int {
	out := make([][]int, len(g.nodes))
	for n := range g.nodes {
		for _, e := range g.out[n] {
			out[e.to] = append(out[e.to], n)
		}
	}
	return out
}
