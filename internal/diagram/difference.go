package diagram

import "github.com/pawl-run/pawl/workflow"

// NewDifference makes the diagram of a definition and of what it has no more of what it was before. What changes says, which
// CompareDefinitions has returned, is marked in words, and in the classes added, removed and changed. run, which may be nil, is drawn on it.
func NewDifference(before, after *workflow.Graph, changes []workflow.DefinitionChange, run *Run) *Diagram {
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
			n.outgoing = nil
			n.markChange(workflow.ChangeRemoved)
			place[n.key] = len(d.nodes)
			d.nodes = append(d.nodes, n)
		}
	}
	for _, e := range was.edges {
		if edges[e.id] == workflow.ChangeRemoved {
			from, to := place[was.nodes[e.from].key], place[was.nodes[e.to].key]
			e.from, e.to = from, to
			e.markChange(workflow.ChangeRemoved)
			d.nodes[from].outgoing = append(d.nodes[from].outgoing, len(d.edges))
			d.edges = append(d.edges, e)
		}
	}
	return d
}

func (n *node) markChange(kind workflow.ChangeKind) {
	if n.change = kind; kind != "" {
		n.marks = append([]string{string(kind)}, n.marks...)
	}
}

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
func changeClass(kind workflow.ChangeKind) string {
	if kind == "" {
		return ""
	}
	return " " + string(kind)
}
