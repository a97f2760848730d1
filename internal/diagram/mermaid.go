package diagram

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/workflow"
)

// mermaidShapes are what stands around the text of a node.
var mermaidShapes = map[workflow.Kind][2]string{
	workflow.KindTask: {"(", ")"}, workflow.KindSubworkflow: {"[[", "]]"}, workflow.KindApproval: {"[/", "/]"},
	workflow.KindWait: {"([", "])"}, workflow.KindEnd: {"(((", ")))"}, workflow.KindGateway: {"{{", "}}"},
}

// Mermaid returns the diagram in the language of Mermaid, which GitHub and others draw.
//
// Nodes are n0, n1 and so on, since their own ids may be words of Mermaid, such as end. Error transitions are dotted, fan-outs and
// joins thick.
func (d *Diagram) Mermaid() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\ntitle: %q\n---\nflowchart TD\n", d.titleText())
	for i := range d.nodes {
		n := &d.nodes[i]
		shape := mermaidShapes[n.kind]
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s\n", i, shape[0], mermaidText(n.labelLines()), shape[1])
	}
	for _, e := range d.edges {
		arrow := "-->"
		switch e.kind {
		case onError:
			arrow = "-.->"
		case fanOut, fanIn:
			arrow = "==>"
		case plain:
		}
		if len(e.label) > 0 {
			arrow += `|"` + mermaidText(e.label) + `"|`
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", e.from, arrow, e.to)
	}
	return b.String()
}

// mermaidText joins lines. Every character that might mean something to Mermaid is written as a
// number.
//
// The numbers are entities of Mermaid, which begin with # where those of HTML begin with &#. The <br> between lines stays.
func mermaidText(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteString("<br>")
		}
		for _, r := range line {
			if strings.ContainsRune("\"#&<>`;|\\*_~[](){}", r) {
				fmt.Fprintf(&b, "#%d;", r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// labelLines returns the lines in a node: its id, what it is, and its tokens.
//
// All drawings have the same lines. The first is the name, in larger type; size and paintNode rely on that, and on the counts being last.
func (n *node) labelLines() []string {
	texts := []string{shorten(n.id, maxName)}
	if text := n.kindText(); text != "" {
		texts = append(texts, shorten(text, maxName))
	}
	for _, mark := range n.marks {
		texts = append(texts, shorten(mark, maxName))
	}
	return append(texts, n.counts.markedTexts()...)
}

// titleText says what the diagram is of.
//
// The record is part of it: a drawing that is kept says as of when it was true.
func (d *Diagram) titleText() string {
	if d.run == nil {
		return d.title
	}
	return d.title + ", " + d.run.String()
}
