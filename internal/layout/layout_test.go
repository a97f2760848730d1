package layout

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// graphs draws graphs as definitions have them: mostly forwards, with loops, self loops and
// parallel edges; also in parts, and without any order.
func graphs(t *rapid.T) *Graph {
	n := rapid.IntRange(1, 60).Draw(t, "nodes")
	g := &Graph{Nodes: make([]Node, n)}
	for v := range g.Nodes {
		g.Nodes[v] = Node{rapid.IntRange(1, 300).Draw(t, "width"), rapid.IntRange(1, 80).Draw(t, "height")}
	}
	for range rapid.IntRange(0, 2*n).Draw(t, "edges") {
		e := Edge{From: rapid.IntRange(0, n-1).Draw(t, "from")}
		e.To = min(e.From+rapid.IntRange(1, 4).Draw(t, "step"), n-1)
		if rapid.IntRange(0, 4).Draw(t, "far") == 0 {
			e.To = rapid.IntRange(0, n-1).Draw(t, "to")
		}
		if rapid.Bool().Draw(t, "label") {
			e.LabelWidth, e.LabelHeight = rapid.IntRange(1, 200).Draw(t, "labelWidth"), 14
		}
		g.Edges = append(g.Edges, e)
	}
	return g
}

func overlap(a, b Box) bool {
	return a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height
}

// Boxes and labels do not overlap, edges lead from border to border past everything else,
// all is within the width, and the same graph gets the same drawing.
func TestDrawing(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		g := graphs(t)
		o := Options{MaxWidth: rapid.SampledFrom([]int{0, 700, 1000, 3000}).Draw(t, "width")}
		d := Draw(g, o)
		require.Equal(t, d, Draw(g, o))
		checkDrawing(t, g, d, o.withDefaults())
	})
}

func checkDrawing(t require.TestingT, g *Graph, d *Drawing, o Options) {
	var boxes []Box
	var names []string
	add := func(b Box, format string, args ...any) {
		boxes, names = append(boxes, b), append(names, fmt.Sprintf(format, args...))
	}
	widest := 0
	for v, b := range d.Nodes {
		require.Equal(t, g.Nodes[v].Width, b.Width)
		require.Equal(t, g.Nodes[v].Height, b.Height)
		add(b, "node %d", v)
		widest = max(widest, b.Width)
	}
	for e, p := range d.Edges {
		if g.Edges[e].LabelWidth > 0 && !p.Cut {
			require.Equal(t, g.Edges[e].LabelWidth, p.Label.Width)
			add(p.Label, "label %d", e)
		}
	}
	for i, s := range d.Stubs {
		add(s.Text, "stub %d", i)
	}
	for i := range boxes {
		require.GreaterOrEqual(t, boxes[i].X, 0, names[i])
		require.GreaterOrEqual(t, boxes[i].Y, 0, names[i])
		require.LessOrEqual(t, boxes[i].X+boxes[i].Width, d.Width, names[i])
		require.LessOrEqual(t, boxes[i].Y+boxes[i].Height, d.Height, names[i])
		for j := range i {
			if overlap(boxes[i], boxes[j]) {
				require.Fail(t, "overlap", "%s %v and %s %v", names[i], boxes[i], names[j], boxes[j])
			}
		}
	}
	require.LessOrEqual(t, d.Width, max(o.MaxWidth, widest+2*o.LoopWidth+200+2*labelGap))
	checkPaths(t, g, d, boxes)
}

func checkPaths(t require.TestingT, g *Graph, d *Drawing, boxes []Box) {
	standing := map[int]bool{} // edges that stubs stand for
	for _, s := range d.Stubs {
		for _, e := range s.Edges {
			standing[e] = true
		}
	}
	for e, p := range d.Edges {
		from, to := d.Nodes[g.Edges[e].From], d.Nodes[g.Edges[e].To]
		require.Equal(t, standing[e], p.Cut)
		if p.Cut {
			continue
		}
		first, last := p.Points[0], p.Points[len(p.Points)-1]
		if p.Loop {
			require.Equal(t, from, to)
			require.Equal(t, from.X+from.Width, first.X)
			require.Equal(t, first.X, last.X)
			continue
		}
		onBorder := func(q Point, b Box, bottom bool) {
			y := b.Y
			if bottom {
				y += b.Height
			}
			require.Equal(t, y, q.Y, "edge %d", e)
			require.GreaterOrEqual(t, q.X, b.X, "edge %d", e)
			require.LessOrEqual(t, q.X, b.X+b.Width, "edge %d", e)
		}
		onBorder(first, from, !p.Back)
		onBorder(last, to, p.Back)
		for i := 1; i < len(p.Points); i++ {
			a, b := p.Points[i-1], p.Points[i]
			line := Box{min(a.X, b.X), min(a.Y, b.Y), max(a.X, b.X) - min(a.X, b.X), max(a.Y, b.Y) - min(a.Y, b.Y)}
			require.True(t, p.Back == (b.Y < a.Y) || a.Y == b.Y, "edge %d turns", e)
			for _, box := range boxes { // a box around the bend is more than the bend needs
				if overlap(line, box) {
					require.Fail(t, "overlap", "edge %d from %v to %v passes %v", e, a, b, box)
				}
			}
		}
	}
}

// A chain is a straight line, and its way back runs beside it.
func TestChainIsStraight(t *testing.T) {
	g := &Graph{Nodes: []Node{{100, 40}, {60, 40}, {120, 40}}, Edges: []Edge{{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 0}}}
	d := Draw(g, Options{})
	for _, p := range d.Edges[:2] {
		require.Len(t, p.Points, 2)
		assert.Equal(t, p.Points[0].X, p.Points[1].X)
		assert.False(t, p.Back)
	}
	assert.True(t, d.Edges[2].Back)
	assert.Zero(t, d.Crossings)
}

// The ranks of the network simplex are as good as any: a longest path would leave the
// second edge of the short way long.
func TestRanksAreShort(t *testing.T) {
	// 0 to 1 to 2 to 3 to 4, and 5 to 6 to 4, 7 to 6: 5 and 7 are next to 6, 6 next to 4.
	g := &Graph{Nodes: make([]Node, 8)}
	for _, e := range [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {5, 6}, {6, 4}, {7, 6}} {
		g.Edges = append(g.Edges, Edge{From: e[0], To: e[1]})
	}
	tg := &tangle{graph: g, options: Options{}.withDefaults(), reversed: make([]bool, len(g.Edges))}
	tg.breakCycles()
	tg.assignRanks()
	assert.Equal(t, []int{0, 1, 2, 3, 4, 2, 3, 2}, tg.rank)
}

// randomGraph makes a graph of n nodes with as many short edges, and a tenth of them anywhere.
func randomGraph(n int) *Graph {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	g := &Graph{Nodes: make([]Node, n)}
	for v := range g.Nodes {
		g.Nodes[v] = Node{60 + random.IntN(120), 40}
		if v > 0 {
			g.Edges = append(g.Edges, Edge{From: max(v-1-random.IntN(8), 0), To: v, LabelWidth: random.IntN(2) * 80, LabelHeight: 14})
		}
	}
	for range n / 10 {
		g.Edges = append(g.Edges, Edge{From: random.IntN(n), To: random.IntN(n)})
	}
	return g
}

// wide makes a graph in which one node leads to n others, and these to one.
func wideGraph(n int) *Graph {
	g := &Graph{Nodes: make([]Node, n+2)}
	for v := range g.Nodes {
		g.Nodes[v] = Node{120, 40}
	}
	for v := 1; v <= n; v++ {
		g.Edges = append(g.Edges, Edge{From: 0, To: v}, Edge{From: v, To: n + 1})
	}
	return g
}

// Large graphs keep all that small ones have, and cut long edges rather than cost without
// bound.
func TestLargeDrawings(t *testing.T) {
	o := Options{}.withDefaults()
	for name, g := range map[string]*Graph{"random": randomGraph(600), "wide": wideGraph(600)} {
		t.Run(name, func(t *testing.T) { checkDrawing(t, g, Draw(g, o), o) })
	}
}

// A thousand nodes take less than 100 ms and ten thousand a few seconds, as BenchmarkDraw says;
// the bounds here are far from that, so that other work beside does not fail the test.
func TestDrawingTakesNotLong(t *testing.T) {
	harness.MeasuresTime(t)
	for _, tt := range []struct {
		nodes int
		most  time.Duration
	}{{1000, 10 * time.Second}, {10_000, 5 * time.Minute}} {
		for _, g := range []*Graph{randomGraph(tt.nodes), wideGraph(tt.nodes)} {
			best := time.Hour
			for n := 0; n < 2 && best >= tt.most; n++ {
				start := time.Now()
				Draw(g, Options{})
				best = min(best, time.Since(start))
			}
			assert.Less(t, best, tt.most)
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		for name, g := range map[string]*Graph{"random": randomGraph(n), "wide": wideGraph(n)} {
			b.Run(fmt.Sprintf("%s=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					Draw(g, Options{})
				}
			})
		}
	}
}
