package planning

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// How the nodes of a dag become ready. Each node runs at most once. A transition is
// resolved when the node that it leaves has ended: it is then taken, or dead. By
// default a node starts when all its incoming transitions are resolved and one of
// them was taken; with any or mOfN(n), when enough were taken. When that can no
// longer happen the node is skipped, and the transitions that leave it are dead in
// turn. This is in-degree counting, as in Kahn's algorithm.

// isDAG reports whether nodes become ready by their incoming transitions, and
// each runs at most once.
func (p *planner) isDAG() bool { return p.s.Graph.Definition.Mode == workflow.ModeDAG }

// startRootNodes starts every node of a dag to which nothing leads. In definition order, like
// everything that begins together.
func (p *planner) startRootNodes() {
	g := p.s.Graph
	for i := range g.Definition.Nodes {
		if n := g.Node(g.Definition.Nodes[i].ID); len(n.Incoming) == 0 {
			p.startNode(n, state.Token{})
		}
	}
}

// startNode puts the one token of a node on it, with the parent and the caught failure of t.
// The step is noted as started first, so that no later resolution in the same plan starts it
// again. A node of a dag begins without a result: it asks for those of others by nodes.
func (p *planner) startNode(n *compiled.Node, t state.Token) {
	t.Node = n.ID
	p.decide(decision.StartStep{Node: n.ID})
	p.createToken(t, nil)
}

// resolveOutgoing resolves the transitions that leave the node of a token that has ended:
// those that match are taken, the others are dead. No match at all makes all of them dead,
// which is no error: what follows is skipped.
func (p *planner) resolveOutgoing(matches []match, v vars) {
	d := decision.EndStep{Node: v.token.Node}
	if d.All = len(matches) > 0 && len(matches) == len(p.s.Graph.Node(d.Node).Outgoing); !d.All {
		for i := range matches {
			d.Taken = append(d.Taken, matches[i].ID)
		}
	}
	p.endNode(d, v)
}

// endNode resolves the transitions that leave a node. Where that decides the join
// of the next node, it starts or is skipped; a skipped node resolves what leaves it
// in turn. A node that starts now, and to which an error transition of the node that ended
// leads, begins with its failure.
//
// v has the token that ended, the parent of the tokens that begin, and the failure that
// its error transitions have caught. A failure that was caught before on another way to a node
// is in nodes alone. Up to version 5 only a node with a single incoming transition began with a
// failure.
func (p *planner) endNode(d decision.EndStep, v vars) {
	p.decide(d)
	behind := p.nodesBehindFailure(d, v)
	work := []*compiled.Node{p.s.Graph.Node(d.Node)}
	for len(work) > 0 && !p.hasStopped() {
		from := work[len(work)-1]
		work = work[:len(work)-1]
		for _, t := range from.Outgoing {
			n := p.s.Graph.Node(t.To)
			switch p.readinessOf(n) {
			case nodeRuns:
				next := state.Token{Parent: v.token.ID}
				if behind[n.ID] && (len(n.Incoming) == 1 || p.planLike() >= 6) {
					next.Caught = v.caught
				}
				p.startNode(n, next)
			// It goes on from there at once, by a list of its own and not by recursion: a
			// chain of skipped nodes may be as long as the graph.
			case nodeSkipped:
				p.decide(decision.EndStep{Node: n.ID, Skipped: true})
				work = append(work, n)
			case nodeWaits:
			}
		}
	}
}

// nodesBehindFailure returns the nodes to which the transitions lead that have caught the failure of a node; nil if it
// has not failed.
func (p *planner) nodesBehindFailure(d decision.EndStep, v vars) map[workflow.NodeID]bool {
	if v.caught == nil {
		return nil
	}
	out := map[workflow.NodeID]bool{}
	for _, id := range d.Taken {
		out[p.s.Graph.Transition(id).To] = true
	}
	if d.All {
		for _, t := range p.s.Graph.Node(d.Node).Outgoing {
			out[t.To] = true
		}
	}
	return out
}

// A readiness says what becomes of a node of a dag.
type readiness uint8

const (
	nodeWaits readiness = iota // or has been decided before
	nodeRuns
	nodeSkipped
)

// readinessOf returns whether a node runs, is skipped or waits, given the incoming
// transitions that are resolved so far.
//
// A quorum of 0 is join: all. Say that three transitions lead to a node with a quorum of 2:
// it runs when the second of them is taken, and is skipped when the second is dead.
func (p *planner) readinessOf(n *compiled.Node) readiness {
	x := p.s.Step(n.ID)
	quorum, open := n.Join.Quorum(), len(n.Incoming)-x.Resolved
	switch {
	case x.Phase != state.StepWaiting:
		return nodeWaits
	case quorum > 0 && x.Live >= quorum:
		return nodeRuns
	case quorum > 0 && x.Live+open < quorum:
		return nodeSkipped
	case quorum > 0 || open > 0:
		return nodeWaits
	case x.Live > 0:
		return nodeRuns
	}
	return nodeSkipped
}

// failNode ends a node whose failure nothing catches: at once the run fails, or,
// without failFast, what can be reached from the node and has not begun is
// skipped, and the run fails when the rest of it has ended.
//
// Only the first failure is kept for the end. Nodes that can be reached are skipped whatever
// their join says, also one with any that another branch could still meet.
func (p *planner) failNode(f *workflow.Failure) {
	if p.s.Graph.FailFast {
		p.failRun(*f)
		return
	}
	if p.s.Deferred == nil {
		p.decide(decision.DeferFailure{Failure: *f})
	}
	p.decide(decision.EndStep{Node: f.Node})
	work := []*compiled.Node{p.s.Graph.Node(f.Node)}
	for len(work) > 0 && !p.hasStopped() {
		from := work[len(work)-1]
		work = work[:len(work)-1]
		for _, t := range from.Outgoing {
			if p.s.Step(t.To).Phase == state.StepWaiting {
				p.decide(decision.EndStep{Node: t.To, Skipped: true})
				work = append(work, p.s.Graph.Node(t.To))
			}
		}
	}
}

// nodeCancelled resolves the transitions that leave the node of a token that was cancelled:
// all are dead. The step has ended, so that nodes with another live transition may still run;
// a cancel is no failure.
func (p *planner) nodeCancelled(id workflow.TokenID) {
	t := p.s.Token(id)
	p.endNode(decision.EndStep{Node: t.Node}, vars{token: t})
}
