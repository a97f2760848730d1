// Package diagram draws definitions, and how a run of one stands: as SVG, as an outline
// for terminals, and in the languages of Mermaid and Graphviz.
package diagram

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/workflow"
)

// A Diagram is what is to be seen of a definition: its nodes in their order, and its
// transitions. It holds no more of a run than numbers.
type Diagram struct {
	title string // name@version
	run   *Run
	nodes []node
	edges []edge
	start int // -1 in a dag
}

type node struct {
	key      workflow.NodeID
	id       string // key as it is shown
	kind     workflow.Kind
	detail   string   // what its kind says beyond its id; "" if that is nothing
	marks    []string // what else it does
	branch   bool     // there may be one for each branch of a group
	outgoing []int    // edges, in the order in which they are tried
	counts   Tally
	change   workflow.ChangeKind // of a difference
}

type edgeKind int

const (
	plain edgeKind = iota
	onError
	fanOut
	fanIn
)

type edge struct {
	from, to int
	kind     edgeKind
	loop     bool
	label    []string // shortened, a line each
	full     string   // all of it, in one line
	id       workflow.TransitionID
	change   workflow.ChangeKind // of a difference
	never    bool                // no run took it
}

// New makes the diagram of a compiled definition. run, which may be nil, is drawn on it.
func New(g *workflow.Graph, run *Run) *Diagram {
	d := &Diagram{title: fmt.Sprintf("%s@%d", g.Definition.Name, g.Definition.Version), run: run, start: -1}
	place := make(map[workflow.NodeID]int, len(g.Definition.Nodes))
	for i := range g.Definition.Nodes {
		n := g.Nodes[g.Definition.Nodes[i].ID]
		place[n.ID] = i
		d.nodes = append(d.nodes, node{key: n.ID, id: cleanText(string(n.ID)), kind: n.Kind, detail: cleanText(detailOf(n)), marks: marksOf(n)})
		if run != nil {
			d.nodes[i].counts = TallyOf(run.Tokens[n.ID])
		}
		if n.ID == g.Definition.Start {
			d.start = i
		}
	}
	for i := range g.Definition.Nodes {
		n := g.Nodes[g.Definition.Nodes[i].ID]
		for _, t := range slices.Concat(slices.Concat(n.Success...), errorsOnly(n)) {
			d.nodes[i].outgoing = append(d.nodes[i].outgoing, len(d.edges))
			e := d.newEdge(n, t, i, place[t.To])
			if run != nil && run.Taken != nil {
				e.markTaken(run.Taken[t.ID])
			}
			d.edges = append(d.edges, e)
		}
	}
	d.findBranches(g, place)
	return d
}

// errorsOnly returns the transitions that are tried only when the node fails.
func errorsOnly(n *workflow.GraphNode) []*workflow.GraphTransition {
	var out []*workflow.GraphTransition
	for _, t := range slices.Concat(n.Failure...) {
		if t.Outcome == workflow.OnError {
			out = append(out, t)
		}
	}
	return out
}

// findBranches marks the nodes that branches reach: those behind a fan-out, as far as the
// joins.
func (d *Diagram) findBranches(g *workflow.Graph, place map[workflow.NodeID]int) {
	var todo []workflow.NodeID
	reach := func(id workflow.NodeID) {
		if n := &d.nodes[place[id]]; !n.branch {
			n.branch = true
			todo = append(todo, id)
		}
	}
	for i := range g.Definition.Nodes {
		for _, t := range g.Nodes[g.Definition.Nodes[i].ID].Outgoing {
			if t.SpawnCount > 1 || t.Foreach != nil {
				reach(t.To)
			}
		}
	}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, t := range g.Nodes[id].Outgoing {
			if t.Joins == nil {
				reach(t.To)
			}
		}
	}
}

// kindText returns the kind of a node and its detail.
func (n *node) kindText() string {
	if n.kind == workflow.KindGateway && n.detail == "" {
		return ""
	}
	if n.detail == "" {
		return string(n.kind)
	}
	return string(n.kind) + " " + n.detail
}
