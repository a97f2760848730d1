package diagram

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/workflow"
)

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
