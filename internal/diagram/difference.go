package diagram

import (
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// NewDifference makes the diagram of a definition, with the nodes and edges that an earlier form of it had and that are gone. The changes, which
// CompareDefinitions has returned, are marked in words, and in the classes added, removed and changed. run, which may be nil, is drawn on it.
//
// after comes first and keeps its order, so that a small patch does not move the whole drawing; what was removed is appended.
func NewDifference(before, after *compiled.Graph, changes []workflow.DefinitionChange, run *Run) *Diagram {
	// A change names a node or a transition; one that names neither is of the definition itself, and is not drawn.
	nodes, edges := map[workflow.NodeID]workflow.ChangeKind{}, map[workflow.TransitionID]workflow.ChangeKind{}
	for _, c := range changes {
		switch {
		case c.Node != "":
			nodes[c.Node] = c.Kind
		case c.Transition != "":
			edges[c.Transition] = c.Kind
		}
	}
	d, was := New(after, run), New(before, run)
	place := map[workflow.NodeID]int{}
	for i := range d.nodes {
		place[d.nodes[i].key] = i
		d.nodes[i].markChange(nodes[d.nodes[i].key])
	}
	for i := range d.edges {
		d.edges[i].markChange(edges[d.edges[i].id])
	}
	for _, n := range was.nodes {
		if nodes[n.key] == workflow.ChangeRemoved {
			// Its edges are those of was, whose places mean nothing here: those that are gone are added below.
			n.outgoing = nil
			n.markChange(workflow.ChangeRemoved)
			place[n.key] = len(d.nodes)
			d.nodes = append(d.nodes, n)
		}
	}
	for _, e := range was.edges {
		if edges[e.id] == workflow.ChangeRemoved {
			// Both ends are there: in after, or among the removed nodes that were added above.
			from, to := place[was.nodes[e.from].key], place[was.nodes[e.to].key]
			e.from, e.to = from, to
			e.markChange(workflow.ChangeRemoved)
			d.nodes[from].outgoing = append(d.nodes[from].outgoing, len(d.edges))
			d.edges = append(d.edges, e)
		}
	}
	return d
}

// markChange notes how a node differs, and says it first of all its marks. With "" it notes that it does not.
func (n *node) markChange(kind workflow.ChangeKind) {
	if n.change = kind; kind != "" {
		n.marks = append([]string{string(kind)}, n.marks...)
	}
}

// markChange notes how an edge differs, and says it before its condition. Colour alone would not do: there are readers who see none.
func (e *edge) markChange(kind workflow.ChangeKind) {
	if e.change = kind; kind == "" {
		return
	}
	e.label = append([]string{string(kind)}, e.label...)
	if e.full != "" {
		e.full = ", " + e.full
	}
	e.full = string(kind) + e.full
}

// changeClass returns the class of what has changed, behind a space.
//
// It is "" of what has not changed, so it can be appended to any class.
func changeClass(kind workflow.ChangeKind) string {
	if kind == "" {
		return ""
	}
	return " " + string(kind)
}
