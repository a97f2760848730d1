package diagram

import (
	"fmt"

	"github.com/pawl-run/pawl/internal/layout"
	"github.com/pawl-run/pawl/workflow"
)

// shapeOf returns the outline of a node, by its kind: tasks are round at the corners,
// gateways pointed at the sides, waits half circles, approvals slanted; a subworkflow has
// double sides, an end a double border.
//
// Shapes tell kinds apart without colour, which is for how tokens stand. Their class is box, by which the style fills them.
func shapeOf(kind workflow.Kind, b layout.Box) string {
	x, y, w, h := b.X, b.Y, b.Width, b.Height
	r := 6
	switch kind {
	case workflow.KindGateway:
		d := padding - 2
		return fmt.Sprintf(`<path class="box" d="M%d %dH%dL%d %dL%d %dH%dL%d %dZ"/>`, x+d, y, x+w-d, x+w, y+h/2, x+w-d, y+h, x+d, x, y+h/2)
	case workflow.KindApproval:
		d := padding - 2
		return fmt.Sprintf(`<path class="box" d="M%d %dH%dL%d %dH%dZ"/>`, x+d, y, x+w, x+w-d, y+h, x)
	case workflow.KindWait:
		r = h / 2
	case workflow.KindSubworkflow:
		return rect(b, 2) + fmt.Sprintf(`<path class="line" d="M%d %dV%dM%d %dV%d"/>`, x+5, y, y+h, x+w-5, y, y+h)
	case workflow.KindEnd:
		return rect(b, h/2) + rect(layout.Box{X: x + 3, Y: y + 3, Width: w - 6, Height: h - 6}, h/2-3)
	case workflow.KindTask:
	}
	return rect(b, r)
}

// rect returns a rectangle whose corners have the radius r.
func rect(b layout.Box, r int) string {
	return fmt.Sprintf(`<rect class="box" x="%d" y="%d" width="%d" height="%d" rx="%d"/>`, b.X, b.Y, b.Width, b.Height, r)
}

// markers are the ends of lines: an arrow, a bar where branches begin, and one before the
// arrow where they meet.
//
// They are of fixed size, in pixels of the drawing, and begin or end at the point of the line.
const markers = `<defs>
<marker id="pawl-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0L8 4L0 8Z"/></marker>
<marker id="pawl-arrow-error" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="tip-error" d="M0 0L8 4L0 8Z"/></marker>
<marker id="pawl-fork" viewBox="0 0 12 20" refX="0" refY="10" markerWidth="12" markerHeight="20" markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M6 1H8V19H6Z"/></marker>
<marker id="pawl-join" viewBox="0 0 12 20" refX="12" refY="10" markerWidth="12" markerHeight="20" markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M1 1H3V19H1ZM4 6L12 10L4 14Z"/></marker>
</defs>
`

// style is the look, light unless the reader prefers dark. It has no variables, so that
// programs which know little of CSS draw it too.
const style = `
text{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:11px;fill:#57606a}
.page{fill:#fff}.title{font-size:13px;font-weight:bold;fill:#24292f}
.node text{text-anchor:middle}.node .name{font-size:13px;fill:#24292f}
.box{fill:#f6f8fa;stroke:#57606a;stroke-width:1.2}.line,.stack{fill:none;stroke:#57606a;stroke-width:1.2}
.start .box{stroke-width:2.4}
.edge path{fill:none;stroke:#57606a;stroke-width:1.2;marker-end:url(#pawl-arrow)}
.fan path{stroke-width:2.4}.out path{marker-start:url(#pawl-fork)}.in path{marker-end:url(#pawl-join)}
.error path{stroke:#cf222e;stroke-dasharray:5 3;marker-end:url(#pawl-arrow-error)}
.stub path{marker-end:none}
.tip{fill:#57606a}.tip-error{fill:#cf222e}
.unreached .box,.unreached .stack{stroke-dasharray:3 3}.unreached .name{fill:#6e7781}
.done .box{stroke:#1a7f37;fill:#eefbf0}.running .box{stroke:#0969da;fill:#e6f2ff;stroke-width:2.4}
.waiting .box{stroke:#8250df;fill:#f7f0ff;stroke-width:2.4}.retrying .box{stroke:#9a6700;fill:#fff8dc;stroke-width:2.4}
.parked .box{stroke:#bc4c00;fill:#fff1e5;stroke-width:3.6}.failed .box{stroke:#cf222e;fill:#ffebe9;stroke-width:3.6}
.cancelled .box{stroke:#6e7781;fill:#eaeef2}
@media (prefers-color-scheme:dark){
text{fill:#9198a1}.page{fill:#0d1117}.title,.node .name{fill:#f0f6fc}
.box{fill:#161b22;stroke:#9198a1}.line,.stack,.edge path{stroke:#9198a1}.tip{fill:#9198a1}
.error path{stroke:#ff7b72}.tip-error{fill:#ff7b72}.unreached .name{fill:#9198a1}
.done .box{stroke:#3fb950;fill:#0f2417}.running .box{stroke:#58a6ff;fill:#0c2137}
.waiting .box{stroke:#bc8cff;fill:#1f1633}.retrying .box{stroke:#d29922;fill:#2b2008}
.parked .box{stroke:#f0883e;fill:#2f1c0c}.failed .box{stroke:#ff7b72;fill:#35130f}
.cancelled .box{stroke:#9198a1;fill:#21262d}
}
`
