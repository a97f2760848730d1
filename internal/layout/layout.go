// Package layout places the nodes and edges of a directed graph: from the top to the
// bottom, in layers, within a given width. The same graph always gets the same drawing,
// byte for byte, on every machine: all arithmetic is in integers.
//
// It is the method of Sugiyama, Tagawa and Toda (Methods for Visual Understanding of
// Hierarchical System Structures, 1981) with these steps:
//
//   - cycles: back edges of a depth-first search are turned around;
//   - ranks: the network simplex of Gansner, Koutsofios, North and Vo (A Technique for
//     Drawing Directed Graphs, 1993), then list scheduling as of Coffman and Graham
//     (Optimal Scheduling for Two-Processor Systems, 1972) where a rank is too wide;
//   - order: the barycentre sweeps of Sugiyama with the transpositions of Gansner et al.;
//     crossings are counted as by Barth, Mutzel and Jünger (Simple and Efficient Bilayer
//     Cross Counting, 2004);
//   - coordinates: Brandes and Köpf (Fast and Simple Horizontal Coordinate Assignment,
//     2001), compacted by longest paths over blocks, then pressed into the width.
//
// An edge runs straight down wherever there are nodes, and bends only between the layers.
// So it never passes through a node, nor through a label, which has a place of its own.
package layout

// A Graph is what is to be drawn. Lengths are in any unit; SVG takes them as pixels.
type Graph struct {
	Nodes []Node
	Edges []Edge
}

// A Node is a box.
type Node struct {
	Width, Height int
}

// An Edge leads from node to node, by their places in Graph.Nodes.
type Edge struct {
	From, To                int
	LabelWidth, LabelHeight int // 0 by 0 means no label
}

// Options say how much room there is. The zero value of each is the default.
type Options struct {
	MaxWidth  int // no drawing is wider, unless a single node or label is; default 1600
	NodeGap   int // between boxes of a layer; default 32
	EdgeGap   int // between an edge and its neighbours; default 16; less where there are too many
	RankGap   int // between layers, at least; default 28
	LoopWidth int // how far a self loop reaches out; default 28
	StubWidth int // room for the end of an edge that is cut, see Path.Cut; default 120
}

// withDefaults also takes what is negative for the default: Draw has no errors of options.
func (o Options) withDefaults() Options {
	for _, d := range []struct {
		v   *int
		def int
	}{{&o.MaxWidth, 1600}, {&o.NodeGap, 32}, {&o.EdgeGap, 16}, {&o.RankGap, 28}, {&o.LoopWidth, 28}, {&o.StubWidth, 120}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	return o
}

// stubHeight is the height of the end of an edge that is cut.
const stubHeight = 16

// A Point is a place; y grows downwards.
type Point struct{ X, Y int }

// A Box is a rectangle by its upper left corner.
type Box struct{ X, Y, Width, Height int }

// A Drawing says where everything is, within 0,0 and Width, Height.
type Drawing struct {
	Width, Height int
	Nodes         []Box  // as Graph.Nodes
	Edges         []Path // as Graph.Edges
	Stubs         []Stub
	Crossings     int // of edges with each other
}

// A Path is the course of an edge. Between two points with the same X it is straight,
// else it bends from one vertical to the other; that of a self loop leaves its node to the
// right and comes back there.
type Path struct {
	Points []Point // from the border of one node to that of the other
	Label  Box     // zero if the edge has none
	Back   bool    // it was turned around: it closes a cycle, and leads upwards
	Loop   bool    // it leads to where it comes from
	Cut    bool    // it is among the longest of a graph that has too many long ones: stubs stand for it, it has no points
}

// A Stub stands for the edges of one node that are cut, those that leave it or those that
// come to it.
type Stub struct {
	Node  int
	Out   bool
	Edges []int   // by their places in Graph.Edges
	Path  []Point // from the node, or to it
	Text  Box
}

// Draw places g. Ends of edges that are no nodes are a fault of the caller, for which it
// panics.
func Draw(g *Graph, o Options) *Drawing {
	o = o.withDefaults()
	// Each step reads what those before it have set, and none changes that again: the order is that of the method.
	t := &tangle{graph: g, options: o, reversed: make([]bool, len(g.Edges))}
	t.breakCycles()
	t.assignRanks()
	// Ranks that are too wide are spread before edges are cut, since that makes edges longer.
	t.boundRanks()
	t.cutLongEdges()
	t.makeLayers()
	t.orderLayers()
	t.placeAcross()
	// Coordinates are computed without regard to the width, and pressed if that is exceeded.
	t.pressTogether()
	return t.finishDrawing()
}

// A tangle is a graph on its way to a drawing.
//
// Edges and nodes are known by their places in graph. breakCycles sets reversed, loops, out and in; assignRanks and boundRanks rank;
// cutLongEdges cut; makeLayers items, chains, stubs and the number of layers; orderLayers what is in which place. For each edge that
// is neither cut nor a self loop, the rank of its tail is less than that of its head.
type tangle struct {
	graph    *Graph
	options  Options
	reversed []bool    // by edge: it is taken from To to From
	cut      []bool    // by edge
	out, in  [][]int   // by node: edges as they are taken, without self loops
	loops    [][]int   // by node: its self loops
	rank     []int     // by node, from 0
	items    []item    // nodes, and what the edges have in each layer
	layers   [][]int32 // items, from left to right
	chains   [][]int32 // by edge: its items from layer to layer, without the nodes
	stubs    []stub
}

// A stub is the item that stands for cut edges, with what it stands for.
type stub struct {
	item int32
	Stub
}

// tailOf and headOf return the ends of an edge as it is taken: downwards.
func (t *tangle) tailOf(e int) int {
	if t.reversed[e] {
		return t.graph.Edges[e].To
	}
	return t.graph.Edges[e].From
}

// headOf returns the end that has the greater rank: see tailOf.
func (t *tangle) headOf(e int) int {
	if t.reversed[e] {
		return t.graph.Edges[e].From
	}
	return t.graph.Edges[e].To
}
