package diagram

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/pawl-run/pawl/workflow"
)

// cleanText makes one line of text that terminals and readers of XML only show: what is
// not to be printed becomes a space.
//
// Definitions may be those of strangers: an escape sequence in an id must not reach a terminal, nor a control character an XML file.
func cleanText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// CountColumns returns how many columns text takes in a terminal and in a monospaced font.
func CountColumns(text string) int {
	n := 0
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

// runeColumns returns 0 for marks that stand on the character before, 2 for wide characters of East Asia, and 1 for all others.
func runeColumns(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// shorten returns text in at most so many columns, with an ellipsis if it was longer.
//
// The ellipsis takes one of the columns. It never cuts through a character.
func shorten(text string, most int) string {
	if CountColumns(text) <= most {
		return text
	}
	// One column is for the ellipsis.
	n := 1
	for i, r := range text {
		if n += runeColumns(r); n > most {
			return strings.TrimRight(text[:i], " ") + "…"
		}
	}
	return text
}

// padTo returns text with spaces up to so many columns.
func padTo(text string, n int) string {
	return text + strings.Repeat(" ", max(n-CountColumns(text), 0))
}

// dotShapes are values of the attribute shape, with whatever else makes a kind look like its SVG shape.
var dotShapes = map[workflow.Kind]string{
	workflow.KindTask: "box, style=rounded", workflow.KindSubworkflow: "box, peripheries=2", workflow.KindApproval: "trapezium",
	workflow.KindWait: "ellipse", workflow.KindEnd: "doublecircle", workflow.KindGateway: "diamond",
}

// Dot returns the diagram in the language of Graphviz.
//
// It leaves the layout to Graphviz. Nodes are named n0, n1 and so on, as ids of nodes may have any character; branches, changes of
// class and the start are not shown there.
func (d *Diagram) Dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph {\n  label=%s; labelloc=t; node [fontname=monospace]; edge [fontname=monospace];\n", dotText([]string{d.titleText()}))
	for i := range d.nodes {
		n := &d.nodes[i]
		fmt.Fprintf(&b, "  n%d [label=%s, shape=%s];\n", i, dotText(n.labelLines()), dotShapes[n.kind])
	}
	for _, e := range d.edges {
		fmt.Fprintf(&b, "  n%d -> n%d", e.from, e.to)
		var attributes []string
		if len(e.label) > 0 {
			attributes = append(attributes, "label="+dotText(e.label))
		}
		switch e.kind {
		case onError:
			attributes = append(attributes, "style=dashed")
		case fanOut, fanIn:
			attributes = append(attributes, "style=bold")
		case plain:
		}
		if len(attributes) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(attributes, ", "))
		}
		b.WriteString(";\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// dotText joins lines and quotes them.
//
// The \n between lines is an escape of Graphviz, and so is not to be escaped itself.
func dotText(lines []string) string {
	quoted := make([]string, len(lines))
	for i, line := range lines {
		quoted[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(line)
	}
	return `"` + strings.Join(quoted, `\n`) + `"`
}

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
