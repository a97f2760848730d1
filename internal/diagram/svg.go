package diagram

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/layout"
	"github.com/pawl-run/pawl/workflow"
)

// Measures of the drawing, in pixels. A column is that of a monospaced font of 13 pixels,
// and of 11 for what is smaller: 0.6 of its size, rounded up.
const (
	column      = 8
	smallColumn = 7
	lineHeight  = 16
	smallLine   = 14
	padding     = 12
	margin      = 16
	titleHeight = 28
)

// SVG returns the diagram as a picture of at most maxWidth pixels, 0 for the default of
// 1600, unless one node is wider. It follows the colours of the reader, light or dark.
//
// It is a file of its own, with its style inside; a part of a page is Embed.
func (d *Diagram) SVG(maxWidth int) string {
	o := layout.Options{MaxWidth: max(maxWidth-2*margin, 0)}
	p := &painter{Diagram: d, drawing: layout.Draw(d.layoutGraph(), o)}
	p.paint()
	return p.b.String()
}

// layoutGraph returns boxes and labels in pixels for package layout, which knows no texts. Nodes and edges keep their places, so that
// what it draws can be looked up by these.
func (d *Diagram) layoutGraph() *layout.Graph {
	g := &layout.Graph{}
	for i := range d.nodes {
		w, h := d.nodes[i].size()
		g.Nodes = append(g.Nodes, layout.Node{Width: w, Height: h})
	}
	for _, e := range d.edges {
		edge := layout.Edge{From: e.from, To: e.to}
		for _, line := range e.label {
			edge.LabelWidth = max(edge.LabelWidth, CountColumns(line)*smallColumn)
			edge.LabelHeight += smallLine
		}
		g.Edges = append(g.Edges, edge)
	}
	return g
}

// size returns the room that a node takes.
//
// Texts are not measured but counted in columns, as no font is at hand: columns are rounded up, so texts fit. The kinds whose sides are
// not straight get more room at them, nodes of branches room for the cards behind.
func (n *node) size() (w, h int) {
	texts := n.labelLines()
	w = CountColumns(texts[0]) * column
	for _, line := range texts[1:] {
		w = max(w, CountColumns(line)*smallColumn)
	}
	w = max(w+2*padding, 64)
	h = lineHeight + (len(texts)-1)*smallLine + padding
	if n.kind == workflow.KindGateway || n.kind == workflow.KindWait || n.kind == workflow.KindApproval {
		w += padding
	}
	if n.branch {
		w, h = w+stack, h+stack
	}
	return w, h
}

// stack is how far the cards behind a node of branches reach out.
const stack = 5

// A painter writes SVG.
//
// It draws one diagram once. drawing has the same places as nodes and edges of the diagram. Everything that comes from a definition or
// a run goes through escape, links as well.
type painter struct {
	*Diagram
	drawing *layout.Drawing
	link    func(workflow.NodeID) string // where a node leads; nil if nowhere
	chosen  workflow.NodeID
	b       strings.Builder
}

// printf appends. Arguments that are texts of others must be escaped by the caller.
func (p *painter) printf(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

// paint draws a file: a title, a description for those who do not see it, the style, and the graph below the title.
func (p *painter) paint() {
	title := p.titleText()
	width := max(p.drawing.Width, CountColumns(title)*column) + 2*margin
	height := p.drawing.Height + titleHeight + 2*margin
	p.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"pawl-title pawl-desc\">\n", width, height, width, height)
	p.printf("<title id=\"pawl-title\">%s</title>\n<desc id=\"pawl-desc\">%s</desc>\n", escape(title), escape(p.description()))
	p.printf("<style>%s</style>\n%s", style, markers)
	p.printf("<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n<text class=\"title\" x=\"%d\" y=\"%d\">%s</text>\n", width, height, margin, margin+14, escape(title))
	p.printf("<g transform=\"translate(%d %d)\">\n", margin, margin+titleHeight)
	p.paintGraph()
	p.printf("</g>\n</svg>\n")
}

// paintGraph draws edges first, so that nodes are above their ends.
func (p *painter) paintGraph() {
	for i := range p.edges {
		p.paintEdge(i)
	}
	for _, s := range p.drawing.Stubs {
		p.paintStub(s)
	}
	// Nodes are links, in the order of the definition, in which a keyboard comes to them.
	for i := range p.nodes {
		p.paintNode(i)
	}
}

// description says in words what is to be seen.
func (p *painter) description() string {
	text := fmt.Sprintf("A workflow of %d nodes and %d transitions.", len(p.nodes), len(p.edges))
	if p.start >= 0 {
		text += fmt.Sprintf(" It begins at %s.", p.nodes[p.start].id)
	}
	if p.run != nil {
		text += " Nodes show how many threads are or were there."
	}
	return text
}

// path returns the course of an edge: straight down, and in curves between the layers.
//
// Each bend begins and ends vertically, halfway between its ends, so that lines meet nodes at a right angle.
func path(points []layout.Point) string {
	var b strings.Builder
	for i, q := range points {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%d %d", q.X, q.Y)
		case q.X == points[i-1].X:
			fmt.Fprintf(&b, "V%d", q.Y)
		default:
			last := points[i-1]
			middle := (last.Y + q.Y) / 2
			fmt.Fprintf(&b, "C%d %d %d %d %d %d", last.X, middle, q.X, middle, q.X, q.Y)
		}
	}
	return b.String()
}

// edgeClasses are what style sheets go by, here and in the pages of the inspector.
var edgeClasses = [...]string{plain: "edge", onError: "edge error", fanOut: "edge fan out", fanIn: "edge fan in"}

// paintEdge draws an edge with its label, and a title that says where it leads and when. An edge that is cut
// is not drawn here: a stub stands for it.
func (p *painter) paintEdge(i int) {
	e, course := &p.edges[i], &p.drawing.Edges[i]
	if course.Cut {
		return
	}
	sentence := fmt.Sprintf("%s to %s", p.nodes[e.from].id, p.nodes[e.to].id)
	if e.full != "" {
		sentence += ": " + e.full
	}
	class := edgeClasses[e.kind] + changeClass(e.change)
	if course.Back || course.Loop {
		class += " back"
	}
	if e.never {
		class += " never"
	}
	if e.share > 0 {
		class += fmt.Sprintf(" share-%d", e.share)
	}
	line := path(course.Points)
	// A self loop has two points at the side of its node; it bulges out between them.
	if course.Loop {
		from, to := course.Points[0], course.Points[1]
		line = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", from.X, from.Y, from.X+30, from.Y-6, to.X+30, to.Y+6, to.X, to.Y)
	}
	p.printf("<g class=\"%s\"><title>%s</title><path d=\"%s\"/>", class, escape(shorten(sentence, maxTitle)), line)
	for j, text := range e.label {
		p.printf("<text x=\"%d\" y=\"%d\">%s</text>", course.Label.X, course.Label.Y+11+j*smallLine, escape(text))
	}
	p.printf("</g>\n")
}

// paintStub paints what stands for edges that are cut.
//
// It names the node at the other end or, of several, says how many there are, and has all of them in its title.
func (p *painter) paintStub(s layout.Stub) {
	var names []string
	for _, e := range s.Edges {
		other := p.edges[e].to
		if other == s.Node {
			other = p.edges[e].from
		}
		names = append(names, p.nodes[other].id)
	}
	text := fmt.Sprintf("%d nodes", len(names))
	// One name is worth more than a number.
	if len(names) == 1 {
		text = names[0]
	}
	arrow, class := "→ ", "edge"
	if !s.Out {
		arrow = "← "
	}
	p.printf("<g class=\"%s stub\"><title>%s</title><path d=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text></g>\n",
		class, escape(shorten(strings.Join(names, ", "), maxTitle)), path(s.Path), s.Text.X, s.Text.Y+12, escape(arrow+shorten(text, s.Text.Width/smallColumn-2)))
}

// paintNode draws a node: its shape by its kind, its classes by how it stands, its lines in the middle. A node of a run where no token was
// is unreached.
func (p *painter) paintNode(i int) {
	n, box := &p.nodes[i], p.drawing.Nodes[i]
	class := "node " + string(n.kind) + changeClass(n.change)
	worst, any := n.counts.worstStanding()
	switch {
	case any:
		class += " " + worst.String()
	case p.run != nil:
		class += " unreached"
	}
	if i == p.start {
		class += " start"
	}
	tag := p.openNode(n, class)
	if n.branch {
		box.Width, box.Height = box.Width-stack, box.Height-stack
		p.printf("<path class=\"stack\" d=\"M%d %dH%dV%dH%d\"/>", box.X+stack, box.Y+box.Height+stack, box.X+box.Width+stack, box.Y+stack, box.X+box.Width)
	}
	p.b.WriteString(shapeOf(n.kind, box))
	texts := n.labelLines()
	y := box.Y + box.Height/2 - ((len(texts)-1)*smallLine)/2 + 5
	standing := n.counts.standings()
	for j, text := range texts {
		class := "small"
		// The last lines are the counts: k is the place of this one among them, negative of lines before.
		if k := j - len(texts) + len(standing); j == 0 {
			class = "name"
		} else if k >= 0 {
			class += " is-" + standing[k].String()
		}
		p.printf("<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>", class, box.X+box.Width/2, y+j*smallLine, escape(text))
	}
	p.printf("</%s>\n", tag)
}

// maxTitle bounds what the title of a node, an edge or a stub says, in columns: expressions and lists of nodes may be far longer than one reads.
const maxTitle = 1000

// sentence says all of a node.
//
// It is the title of the node, which browsers show and screen readers read.
func (p *painter) sentence(n *node) string {
	text := n.id
	if kind := n.kindText(); kind != "" {
		text += ", " + kind
	}
	for _, mark := range n.marks {
		text += ", " + mark
	}
	if c := n.counts.countTexts(); len(c) > 0 {
		text += ": " + strings.Join(c, ", ")
	} else if p.run != nil {
		text += ": not reached"
	}
	return shorten(text, maxTitle)
}

// escape makes text safe between tags and in attributes with double quotes.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}

// An Embedding says how a diagram stands in a page.
//
// Link is asked for each node once it is drawn, and its result is escaped here.
type Embedding struct {
	MaxWidth int                          // in pixels, unless one node is wider; 0 is 1600
	Link     func(workflow.NodeID) string // where a node leads; nil is nowhere
	Chosen   workflow.NodeID              // the node that is looked at; "" for none
}

// Embed returns the diagram as an SVG element of a page, which has the style: the classes are
// those that SVG writes. Nodes are links whose title says all of them in a sentence; each has
// the class chosen if it is that of o, and its id as the attribute data-node.
//
// The ids of its markers are the same in each: a page with two of them still draws both, as the markers are alike. The view begins one
// pixel outside, so that borders are not cut off.
func (d *Diagram) Embed(o Embedding) string {
	p := &painter{Diagram: d, drawing: layout.Draw(d.layoutGraph(), layout.Options{MaxWidth: o.MaxWidth}), link: o.Link, chosen: o.Chosen}
	width, height := p.drawing.Width+2, p.drawing.Height+2
	p.printf("<svg class=\"graph\" width=\"%d\" height=\"%d\" viewBox=\"-1 -1 %d %d\" role=\"group\" aria-label=\"%s\">\n%s", width, height, width, height, escape(p.description()), markers)
	p.paintGraph()
	p.printf("</svg>\n")
	return p.b.String()
}

// openNode begins the element of a node and returns its name.
//
// The name is for the end tag. Without links it is a plain group, which SVG uses as well.
func (p *painter) openNode(n *node, class string) string {
	if n.key == p.chosen && n.key != "" {
		class += " chosen"
	}
	if p.link == nil {
		p.printf("<g class=\"%s\"><title>%s</title>", class, escape(p.sentence(n)))
		return "g"
	}
	p.printf("<a class=\"%s\" href=\"%s\" data-node=\"%s\"><title>%s</title>", class, escape(p.link(n.key)), escape(string(n.key)), escape(p.sentence(n)))
	return "a"
}
