package simulator

import (
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// wild returns a sound definition with changes that nobody has thought about: it
// is still valid, and may do anything but hang.
func (g *generator) wild(sound *compiled.Graph) *compiled.Graph {
	var out *compiled.Graph
	for range 8 {
		from := sound
		if out != nil {
			from = out
		}
		g.def = copied(from.Definition)
		g.mutate()
		if graph, err := compiled.Compile(workflow.Bounds{}, g.def); err == nil {
			out = graph
		}
	}
	return out
}

// copied returns a definition that may be changed.
func copied(d *workflow.Definition) *workflow.Definition {
	raw, err := d.MarshalJSON()
	if err != nil {
		panic(err)
	}
	out, err := workflow.ParseJSON(raw)
	if err != nil {
		panic(err)
	}
	return out
}

// mutate makes one change.
func (g *generator) mutate() {
	d := g.def
	n := &d.Nodes[g.r.IntN(len(d.Nodes))]
	other := d.Nodes[g.r.IntN(len(d.Nodes))].ID
	switch g.r.IntN(7) {
	case 0:
		n.Join = of(g.r, workflow.JoinNone, workflow.JoinAll, workflow.JoinSynchronize)
	case 1:
		g.edge(n.ID, other, workflow.Transition{Priority: g.r.IntN(2), Condition: of(g.r, "", "result == 1", "result.missing", "count.size() > 0")})
		last := &d.Transitions[len(d.Transitions)-1]
		last.ID = "w" + last.ID
		if d.Mode != workflow.ModeDAG {
			last.Loop = &workflow.Loop{MaxIterations: g.upTo(3)}
		}
	case 2:
		n.Cancels = []workflow.NodeID{other}
	case 3:
		n.Unmatched = workflow.UnmatchedFail
	case 4:
		n.Lock, n.Timeout = "desk", time.Duration(g.upTo(5))*time.Second
	default:
		g.mutateTransition(other)
	}
}

func (g *generator) mutateTransition(other workflow.NodeID) {
	d := g.def
	if len(d.Transitions) == 0 {
		return
	}
	i := g.r.IntN(len(d.Transitions))
	t := &d.Transitions[i]
	switch g.r.IntN(6) {
	case 0:
		t.To = other
	case 1:
		t.From = other
	case 2:
		d.Transitions = slices.Delete(d.Transitions, i, i+1)
	case 3:
		t.Outcome = of(g.r, workflow.OnError, workflow.OnAlways, "")
	case 4:
		t.Synchronization = nil
	case 5:
		t.SpawnCount, t.Foreach = g.upTo(3), nil
	}
}
