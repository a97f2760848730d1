package inspector

import (
	"html/template"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/workflow"
)

// The bounds of a drawn graph.
// A drawing of thousands of nodes helps nobody, and takes long to lay out: beyond wholeGraph only a part is drawn.
const (
	graphWidth = 760 // in pixels, where it can be
	wholeGraph = 400 // nodes up to which all are drawn
	drawnNodes = 100 // of one that has more
	listedRows = 100 // lines of a list on a page
)

// A picture is a graph as SVG or, of one of many nodes, the part around what matters.
//
// Drawn of Of nodes are in it; if they are fewer, the page has a form that asks for the part around another node, with Fields to keep the
// rest of the address.
type picture struct {
	SVG    template.HTML // of package diagram, which escapes all texts
	Drawn  int
	Of     int
	Around workflow.NodeID // the node that the reader has asked for
	None   bool            // there is no such node
	Moves  bool            // the page can be asked for around another node
	Fields []formField     // with which it is
	nodes  map[workflow.NodeID]bool
}

// Part reports whether not all is drawn.
func (g picture) Part() bool { return g.Drawn < g.Of }

// drawsNode reports whether a node is in the picture.
func (g *picture) drawsNode(id workflow.NodeID) bool { return g.nodes[id] }

// drawPicture draws a diagram, or the part of it around the node that the query of the page names.
//
// link may be nil: then the nodes lead nowhere.
func (p *page) drawPicture(d *diagram.Diagram, link func(workflow.NodeID) string) picture {
	q := p.r.URL.Query()
	out := picture{Of: d.Size(), Around: workflow.NodeID(q.Get("node"))}
	part := d
	if out.Of > wholeGraph {
		part = d.Part(drawnNodes, out.Around)
	}
	out.Drawn = part.Size()
	out.nodes = make(map[workflow.NodeID]bool, out.Drawn)
	// Tables beside the picture have the same nodes.
	for _, id := range part.Nodes() {
		out.nodes[id] = true
	}
	// Part puts a chosen node into the picture if there is one.
	out.None = out.Around != "" && !out.nodes[out.Around]
	if out.Moves = out.Part() && !p.isForm(); out.Moves {
		// A form by GET replaces the query, so what chooses the page goes with it.
		for _, name := range []string{"id", "view", "workflow", "version", "revision", "at"} {
			if q.Get(name) != "" {
				out.Fields = append(out.Fields, formField{name, q.Get(name)})
			}
		}
	}
	svg := part.Embed(diagram.Embedding{MaxWidth: graphWidth, Link: link, Chosen: out.Around})
	out.SVG = template.HTML(svg) //nolint:gosec // package diagram escapes every text
	return out
}

// isForm reports whether the page asks whether to do something.
func (p *page) isForm() bool { return strings.Trim(p.r.URL.Path, "/") == "act" }

// A listPart is a page of a list that has many lines.
//
// From and To are counted from 1, and both are part of it.
type listPart struct {
	From, To       int // the first line counts from 1; 0 if the list is not shown from a line on
	Of             int
	Before, Behind string // lead to other parts; "" if there is none
}

// Whole reports whether all lines are shown.
func (l listPart) Whole() bool { return l.To-l.From+1 >= l.Of }

// partOf returns the part of a list of n lines that a parameter of the query chooses, by the lines before it.
// link leads to another part; nil if nothing can.
//
// What the address says is brought within the list: of 250 lines, 200 shows 201 to 250, and 900 the last line. Of an empty list From is 1
// and To 0.
func (p *page) partOf(parameter string, n int, link func(from string) string) listPart {
	from, _ := strconv.Atoi(p.r.URL.Query().Get(parameter))
	from = max(0, min(from, n-1))
	part := listPart{From: from + 1, To: min(from+listedRows, n), Of: n}
	if link == nil {
		return part
	}
	if from > 0 {
		part.Before = link(strconv.Itoa(max(0, from-listedRows)))
	}
	if part.To < n {
		part.Behind = link(strconv.Itoa(part.To))
	}
	return part
}
