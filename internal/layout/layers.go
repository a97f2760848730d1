package layout

import (
	"maps"
	"slices"
)

// An item takes room in a layer: a node, an edge that passes, a label, or a stub.
//
// The items of nodes come first, in the order of Graph.Nodes, so the place of a node is the id of its item: other code counts on that.
// A label is an item of its edge with a height. An edge only has items in layers between its ends, and each item has neighbours in the
// layers next to its own alone: up is in layer-1, down in layer+1. place is kept by the order (order.go), x by place.go and press.go;
// before that they are 0. The numbers are of 32 bits since there may be many passages.
type item struct {
	node        int32 // -1 for an item that stands for no node
	edge        int32 // the edge of the passage or label; -1
	left, right int   // how far it reaches from its centre, which is where edges come and go
	height      int
	layer       int32
	place       int32   // in its layer
	up, down    []int32 // items that it is connected with
	x           int
}

// isPassage reports whether nothing but a line is here. An item of a label is no passage, since its line may bend there.
func (it *item) isPassage() bool { return it.node < 0 && it.edge >= 0 && it.height == 0 }

// makeLayers makes the layers: one for each rank, and between two ranks as many as their
// labels need. Each edge gets an item in each layer between its ends.
//
// Ranks are those of nodes; layers are more, as labels have layers of their own. With ranks 0 and 1 and labels below rank 0 that fill two
// rows, layer 0 has the nodes of rank 0, layers 1 and 2 have labels, and layer 3 has the nodes of rank 1.
func (t *tangle) makeLayers() {
	t.addStubs()
	t.items = make([]item, 0, t.countItems())
	for v, n := range t.graph.Nodes {
		height := n.Height
		if k := len(t.loops[v]); k > 0 {
			height = max(height, k*t.loopHeight(v))
		}
		t.items = append(t.items, item{node: int32(v), edge: -1, left: n.Width / 2, right: n.Width - n.Width/2 + t.loopWidth(v), height: height})
	}
	// How many rows of labels there are below each rank decides which layer a rank gets.
	labels := t.packLabels()
	last := 0
	for _, r := range t.rank {
		last = max(last, r)
	}
	layerOf := make([]int32, last+2) // by rank
	for r := range last + 1 {
		layerOf[r+1] = layerOf[r] + 1 + int32(labels.rows[r])
	}
	// The layers are empty until firstOrder enters the items.
	t.layers = make([][]int32, layerOf[last]+1+int32(labels.rows[last]))
	for v := range t.graph.Nodes {
		t.items[v].layer = layerOf[t.rank[v]]
	}
	// The edges come after all nodes, as the items of nodes are to have the first ids.
	t.chains = make([][]int32, len(t.graph.Edges))
	for e, edge := range t.graph.Edges {
		if edge.From == edge.To || t.cut[e] {
			continue
		}
		row, labelled := labels.row[e]
		at := int32(-1)
		if labelled {
			at = layerOf[t.labelRank(e)] + 1 + int32(row)
		}
		t.addChain(e, at)
	}
	for i := range t.stubs {
		s := &t.stubs[i]
		t.addStubItem(s, layerOf[t.stubRank(&s.Stub)]+1+int32(labels.row[-1-i]))
	}
}

// countItems returns about how many items there will be: twice the ranks that edges pass, as
// half of the layers may be for labels.
func (t *tangle) countItems() int {
	n := len(t.graph.Nodes) + 2*len(t.stubs)
	for e, edge := range t.graph.Edges {
		if edge.From != edge.To && !t.cut[e] {
			n += 2*(t.rank[t.headOf(e)]-t.rank[t.tailOf(e)]) - 1
		}
	}
	return n
}

// loopHeight returns how much height each self loop of v gets: that of the highest of their labels, and at least that of a loop. All
// have the same, so that drawLoops can count them off.
func (t *tangle) loopHeight(v int) int {
	height := 16
	for _, e := range t.loops[v] {
		height = max(height, t.graph.Edges[e].LabelHeight)
	}
	return height
}

// labelRank returns the rank below which the label of e is: close to where it leads from.
//
// An edge that is turned around leads from its head, so its label is above that, in the last rows that it passes.
func (t *tangle) labelRank(e int) int {
	if t.reversed[e] {
		return t.rank[t.headOf(e)] - 1
	}
	return t.rank[t.tailOf(e)]
}

// addChain gives e an item in each layer that it passes; the one in layer label has its
// label, to the right of the line.
func (t *tangle) addChain(e int, label int32) {
	above := int32(t.tailOf(e))
	for layer := t.items[above].layer + 1; layer < t.items[t.headOf(e)].layer; layer++ {
		it := item{node: -1, edge: int32(e), layer: layer}
		if layer == label {
			it.left, it.right, it.height = labelGap, t.graph.Edges[e].LabelWidth+labelGap, t.graph.Edges[e].LabelHeight
		}
		id := t.addItem(it)
		t.chains[e] = append(t.chains[e], id)
		t.connect(above, id)
		above = id
	}
	t.connect(above, int32(t.headOf(e)))
}

// labelGap is between a line and its label.
const labelGap = 6

// addItem returns the id of the item. It may move t.items: pointers into that are not good afterwards.
func (t *tangle) addItem(it item) int32 {
	t.items = append(t.items, it)
	return int32(len(t.items) - 1)
}

// connect notes two items of neighbouring layers at each other. Crossings are counted, and items lined up, by these links alone.
func (t *tangle) connect(above, below int32) {
	t.items[above].down = append(t.items[above].down, below)
	t.items[below].up = append(t.items[below].up, above)
}

// labelRows says in which of the layers below its rank each label is.
//
// It is what packLabels returns to makeLayers, and is not needed after that.
type labelRows struct {
	row   map[int]int // by edge; of a stub by -1 less its place
	rows  map[int]int // by rank: how many layers
	width map[int]int // by rank: of the last of these
}

// packLabels fills layers with the labels, each as far as three quarters of the width, and
// those of stubs.
//
// A quarter stays for the lines that pass. The labels of edges that are turned around are in the rows above the node from which they lead.
func (t *tangle) packLabels() *labelRows {
	l := &labelRows{row: map[int]int{}, rows: map[int]int{}, width: map[int]int{}}
	for e, edge := range t.graph.Edges {
		if edge.LabelWidth > 0 && edge.From != edge.To && !t.cut[e] {
			l.row[e] = t.packOne(l, t.labelRank(e), edge.LabelWidth)
		}
	}
	for i := range t.stubs {
		s := &t.stubs[i]
		l.row[-1-i] = t.packOne(l, t.stubRank(&s.Stub), t.options.StubWidth)
	}
	return l
}

// packOne returns the row below rank that has room for something of this width.
//
// Rows are filled one after the other: a label that does not fit opens a new row, and nothing goes back to a row before. A label that is
// wider than all rows gets a row of its own.
func (t *tangle) packOne(l *labelRows, rank, width int) int {
	width += 2*labelGap + t.options.EdgeGap
	l.width[rank] += width
	if l.rows[rank] == 0 || l.width[rank] > t.options.MaxWidth*3/4 {
		l.rows[rank]++
		l.width[rank] = width
	}
	return l.rows[rank] - 1
}

// addStubs collects the edges that are cut, by the nodes that they leave and enter.
//
// One edge that is cut has two ends, each in the stub of its node; edges that leave the same node share one. Keys are sorted, since the
// order of the stubs reaches the drawing.
func (t *tangle) addStubs() {
	leaving, entering := map[int][]int{}, map[int][]int{}
	for e := range t.graph.Edges {
		if t.cut[e] {
			leaving[t.tailOf(e)] = append(leaving[t.tailOf(e)], e)
			entering[t.headOf(e)] = append(entering[t.headOf(e)], e)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(leaving)) {
		t.stubs = append(t.stubs, stub{Stub: Stub{Node: v, Out: true, Edges: leaving[v]}})
	}
	for _, v := range slices.Sorted(maps.Keys(entering)) {
		t.stubs = append(t.stubs, stub{Stub: Stub{Node: v, Edges: entering[v]}})
	}
}

// stubRank returns the rank below which a stub is. That of edges that enter is above its
// node; something has its edge there, so there is a rank.
func (t *tangle) stubRank(s *Stub) int {
	if s.Out {
		return t.rank[s.Node]
	}
	return t.rank[s.Node] - 1
}

// addStubItem gives a stub its item in layer at, and passages between it and its node.
//
// The passages count as those of the first of its edges, so that they are straightened like others, and in Path their ids wait as X
// until portsOf and routeStub make points of them.
func (t *tangle) addStubItem(s *stub, at int32) {
	s.item = t.addItem(item{node: -1, edge: -1, left: labelGap, right: t.options.StubWidth + labelGap, height: stubHeight, layer: at})
	node := t.items[s.Node].layer
	above, end := int32(s.Node), s.item
	if !s.Out {
		above, end = s.item, int32(s.Node)
	}
	e := int32(s.Edges[0])
	for layer := min(node, at) + 1; layer < max(node, at); layer++ {
		below := t.addItem(item{node: -1, edge: e, layer: layer})
		s.Path = append(s.Path, Point{X: int(below)}) // the items, until there are coordinates
		t.connect(above, below)
		above = below
	}
	t.connect(above, end)
}
