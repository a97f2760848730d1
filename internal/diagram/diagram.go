// Package diagram draws definitions, and how a run of one stands: as SVG, as an outline
// for terminals, and in the languages of Mermaid and Graphviz.
package diagram

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// A Diagram is what is to be seen of a definition: its nodes in their order, and its
// transitions. It holds no more of a run than numbers.
//
// It is made once, by New or NewDifference, and only read afterwards: any number of goroutines may draw it. Nodes and edges are known by
// their places in nodes and edges; each edge is in outgoing of the node from which it leads, and nowhere else. start is the place
// of the node where runs begin. run is nil if no run is drawn.
type Diagram struct {
	title string // name@version
	run   *Run
	nodes []node
	edges []edge
	start int // -1 in a dag
}

// A node is a node of the definition, with all texts ready to be shown: cleanText has made one line of each. key is as the definition has
// it, for links and for the attribute data-node. counts are those of run, all 0 without one. change is "" unless the diagram is
// that of a difference.
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

// An edgeKind says how an edge looks. An edge that both fans out and joins looks like a join, because newEdge sets that last.
type edgeKind int

const (
	plain edgeKind = iota
	onError
	fanOut
	fanIn
)

// An edge is a transition. from and to are places in Diagram.nodes. loop says that the definition declares it as one, with a bound: it need
// not be the edge that the layout turns around. label is in the drawing, and full in titles and outlines; both are empty if there is
// nothing to be said. never is only set if it was counted what runs took.
type edge struct {
	from, to int
	kind     edgeKind
	loop     bool
	label    []string // shortened, a line each
	full     string   // all of it, in one line
	id       workflow.TransitionID
	change   workflow.ChangeKind // of a difference
	never    bool                // no run took it
	share    int                 // of the runs that took it, in steps from 1 to shares; 0 if nobody has counted
}

// New makes the diagram of a compiled definition. run, which may be nil, is drawn on it.
func New(g *compiled.Graph, run *Run) *Diagram {
	d := &Diagram{title: fmt.Sprintf("%s@%d", g.Definition.Name, g.Definition.Version), run: run, start: -1}
	place := make(map[workflow.NodeID]int, len(g.Definition.Nodes))
	// The order is that of the definition, which is the order in which its author thinks, and does not depend on a map.
	for i := range g.Definition.Nodes {
		n := g.Nodes[g.Definition.Nodes[i].ID]
		place[n.ID] = i
		d.nodes = append(d.nodes, node{key: n.ID, id: cleanText(string(n.ID)), kind: n.Kind, detail: cleanText(detailOf(n)), marks: marksOf(n)})
		if run != nil {
			d.nodes[i].counts = TallyOf(run.Tokens[n.ID])
			if run.Reached != nil {
				d.nodes[i].marks = append(d.nodes[i].marks, run.reachedText(n.ID))
			}
			if text := run.Reported[n.ID]; text != "" {
				d.nodes[i].marks = append(d.nodes[i].marks, cleanText(text))
			}
		}
		if n.ID == g.Definition.Start {
			d.start = i
		}
	}
	// The edges come after all nodes, since they are known by the places of these. First are those that are tried when the node
	// succeeds, tier by tier, then those that are only for its failure: one that is for both is in both lists of the graph, and is
	// drawn once.
	for i := range g.Definition.Nodes {
		n := g.Nodes[g.Definition.Nodes[i].ID]
		for _, t := range slices.Concat(slices.Concat(n.Success...), errorsOnly(n)) {
			d.nodes[i].outgoing = append(d.nodes[i].outgoing, len(d.edges))
			e := d.newEdge(n, t, i, place[t.To])
			if run != nil && run.Taken != nil {
				e.markTaken(run.Taken[t.ID], run.Counted)
			}
			d.edges = append(d.edges, e)
		}
	}
	// Which nodes branches reach depends on all transitions.
	d.findBranches(g, place)
	return d
}

// errorsOnly returns the transitions that are tried only when the node fails.
//
// A transition for all outcomes is among Success and Failure; New has it from Success.
func errorsOnly(n *compiled.Node) []*compiled.Transition {
	var out []*compiled.Transition
	for _, t := range slices.Concat(n.Failure...) {
		if t.Outcome == workflow.OnError {
			out = append(out, t)
		}
	}
	return out
}

// findBranches marks the nodes that branches reach: those behind a fan-out, as far as the
// joins.
//
// Branches of an inner fan-out that join are back in the outer branch, but that transition is not followed: its target is then marked only
// if something else leads there. The mark is for the eye, and nothing decides by it.
func (d *Diagram) findBranches(g *compiled.Graph, place map[workflow.NodeID]int) {
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
	// The nodes that are reached from these belong to the branch as well, up to a transition that joins.
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
//
// For a gateway without a detail it is "", since its shape says all there is.
func (n *node) kindText() string {
	if n.kind == workflow.KindGateway && n.detail == "" {
		return ""
	}
	if n.detail == "" {
		return string(n.kind)
	}
	return string(n.kind) + " " + n.detail
}
