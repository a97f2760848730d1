package layout

import "slices"

// placeAcross gives each item its x: the mean of the middle two of four placements. Each placement lines items up with a middle
// neighbour, above or below, from the left or the right.
//
// Each placement leans to one side. The mean of the middle two balances them, and keeps the distances, as each of the four keeps them.
func (t *tangle) placeAcross() {
	conflicts := t.findConflicts()
	var all [4][]int
	for i := range all {
		b := &blocks{tangle: t, down: i < 2, leftwards: i%2 == 0, conflicts: conflicts}
		all[i] = b.place()
	}
	t.alignPlacements(&all)
	for id := range t.items {
		x := [4]int{all[0][id], all[1][id], all[2][id], all[3][id]}
		slices.Sort(x[:])
		t.items[id].x = (x[1] + x[2]) >> 1 // rounds down, so that distances are kept
	}
}

// gap returns the distance that the centres of two neighbours need, a on the left.
//
// It is what compact and pressLayer keep between them; x is the centre of an item, where its line runs.
func (t *tangle) gap(a, b int32) int {
	l, r := &t.items[a], &t.items[b]
	gap := t.options.NodeGap
	if l.node < 0 || r.node < 0 {
		gap = t.options.EdgeGap
	}
	return l.right + gap + r.left
}

// A link is a pair of connected items.
type link struct{ above, below int32 }

// findConflicts returns the links that cross one between two passages: long edges are to be
// straight, so these do not line up.
//
// These are the conflicts of type 1 of Brandes and Köpf. Where two links between passages cross, neither is in the result; lineUp takes
// the first of them. It walks each layer once: between two such links, at left and right above, other links may only be within.
func (t *tangle) findConflicts() map[link]bool {
	out := map[link]bool{}
	for i := 1; i < len(t.layers); i++ {
		lower, from, last := t.layers[i], 0, len(t.layers[i-1])-1
		left := 0
		for j, id := range lower {
			inner := int32(-1)
			if t.items[id].isPassage() && len(t.items[id].up) == 1 && t.items[t.items[id].up[0]].isPassage() {
				inner = t.items[t.items[id].up[0]].place
			}
			// Not yet a bound: this item is looked at with the next one that is, or at the end of the layer.
			if inner < 0 && j < len(lower)-1 {
				continue
			}
			right := last
			if inner >= 0 {
				right = int(inner)
			}
			// All items since the last bound are known to lie between left and right: links that leave this room cross a passage.
			for ; from <= j; from++ {
				for _, up := range t.items[lower[from]].up {
					inside := t.items[up].isPassage() && t.items[lower[from]].isPassage()
					if p := int(t.items[up].place); (p < left || p > right) && !inside {
						out[link{up, lower[from]}] = true
					}
				}
			}
			left = right
		}
	}
	return out
}

// blocks are items lined up: each has the root of its block.
//
// A block is a vertical line of items, at most one of each layer, which all get the same x. root of an item is the first of its block in
// the direction of the walk, and itself if it is alone; next leads through the block in a ring, back to the root. x is by item, and
// counts only at roots until compact copies it to the others.
type blocks struct {
	*tangle
	down      bool // line up with neighbours above
	leftwards bool // from the left
	conflicts map[link]bool
	root      []int32
	next      []int32 // the ring of a block
	x         []int
	near      []int32 // of withoutBack
}

// place lines items up and returns their coordinates.
func (b *blocks) place() []int {
	n := len(b.items)
	b.root, b.next, b.x = make([]int32, n), make([]int32, n), make([]int, n)
	for id := range n {
		b.root[id], b.next[id] = int32(id), int32(id)
	}
	for i := range b.layers {
		if b.down {
			b.lineUp(b.layers[i])
		} else {
			b.lineUp(b.layers[len(b.layers)-1-i])
		}
	}
	b.compact()
	return b.x
}

// lineUp adds the items of a layer to the blocks of their middle neighbours in the layer before. bound is the place there up to which
// neighbours are taken: what lines up must not cross, so a later item may only take one beyond it.
func (b *blocks) lineUp(layer []int32) {
	bound := int32(-1)
	if !b.leftwards {
		bound = 1 << 30
	}
	for i := range layer {
		id := layer[i]
		if !b.leftwards {
			id = layer[len(layer)-1-i]
		}
		near := b.items[id].up
		if !b.down {
			near = b.items[id].down
		}
		if len(near) == 0 {
			continue
		}
		near = b.withoutBack(near)
		slices.SortFunc(near, func(a, c int32) int { return int(b.items[a].place - b.items[c].place) })
		// An even number of neighbours has two in the middle, and the one on the own side is tried first. With an odd number
		// both are the same.
		middle := [2]int32{near[(len(near)-1)/2], near[len(near)/2]}
		if !b.leftwards {
			middle[0], middle[1] = middle[1], middle[0]
		}
		for _, m := range middle {
			p := b.items[m].place
			// next[id] is not id once the first of the two was taken. The way back never shares a block with the way down.
			if b.isBack(m) != b.isBack(id) || b.next[id] != id || b.conflicts[link{m, id}] || b.conflicts[link{id, m}] {
				continue
			}
			// The item becomes the last of the block, so its next is the root.
			if b.leftwards && p > bound || !b.leftwards && p < bound {
				b.next[m], b.root[id] = id, b.root[m]
				b.next[id] = b.root[m]
				bound = p
			}
		}
	}
}

// isBack reports whether an item belongs to an edge that is turned around.
func (t *tangle) isBack(id int32) bool {
	e := t.items[id].edge
	return e >= 0 && t.reversed[e]
}

// withoutBack returns a copy of items without the passages of edges that are turned around,
// unless there are no others: the way down is to be straight, the way back goes beside it.
// The copy is good until the next call.
func (b *blocks) withoutBack(items []int32) []int32 {
	b.near = b.near[:0]
	for _, id := range items {
		if !b.isBack(id) {
			b.near = append(b.near, id)
		}
	}
	if len(b.near) == 0 {
		b.near = append(b.near, items...)
	}
	return b.near
}

// compact moves all blocks to the left as far as their distances allow, then each back to
// the right as far as there is room. From the right it is the mirror image.
//
// The blocks and their distances are a graph without cycles: of two neighbours in a layer the block of the left one is before that of the
// right one. Its longest paths are the least x of each block. That is simpler than the classes of Brandes and Köpf, and never
// lets blocks overlap.
func (b *blocks) compact() {
	n := len(b.items)
	edges := make([][]blockEdge, n) // by root: what is on its far side
	waits := make([]int, n)
	for _, layer := range b.layers {
		for i := 1; i < len(layer); i++ {
			l, r := layer[i-1], layer[i]
			from, to := b.root[l], b.root[r]
			if !b.leftwards {
				from, to = to, from
			}
			edges[from] = append(edges[from], blockEdge{to, b.gap(l, r)})
			waits[to]++
		}
	}
	// order becomes a topological order of the roots; x grows along it as the blocks before are done.
	var order []int32
	for id := range n {
		if b.root[id] == int32(id) && waits[id] == 0 {
			order = append(order, int32(id))
		}
	}
	for i := 0; i < len(order); i++ {
		for _, e := range edges[order[i]] {
			b.x[e.to] = max(b.x[e.to], b.x[order[i]]+e.gap)
			if waits[e.to]--; waits[e.to] == 0 {
				order = append(order, e.to)
			}
		}
	}
	// Back to the right, from the far side on: each block comes as close to those behind it as its distances let it, for short edges.
	// A block with nothing behind it stays.
	for _, from := range slices.Backward(order) {
		room := -1
		for _, e := range edges[from] {
			if x := b.x[e.to] - e.gap; room < 0 || x < room {
				room = x
			}
		}
		b.x[from] = max(b.x[from], room)
	}
	for id := range n {
		b.x[id] = b.x[b.root[id]]
	}
	if !b.leftwards {
		for id := range b.x {
			b.x[id] = -b.x[id]
		}
	}
}

// A blockEdge says that a block needs a distance from another.
type blockEdge struct {
	to  int32
	gap int
}

// alignPlacements moves the four placements over the narrowest: those from the left by
// their left ends, the others by their right ends.
//
// Before that they have different origins, those from the right even negative coordinates, and could not be averaged.
func (t *tangle) alignPlacements(all *[4][]int) {
	var low, high [4]int
	best := 0
	for i, xs := range all {
		low[i], high[i] = t.extent(xs)
		if high[i]-low[i] < high[best]-low[best] {
			best = i
		}
	}
	for i, xs := range all {
		delta := low[best] - low[i]
		if i%2 == 1 {
			delta = high[best] - high[i]
		}
		for id := range xs {
			xs[id] += delta
		}
	}
}

// extent returns the leftmost and the rightmost border of all items at these places; 0 and 0 of no items.
func (t *tangle) extent(xs []int) (low, high int) {
	for id, x := range xs {
		l, h := x-t.items[id].left, x+t.items[id].right
		if id == 0 || l < low {
			low = l
		}
		if id == 0 || h > high {
			high = h
		}
	}
	return low, high
}
