package layout

import (
	"cmp"
	"slices"
)

// orderLayers arranges the items of each layer so that few edges cross: sweeps down and up,
// each by the mean place of the neighbours, with transpositions. The best order is kept.
//
// The least number of crossings cannot be found in a reasonable time, so it tries. A sweep may make an order worse and the next one much
// better: therefore each goes on from the last order and not from the best. Large graphs get fewer sweeps, at least 4 and at most 24, and
// six sweeps in a row that bring nothing end it.
func (t *tangle) orderLayers() {
	t.firstOrder()
	best, crossings := t.saveOrder(), t.countAll()
	sweeps := min(max(120_000/(len(t.items)+1), 4), 24)
	for i, idle := 0, 0; i < sweeps && crossings > 0 && idle < 6; i++ {
		// Down, up, down, up; in the second half of each four, items that are equal swap: some crossings go away only so.
		t.sweep(i%2 == 0, i%4 >= 2)
		t.swapNeighbours()
		idle++
		if n := t.countAll(); n < crossings {
			best, crossings, idle = t.saveOrder(), n, 0
		}
	}
	t.loadOrder(best)
}

// firstOrder enters items as a depth-first search meets them, from the first node on.
//
// So a graph that is a tree has no crossings from the beginning, and what is written first is to the left. It begins with what has
// nothing above, then enters what is left, if anything is.
func (t *tangle) firstOrder() {
	seen := make([]bool, len(t.items))
	var visit func(id int32)
	visit = func(id int32) {
		it := &t.items[id]
		if seen[id] {
			return
		}
		seen[id] = true
		it.place = int32(len(t.layers[it.layer]))
		t.layers[it.layer] = append(t.layers[it.layer], id)
		for _, below := range it.down {
			visit(below)
		}
	}
	for _, first := range []bool{true, false} {
		for id := range t.items {
			if len(t.items[id].up) == 0 == first {
				visit(int32(id))
			}
		}
	}
}

// saveOrder copies the layers, as sweeps sort them in place.
func (t *tangle) saveOrder() [][]int32 {
	saved := make([][]int32, len(t.layers))
	for i, layer := range t.layers {
		saved[i] = slices.Clone(layer)
	}
	return saved
}

// loadOrder takes an order that saveOrder has returned, and keeps it: the copy is not to be used again.
func (t *tangle) loadOrder(saved [][]int32) {
	t.layers = saved
	for _, layer := range t.layers {
		t.numberPlaces(layer)
	}
}

// numberPlaces makes the places agree with a layer, as they must whenever crossings are counted or means taken.
func (t *tangle) numberPlaces(layer []int32) {
	for i, id := range layer {
		t.items[id].place = int32(i)
	}
}

// sweep sorts each layer by the mean places of the neighbours in the one before it.
// Equal ones keep their order, or with turn swap it.
//
// The layer before is sorted already, so that the order runs through all of them. The first layer in the direction has no neighbours
// before it, and keeps its order, or is turned.
func (t *tangle) sweep(down, turn bool) {
	mean := make([]int64, len(t.items))
	for i := range t.layers {
		layer := t.layers[i]
		if !down {
			layer = t.layers[len(t.layers)-1-i]
		}
		for _, id := range layer {
			// Means are computed before the layer is sorted: sorting must not see its own effects.
			near := t.items[id].up
			if !down {
				near = t.items[id].down
			}
			mean[id] = t.meanPlace(near, int64(t.items[id].place))
		}
		// A stable sort of the reversed layer has equal ones in reverse.
		if turn {
			slices.Reverse(layer)
		}
		slices.SortStableFunc(layer, func(a, b int32) int { return cmp.Compare(mean[a], mean[b]) })
		t.numberPlaces(layer)
	}
}

// meanPlace returns the mean place of items, in 1/1024; own if there are none.
//
// Fractions of integers are the same on every machine, which those of floating point need not be.
func (t *tangle) meanPlace(items []int32, own int64) int64 {
	if len(items) == 0 {
		return own << 10
	}
	sum := int64(0)
	for _, id := range items {
		sum += int64(t.items[id].place)
	}
	return sum << 10 / int64(len(items))
}

// maxTransposed bounds the neighbours of items that are compared by transpose: a pair costs
// their product.
const maxTransposed = 32

// swapNeighbours swaps neighbours as long as that saves crossings, at most a few rounds.
//
// It finds what the means cannot: two items with equal means whose edges cross. Only pairs side by side are tried, which needs no count
// of the whole drawing: nothing else crosses more or less if they swap. Each swap saves at least one crossing.
func (t *tangle) swapNeighbours() {
	for range 4 {
		better := false
		for _, layer := range t.layers {
			for i := 1; i < len(layer); i++ {
				a, b := &t.items[layer[i-1]], &t.items[layer[i]]
				if len(a.up)+len(a.down)+len(b.up)+len(b.down) > maxTransposed {
					continue
				}
				now := t.countPair(a.up, b.up) + t.countPair(a.down, b.down)
				if now > 0 && now > t.countPair(b.up, a.up)+t.countPair(b.down, a.down) {
					layer[i-1], layer[i] = layer[i], layer[i-1]
					a.place, b.place = b.place, a.place
					better = true
				}
			}
		}
		if !better {
			return
		}
	}
}

// countPair returns the crossings of the edges of a left item with those of a right one.
//
// The arguments are the neighbours of both on one side. Edges that meet in one item do not cross.
func (t *tangle) countPair(left, right []int32) int {
	n := 0
	for _, l := range left {
		for _, r := range right {
			if t.items[l].place > t.items[r].place {
				n++
			}
		}
	}
	return n
}

// countAll returns the crossings of the whole drawing, which only happen between two layers.
func (t *tangle) countAll() int {
	n := 0
	for i := 1; i < len(t.layers); i++ {
		n += t.countBetween(t.layers[i-1], len(t.layers[i]))
	}
	return n
}

// countBetween returns the crossings below a layer: the inversions of the places below, in
// the order of those above, counted in a tree of sums.
//
// Two edges cross if the one from the left ends to the right of the other. The edges come from left to right, those of one item by where
// they end, and each counts the edges that came before it and end to the right: n log n, where comparing pairs would be quadratic.
func (t *tangle) countBetween(upper []int32, lower int) int {
	// The tree is an array: node i has the children 2i and 2i+1, and its leaves begin at first. Each node counts the edges that have
	// ended below it.
	first := 1
	for first < lower {
		first *= 2
	}
	tree := make([]int, 2*first)
	n := 0
	var places []int32
	for _, id := range upper {
		places = places[:0]
		for _, below := range t.items[id].down {
			places = append(places, t.items[below].place)
		}
		slices.Sort(places)
		for _, p := range places {
			at := int(p) + first
			for tree[at]++; at > 1; at /= 2 {
				// A left child: everything below its sibling is to the right.
				if at%2 == 0 {
					n += tree[at+1]
				}
				tree[at/2]++
			}
		}
	}
	return n
}
