package layout

// pressTogether moves the drawing to the left edge, and if it is too wide presses each
// layer into the width: boxes keep their order and do not overlap; passages come closer
// together, in the end onto each other.
//
// Its result is within 0 and MaxWidth, but for a layer that has a single box which is wider, or whose boxes have no room even side by side.
func (t *tangle) pressTogether() {
	xs := make([]int, len(t.items))
	for id := range t.items {
		xs[id] = t.items[id].x
	}
	low, high := t.extent(xs)
	for id := range t.items {
		t.items[id].x -= low
	}
	if high-low <= t.options.MaxWidth {
		return
	}
	// A drawing that is wider than the room is scaled first, so that it keeps its shape.
	for id := range t.items {
		it := &t.items[id]
		it.x = it.left + (it.x-it.left)*t.options.MaxWidth/(high-low)
	}
	for _, layer := range t.layers {
		t.pressLayer(layer)
	}
}

// pressLayer puts the items of a layer into the width, as little away from where they are
// as their order and distances allow.
//
// First every item is pushed to the right until it is clear of the one before; then, from the right end on, those that are out of the
// width are pushed back to the left, until one is met that is within.
func (t *tangle) pressLayer(layer []int32) {
	if len(layer) == 0 {
		return
	}
	// space is what is left for the gaps when all boxes touch.
	need, most := t.gapsOf(layer)
	first, last := &t.items[layer[0]], &t.items[layer[len(layer)-1]]
	space := t.options.MaxWidth - first.left - last.right - need
	gap := func(i int) int { // between i-1 and i, shrunk as far as is necessary
		wanted := t.gap(layer[i-1], layer[i])
		touching := t.items[layer[i-1]].right + t.items[layer[i]].left
		if most > space {
			return touching + max((wanted-touching)*max(space, 0)/max(most, 1), 0)
		}
		return wanted
	}
	first.x = max(first.x, first.left)
	for i := 1; i < len(layer); i++ {
		it := &t.items[layer[i]]
		it.x = max(it.x, t.items[layer[i-1]].x+gap(i))
	}
	// right is where the centre of the item in turn may be at most.
	right := max(t.options.MaxWidth-last.right, 0)
	for i := len(layer) - 1; i >= 0; i-- {
		it := &t.items[layer[i]]
		if it.x <= right {
			break
		}
		it.x = right
		if i > 0 {
			right -= gap(i)
		}
	}
	if first.x < first.left { // a single box is wider than all that there is
		t.shiftRight(layer, first.left-first.x)
	}
}

// shiftRight keeps the distances in a layer: it is then wider than MaxWidth, and nothing of it is left of 0.
func (t *tangle) shiftRight(layer []int32, by int) {
	for _, id := range layer {
		t.items[id].x += by
	}
}

// gapsOf returns what the items of a layer take between the centres of the first and the
// last, and what the gaps between them would like to have.
//
// Both leave out the outer halves of the first and the last one, which pressLayer takes off the width itself.
func (t *tangle) gapsOf(layer []int32) (need, gaps int) {
	for i := 1; i < len(layer); i++ {
		touching := t.items[layer[i-1]].right + t.items[layer[i]].left
		need += touching
		gaps += t.gap(layer[i-1], layer[i]) - touching
	}
	return need, gaps
}
