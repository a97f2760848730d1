package layout

import (
	"cmp"
	"slices"
)

// finishDrawing gives the layers their heights, the edges their points, and everything its
// place.
//
// It is the last step, and changes nothing in the tangle but the paths of stubs, in which ids of items become points.
func (t *tangle) finishDrawing() *Drawing {
	d := &Drawing{Nodes: make([]Box, len(t.graph.Nodes)), Edges: make([]Path, len(t.graph.Edges)), Crossings: t.countAll()}
	tops, bottoms := t.placeDown()
	for id := range t.items {
		d.Width = max(d.Width, t.items[id].x+t.items[id].right)
	}
	if len(bottoms) > 0 {
		d.Height = bottoms[len(bottoms)-1]
	}
	// Nodes of a layer are centred on its middle line.
	for v, n := range t.graph.Nodes {
		it := &t.items[v]
		middle := (tops[it.layer] + bottoms[it.layer]) / 2
		d.Nodes[v] = Box{it.x - it.left, middle - n.Height/2, n.Width, n.Height}
		t.drawLoops(d, v)
	}
	r := router{t, d, tops, bottoms, t.portsOf()}
	for e, edge := range t.graph.Edges {
		d.Edges[e].Back, d.Edges[e].Cut = t.reversed[e], t.cut[e]
		if edge.From != edge.To && !t.cut[e] {
			r.routeEdge(e)
		}
	}
	for i := range t.stubs {
		r.routeStub(i)
	}
	return d
}

// placeDown returns the upper and the lower end of each layer. Where edges run far across
// there is more room between two of them.
//
// A line that runs far to the side would be almost flat, and cross others at an angle that nobody can follow. The additional room is
// bounded by twice the gap, so that one such edge does not pull the drawing apart.
func (t *tangle) placeDown() (tops, bottoms []int) {
	y := 0
	for i, layer := range t.layers {
		height, across := 0, 0
		for _, id := range layer {
			height = max(height, t.items[id].height)
			for _, below := range t.items[id].down {
				across = max(across, t.items[id].x-t.items[below].x, t.items[below].x-t.items[id].x)
			}
		}
		tops, bottoms = append(tops, y), append(bottoms, y+height)
		if i < len(t.layers)-1 {
			y += height + t.options.RankGap + min(across/8, 2*t.options.RankGap)
		}
	}
	return tops, bottoms
}

// drawLoops draws the self loops of a node one below the other on its right side.
//
// Their room was part of the width of the node's item since makeLayers, so they touch no neighbour.
func (t *tangle) drawLoops(d *Drawing, v int) {
	box, high := d.Nodes[v], t.loopHeight(v)
	for i, e := range t.loops[v] {
		edge := t.graph.Edges[e]
		x := box.X + box.Width
		y := box.Y + box.Height/2 + (2*i-len(t.loops[v])+1)*high/2
		r := min(high/2-1, box.Height/2-2)
		from, to := y-r, y+r
		limit := func(y int) int { return min(max(y, box.Y+1), box.Y+box.Height-1) }
		p := Path{Loop: true, Points: []Point{{x, limit(from)}, {x, limit(to)}}}
		if edge.LabelWidth > 0 {
			p.Label = Box{x + t.options.LoopWidth, y - edge.LabelHeight/2, edge.LabelWidth, edge.LabelHeight}
		}
		d.Edges[e] = p
	}
}

// A port is where an edge meets a node.
type port struct {
	item int32 // the node
	edge int   // of a stub, -1 less its place
	down bool  // at the bottom of the node
}

// portsOf spreads the edges of each side of a node: one that runs straight has the middle,
// the others are beside it in the order in which they come.
//
// The result is the x of each. The edges of a side are sorted by where they come from, the x of the first item after the node, so that they do
// not cross on their last way.
func (t *tangle) portsOf() map[port]int {
	type end struct {
		port
		x int
	}
	ends := map[port][]end{} // by side: a port with edge 0
	add := func(id int32, edge int, down bool, x int) {
		side := port{item: id, down: down}
		ends[side] = append(ends[side], end{port{id, edge, down}, x})
	}
	for e, edge := range t.graph.Edges {
		if edge.From == edge.To || t.cut[e] {
			continue
		}
		first, last := int32(t.headOf(e)), int32(t.tailOf(e))
		if c := t.chains[e]; len(c) > 0 {
			first, last = c[0], c[len(c)-1]
		}
		add(int32(t.tailOf(e)), e, true, t.items[first].x)
		add(int32(t.headOf(e)), e, false, t.items[last].x)
	}
	for i, s := range t.stubs {
		x := t.items[s.item].x
		if len(s.Path) > 0 {
			x = t.items[s.Path[0].X].x
			if !s.Out {
				x = t.items[s.Path[len(s.Path)-1].X].x
			}
		}
		add(int32(s.Node), -1-i, s.Out, x)
	}
	out := map[port]int{}
	for side, list := range ends {
		slices.SortStableFunc(list, func(a, b end) int { return cmp.Compare(a.x, b.x) })
		centre := t.items[side.item].x
		middle := 0 // twice the place that gets the centre
		switch at := slices.IndexFunc(list, func(e end) bool { return e.x == centre }); {
		case at >= 0:
			middle = 2 * at
		default:
			middle = len(list) - 1
		}
		// Ports are 16 apart or, where the node is too narrow for that, as far as they all find room with 8 at its ends.
		far := max(middle, 2*(len(list)-1)-middle, 1)
		step := min(16, 2*max(t.graph.Nodes[side.item].Width/2-8, 0)/far)
		for i, e := range list {
			out[e.port] = centre + (2*i-middle)*step/2
		}
	}
	return out
}

// A router makes the points of edges.
type router struct {
	*tangle
	*Drawing
	tops, bottoms []int
	ports         map[port]int
}

// pass adds the points where a line leads through an item.
//
// Both have the same x, so the line is vertical as high as the layer: there it cannot touch a node beside it.
func (r *router) pass(points []Point, id int32) []Point {
	it := &r.items[id]
	return append(points, Point{it.x, r.tops[it.layer]}, Point{it.x, r.bottoms[it.layer]})
}

// leave returns the points from the bottom of a node to that of its layer.
func (r *router) leave(v, x int) []Point {
	box := r.Nodes[v]
	return []Point{{x, box.Y + box.Height}, {x, r.bottoms[r.items[v].layer]}}
}

// enter returns the points from the top of a node's layer to that of the node.
func (r *router) enter(v, x int) []Point {
	return []Point{{x, r.tops[r.items[v].layer]}, {x, r.Nodes[v].Y}}
}

// routeEdge makes the points of an edge from its tail down to its head, and turns them around if the edge was turned around, since
// Path leads from From to To. Its label stands beside the line in the layer that has it.
func (r *router) routeEdge(e int) {
	tail, head := r.tailOf(e), r.headOf(e)
	points := r.leave(tail, r.ports[port{int32(tail), e, true}])
	for _, id := range r.chains[e] {
		points = r.pass(points, id)
		if it := &r.items[id]; it.height > 0 {
			edge := r.graph.Edges[e]
			middle := (r.tops[it.layer] + r.bottoms[it.layer]) / 2
			r.Edges[e].Label = Box{it.x + labelGap, middle - edge.LabelHeight/2, edge.LabelWidth, edge.LabelHeight}
		}
	}
	points = slices.Compact(append(points, r.enter(head, r.ports[port{int32(head), e, false}])...))
	if r.reversed[e] {
		slices.Reverse(points)
	}
	r.Edges[e].Points = points
}

// routeStub makes the points of a stub, from its node down or from its text down to its node, and adds it to the drawing.
func (r *router) routeStub(i int) {
	s := &r.stubs[i]
	x := r.ports[port{int32(s.Node), -1 - i, s.Out}]
	it := &r.items[s.item]
	middle := (r.tops[it.layer] + r.bottoms[it.layer]) / 2
	var through []Point
	for _, p := range s.Path {
		through = r.pass(through, int32(p.X))
	}
	if s.Out {
		s.Path = slices.Concat(r.leave(s.Node, x), through, []Point{{it.x, r.tops[it.layer]}, {it.x, middle}})
	} else {
		s.Path = slices.Concat([]Point{{it.x, middle}, {it.x, r.bottoms[it.layer]}}, through, r.enter(s.Node, x))
	}
	s.Path = slices.Compact(s.Path)
	s.Text = Box{it.x + labelGap, middle - stubHeight/2, r.options.StubWidth, stubHeight}
	r.Stubs = append(r.Stubs, s.Stub)
}
