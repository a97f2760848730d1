package layout

import (
	"cmp"
	"slices"
)

// orderLayers arranges the items of each layer so that few edges cross: sweeps down and up,
// each by the mean place of the neighbours, with transpositions. The best order is kept.
func (t *tangle) orderLayers() {
	t.firstOrder()
	best, crossings := t.saveOrder(), t.countAll()
	sweeps := min(max(120_000/(len(t.items)+1), 4), 24)
	for i, idle := 0, 0; i < sweeps && crossings > 0 && idle < 6; i++ {
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

func (t *tangle) saveOrder() [][]int32 {
	saved := make([][]int32, len(t.layers))
	for i, layer := range t.layers {
		saved[i] = slices.Clone(layer)
	}
	return saved
}

func (t *tangle) loadOrder(saved [][]int32) {
	t.layers = saved
	for _, layer := range t.layers {
		t.numberPlaces(layer)
	}
}

func (t *tangle) numberPlaces(layer []int32) {
	for i, id := range layer {
		t.items[id].place = int32(i)
	}
}

// sweep sorts each layer by the mean places of the neighbours in the one before it.
// Equal ones keep their order, or with turn swap it.
func (t *tangle) sweep(down, turn bool) {
	mean := make([]int64, len(t.items))
	for i := range t.layers {
		layer := t.layers[i]
		if !down {
			layer = t.layers[len(t.layers)-1-i]
		}
		for _, id := range layer {
			near := t.items[id].up
			if !down {
				near = t.items[id].down
			}
			mean[id] = t.meanPlace(near, int64(t.items[id].place))
		}
		if turn {
			slices.Reverse(layer)
		}
		slices.SortStableFunc(layer, func(a, b int32) int { return cmp.Compare(mean[a], mean[b]) })
		t.numberPlaces(layer)
	}
}

// meanPlace returns the mean place of items, in 1/1024; own if there are none.
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

func (t *tangle) countAll() int {
	n := 0
	for i := 1; i < len(t.layers); i++ {
		n += t.countBetween(t.layers[i-1], len(t.layers[i]))
	}
	return n
}

// countBetween returns the crossings below a layer: the inversions of the places below, in
// the order of those above, counted in a tree of sums.
func (t *tangle) countBetween(upper []int32, lower int) int {
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
				if at%2 == 0 {
					n += tree[at+1]
				}
				tree[at/2]++
			}
		}
	}
	return n
}
