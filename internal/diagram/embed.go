package diagram

import (
	"github.com/pawl-run/pawl/internal/layout"
	"github.com/pawl-run/pawl/workflow"
)

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
