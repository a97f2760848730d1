package workflow

import (
	"iter"
	"math/bits"
	"slices"
)

// loops finds, for every transition with a loop, the loops that it resets:
// those whose natural loop is strictly contained in its own. The natural loop
// of a back edge is its target and the nodes that reach its source without
// passing the target (Aho, Lam, Sethi and Ullman, Compilers, 9.6.6).
func (b *builder) loops() {
	g := b.graph
	if len(g.Loops) < 2 {
		return
	}
	a := newAdjacency(g.Definition)
	incoming := a.incomingNodes()
	bodies := make([]loopBody, len(g.Loops))
	at := make([][]int, len(a.nodes)) // loops, by their target
	for i, id := range g.Loops {
		t := g.Transitions[id]
		bodies[i] = naturalLoop(a.index[t.From], a.index[t.To], incoming)
		at[bodies[i].target] = append(at[bodies[i].target], i)
	}
	var inner []int
	for i := range bodies {
		inner = bodies[i].nested(bodies, at, inner[:0])
		t := g.Transitions[g.Loops[i]]
		t.Resets = make([]TransitionID, len(inner))
		for j, k := range inner {
			t.Resets[j] = g.Loops[k]
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
	b.add(target)
	for work := []int{source}; len(work) > 0; {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if b.add(n) {
			work = append(work, incoming[n]...)
		}
	}
	return b
}

func (b *loopBody) has(n int) bool { return b.set[n/64]&(1<<(n%64)) != 0 }

// add reports whether n is new.
func (b *loopBody) add(n int) bool {
	if b.has(n) {
		return false
	}
	b.set[n/64] |= 1 << (n % 64)
	b.size++
	return true
}

func (b *loopBody) nodes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range b.set {
			for ; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// nested appends to out which of the bodies are strictly contained in b, in
// order; at gives them by their targets.
func (b *loopBody) nested(bodies []loopBody, at [][]int, out []int) []int {
	for n := range b.nodes() {
		for _, k := range at[n] {
			if b.strictlyContains(&bodies[k]) {
				out = append(out, k)
			}
		}
	}
	slices.Sort(out)
	return out
}

// strictlyContains reports whether b holds all nodes of inner and more. A walk
// back from a node of b leaves b only through its target, so that what inner's
// source reaches is in b unless inner goes on beyond that target.
func (b *loopBody) strictlyContains(inner *loopBody) bool {
	if inner.size >= b.size || !b.has(inner.source) || !b.has(inner.target) {
		return false
	}
	if b.target == inner.target || !inner.has(b.target) {
		return true
	}
	for n := range inner.nodes() {
		if !b.has(n) {
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
