package diagram

import (
	"fmt"
	"slices"
	"strings"
)

// An OutlineStyle says how an outline is written.
type OutlineStyle struct {
	Width int  // columns that no line exceeds; 0 is no bound
	Color bool // with the escape sequences of 16 colours
}

// Outline returns the diagram as text: a node each line, in the order in which a run comes
// to them. Nodes that can be reached only by one of several transitions are indented below it. An
// arrow up leads back to a node above, one down on to a node below.
//
// Each node is told once. An edge that leads to a node which is told elsewhere is a line of its own, without what follows there. So an
// outline has at most as many lines as there are nodes and edges, and one for the title.
func (d *Diagram) Outline(style OutlineStyle) string {
	w := &outliner{Diagram: d, structure: d.findStructure(), style: style, told: make([]bool, len(d.nodes))}
	for _, v := range w.order {
		if w.above[v] < 0 {
			w.tellBlock(v, "")
		}
	}
	return w.outlineText()
}

// An outliner writes an outline.
//
// told says which nodes are in lines already; the direction of an arrow depends on it. lines are laid out at the end, since the columns
// are as wide as the longest of them.
type outliner struct {
	*Diagram
	*structure
	style OutlineStyle
	told  []bool // nodes
	lines []outlineLine
}

// An outlineLine is a node, or an edge to one that is elsewhere.
type outlineLine struct {
	tree   string // what leads to it
	symbol string
	color  string
	name   string
	state  []string // the tokens
	notes  []string // what it is, and when it is taken
}

// tellBlock tells a node, its edges, and what comes behind them.
//
// It is for a node to which no single edge leads: where ways meet, or where a run begins.
func (w *outliner) tellBlock(v int, indent string) {
	w.tellNode(v, indent, nil)
	w.tellEdges(v, indent)
}

// tellEdges tells the edges of v with what only they lead to, then where these meet.
//
// For a diamond a -> b, a -> c, b -> d, c -> d it tells b and c indented below a, each with an arrow on to d, then d where a stands.
func (w *outliner) tellEdges(v int, indent string) {
	inner, behind := w.splitBelow(v)
	edges := w.nodes[v].outgoing
	// A sequence is not indented: its steps stand below each other, however many there are.
	if len(edges) == 1 && len(inner) == 1 {
		e := &w.edges[edges[0]]
		w.tellNode(e.to, indent, e)
		w.tellEdges(e.to, indent)
		edges = nil
	}
	for i, at := range edges {
		e := &w.edges[at]
		corner, next := "├▶ ", "│  "
		if i == len(edges)-1 {
			corner, next = "└▶ ", "   "
		}
		// Told elsewhere: above, which is a loop or another edge to the same node, or below, where ways meet.
		if !slices.Contains(inner, e.to) || w.told[e.to] {
			w.tellReference(e, indent+corner)
			continue
		}
		w.tellNode(e.to, indent+corner, e)
		w.tellEdges(e.to, indent+next)
	}
	// Ways meet there: it stands below v, as far to the left.
	for _, below := range behind {
		w.tellBlock(below, indent)
	}
}

// splitBelow splits the nodes that v dominates: those that an edge of v alone leads to, and
// those where ways meet.
//
// An edge back from further down is no way to come there first, and does not count. Both lists are in the order of the outline.
func (w *outliner) splitBelow(v int) (inner, behind []int) {
	for _, below := range w.below[v] {
		entries, own := 0, false
		for _, e := range w.edges {
			if e.to == below && w.position[e.from] < w.position[below] {
				entries++
				own = own || e.from == v
			}
		}
		if own && entries == 1 {
			inner = append(inner, below)
		} else {
			behind = append(behind, below)
		}
	}
	return inner, behind
}

// tellNode tells a node to which by leads, nil if it is told for itself.
//
// Without a run the symbol says whether branches come here; with one it is that of the most pressing token, ○ if none was here yet.
func (w *outliner) tellNode(v int, tree string, by *edge) {
	n := &w.nodes[v]
	w.told[v] = true
	line := outlineLine{tree: tree, symbol: "•", name: n.id}
	if n.branch {
		line.symbol = "⁞"
	}
	if w.run != nil {
		line.symbol = "○"
		if s, ok := n.counts.worstStanding(); ok {
			line.symbol, line.color = standingSymbols[s], standingColors[s]
		}
		line.state = n.counts.countTexts()
	}
	if text := n.kindText(); text != "" {
		line.notes = append(line.notes, text)
	}
	line.notes = append(line.notes, n.marks...)
	// The edge is told with its node, since that is the only way to come here first.
	if by != nil {
		line.notes = append(line.notes, by.notes()...)
	}
	w.lines = append(w.lines, line)
}

// notes returns what is said behind the node to which an edge leads: when it is taken.
func (e *edge) notes() []string {
	if e.full == "" {
		return nil
	}
	return []string{"⟵ " + e.full}
}

// tellReference tells an edge to a node that is told elsewhere.
//
// An arrow up is to a node that is told already, an arrow down to one that comes further below.
func (w *outliner) tellReference(e *edge, tree string) {
	arrow := "↓"
	if w.told[e.to] {
		arrow = "↑"
	}
	w.lines = append(w.lines, outlineLine{tree: tree, symbol: arrow, name: w.nodes[e.to].id, notes: e.notes()})
}

// outlineText lays the lines out in columns.
//
// The left column has the tree and the names, the right one the rest. The left one takes at most two fifths of the width, but 20 columns
// in any case; what is longer is shortened: the tree of a line to half of it, and then the name. No line ends in spaces.
func (w *outliner) outlineText() string {
	width := w.style.Width
	if width <= 0 {
		// No bound: so large that nothing is shortened, and small enough to be multiplied.
		width = 1 << 20
	}
	// Two columns are for the symbol and the space behind it.
	left := 0
	for _, l := range w.lines {
		left = max(left, CountColumns(l.tree)+2+CountColumns(l.name))
	}
	most := max(width*2/5, 20)
	left = min(left, most)
	var b strings.Builder
	title := w.title
	if w.run != nil {
		title += "  " + w.run.String()
	}
	fmt.Fprintln(&b, shorten(title, width))
	for _, l := range w.lines {
		text := strings.Join(append([]string{strings.Join(l.state, " · ")}, l.notes...), "  ")
		if len(l.state) == 0 {
			text = strings.Join(l.notes, "  ")
		}
		tree := l.tree
		if CountColumns(tree)+2+CountColumns(l.name) > most {
			tree = shortenFront(tree, most/2)
		}
		name := padTo(shorten(l.name, left-CountColumns(tree)-2), left-CountColumns(tree)-2)
		text = shorten(text, max(width-left-2, 1))
		line := tree + w.colored(l.symbol, l.color) + " " + name + "  " + text
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	return b.String()
}

// shortenFront keeps the end of what leads to a node, if it is nested deeply.
//
// The end is next to the name, and says how the node hangs on the line above.
func shortenFront(tree string, most int) string {
	runes := []rune(tree)
	if len(runes) <= most {
		return tree
	}
	return "…" + string(runes[len(runes)-most+1:])
}

// standingColors are codes of terminals, in the order of the standings.
var standingColors = [Standings]string{"31", "35", "33", "36", "34", "32", "90"}

// colored returns text in a colour and ends it there. It is only for symbols, as CountColumns would count the codes.
func (w *outliner) colored(text, color string) string {
	if !w.style.Color || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
