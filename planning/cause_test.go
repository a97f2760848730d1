package planning_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// The cause of a failure at an end node is what plainLineage finds, which goes through all groups and tokens at each
// step of the way.
func TestCauseOfAnEnd(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		p := newPlayer(t, drawFailingNet(t))
		p.quick, p.failures = true, 8
		for m := state.Message(state.Start{Input: map[string]any{"n": int64(1)}}); ; m = p.draw(t) {
			plan, err := planning.Step(p.state, m, p.now)
			if _, skips := m.(state.Skip); err != nil && skips {
				continue // what follows cannot do with its output
			}
			if err != nil {
				t.Fatalf("%#v: %v", m, err)
			}
			before := p.state.Overlay()
			for _, d := range plan.Decisions {
				if f, ok := d.(decision.FailRun); ok && f.Failure.Node == "failed" {
					l := plainLineage{s: before, seen: map[workflow.TokenID]bool{}}
					require.Equal(t, codeOf(l.causeOf(before.Token(f.Failure.Token))), codeOf(f.Failure.Cause))
				}
				decision.Evolve(before, d)
			}
			before.Discard()
			if _, err := p.send(m); err != nil {
				t.Fatalf("%#v: %v", m, err)
			}
			if p.state.Status.Final() {
				return
			}
		}
	})
}

// codeOf says which failure it is.
func codeOf(f *workflow.Failure) string {
	if f == nil {
		return "none"
	}
	return f.Error()
}

// drawFailingNet draws two nets that meet at the join of a node, again and again, before an end that fails: in one branch or in
// each of three.
func drawFailingNet(t *rapid.T) *compiled.Graph {
	b := &net{t: t, def: workflow.Definition{Name: "net", Limits: workflow.Limits{Tokens: 1500}}}
	start := b.node(workflow.Node{})
	join := workflow.JoinAll
	if b.one("synchronize", 2) {
		join = workflow.JoinSynchronize
	}
	meet := b.node(workflow.Node{Join: join})
	for range 2 {
		in, out := b.block(1 + b.upTo("depth", 2))
		b.edge(start, in, workflow.Transition{})
		b.edge(out, meet, workflow.Transition{})
		if in != out {
			b.edge(in, out, workflow.Transition{Outcome: workflow.OnError, Priority: 1})
		}
	}
	b.def.Nodes = append(b.def.Nodes, workflow.Node{ID: "failed", End: &workflow.EndSpec{Fail: "undone"}})
	b.edge(meet, start, workflow.Transition{Loop: &workflow.Loop{MaxIterations: b.upTo("rounds", 3)}})
	b.edge(meet, "failed", workflow.Transition{Priority: 1})
	b.def.Start = start
	if b.one("branches", 2) {
		b.def.Start = b.node(workflow.Node{})
		b.edge(b.def.Start, start, workflow.Transition{SpawnCount: 3})
	}
	g, err := compiled.Compile(workflow.Bounds{}, &b.def)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return g
}

// A plainLineage looks for what was caught before a token without lists of what has failed or met.
type plainLineage struct {
	s    *state.State
	seen map[workflow.TokenID]bool
}

func (l *plainLineage) causeOf(t *state.Token) *workflow.Failure {
	for t != nil && !l.seen[t.ID] {
		l.seen[t.ID] = true
		if f := l.causeAtJoin(t); f != nil {
			return f
		}
		parent := l.s.Token(t.Parent)
		if parent == nil {
			return nil
		}
		if f := l.causeAt(t, parent); f != nil {
			return f
		}
		t = parent
	}
	return nil
}

func (l *plainLineage) causeAt(t, parent *state.Token) *workflow.Failure {
	if f := l.causeInGroup(parent.ID, workflow.Fired, t.Scope, t); f != nil {
		return f
	}
	if parent.Failure != nil && (parent.Status == workflow.Failed || parent.Status == workflow.TimedOut) {
		if f := l.causeInGroup(parent.Parent, workflow.Broken, parent.Scope, nil); f != nil && parent.Node == l.nodeOf(parent.Parent) {
			return f
		}
		return parent.Failure
	}
	return nil
}

// continues reports whether a token begins at the node behind the join of a group, after all of its branches.
func (l *plainLineage) continues(t *state.Token, g *state.Group) bool {
	for i := range g.Total {
		if g.TokenOf(i) >= t.ID {
			return false
		}
	}
	return slices.ContainsFunc(l.s.Graph.Definition.Transitions, func(x workflow.Transition) bool {
		return x.Synchronization != nil && x.Synchronization.SiblingGroup == g.Name && x.To == t.Node
	})
}

func (l *plainLineage) nodeOf(id workflow.TokenID) workflow.NodeID {
	if t := l.s.Token(id); t != nil {
		return t.Node
	}
	return ""
}

func (l *plainLineage) causeInGroup(origin workflow.TokenID, phase workflow.Phase, around workflow.Scope, next *state.Token) *workflow.Failure {
	for id := l.s.NextGroup - 1; id > 0; id-- {
		g := l.s.Group(id)
		if g.Origin != origin || g.Phase != phase || g.Scope != around || g.Failed == 0 || next != nil && !l.continues(next, g) {
			continue
		}
		for i := range g.Total {
			if b := l.s.Branch(workflow.Scope{Group: id, Branch: i}); b.Status == state.BranchFailed {
				return b.Failure
			}
		}
	}
	return nil
}

func (l *plainLineage) causeAtJoin(t *state.Token) *workflow.Failure {
	if n := l.s.Graph.Node(t.Node); n.Join == workflow.JoinNone || l.nodeOf(t.Parent) != t.Node {
		return nil
	}
	met := []*state.Token{}
	for id := t.ID - 1; id > 0; id-- {
		x := l.s.Token(id)
		if x.Node != t.Node || x.Scope != t.Scope || x.Status != workflow.Completed {
			continue
		}
		if l.nodeOf(x.Parent) == t.Node {
			break
		}
		met = append(met, x)
	}
	for i := len(met) - 1; i >= 0; i-- {
		if f := l.causeOf(met[i]); f != nil {
			return f
		}
	}
	return nil
}

// TestCauseFarBack: to find what was caught before 20,000 rounds costs a fraction of what the rounds have cost.
func TestCauseFarBack(t *testing.T) {
	harness.MeasuresTime(t)
	p := newPlayer(t, compile(t, `
name: x
start: f
nodes: [{id: f, task: work}, {id: a}, {id: b}, {id: c}, {id: w, task: work}, {id: z, end: {fail: undone}}]
transitions:
  - {from: f, to: a, outcome: error}
  - {from: a, to: b, siblingGroup: g}
  - {from: b, to: c, synchronization: {siblingGroup: g}}
  - {from: c, to: a, loop: {maxIterations: 20000}}
  - {from: c, to: w, priority: 1}
  - {from: w, to: z}
`))
	p.quick = true
	_, err := p.send(state.Start{})
	require.NoError(t, err)
	begin := time.Now()
	_, err = p.send(state.TaskFailed{Token: 1, Attempt: 1, Epoch: epoch0, Failure: workflow.Failure{Code: "gone", Permanent: true}})
	require.NoError(t, err)
	made := time.Since(begin)

	begin = time.Now()
	require.NoError(t, p.complete(p.state.NextToken-1, nil))
	found := time.Since(begin)
	require.Equal(t, "gone", p.state.Failure.Cause.Code)
	require.Less(t, found, made)
	t.Log(made, found)
}
