package planning_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A dagNode is a node of a random dag, with what happens there.
type dagNode struct {
	join  workflow.Join
	fails bool
	value int
}

// A dagEdge leads from node to node, to a later one.
type dagEdge struct {
	from, to int
	at       int // it is taken if the value of from is at least that
	outcome  workflow.On
}

// A dagCase is a random dag.
type dagCase struct {
	nodes    []dagNode
	edges    []dagEdge
	failFast bool
}

func drawDAG(t *rapid.T) dagCase {
	c := dagCase{failFast: rapid.Bool().Draw(t, "failFast")}
	failures := rapid.IntRange(0, 3).Draw(t, "failures")
	n := rapid.IntRange(0, 14).Draw(t, "nodes")
	for i := range n {
		in := 0
		for range min(i, rapid.IntRange(0, 4).Draw(t, "in")) {
			c.edges = append(c.edges, dagEdge{
				from: rapid.IntRange(0, i-1).Draw(t, "from"), to: i, at: rapid.IntRange(0, 3).Draw(t, "at"),
				outcome: rapid.SampledFrom([]workflow.On{"", "", "", workflow.OnError, workflow.OnAlways}).Draw(t, "outcome"),
			})
			in++
		}
		join := workflow.JoinNone
		if in > 0 {
			join = rapid.SampledFrom([]workflow.Join{
				workflow.JoinNone, workflow.JoinAll, workflow.JoinAny, workflow.JoinMOfN(1 + i%in),
			}).Draw(t, "join")
		}
		c.nodes = append(c.nodes, dagNode{
			join: join, value: rapid.IntRange(0, 3).Draw(t, "value"),
			fails: rapid.IntRange(0, 9).Draw(t, "fails") < failures,
		})
	}
	return c
}

func (c dagCase) definition() *workflow.Definition {
	d := &workflow.Definition{Name: "dag", Mode: workflow.ModeDAG, FailFast: &c.failFast}
	for i, n := range c.nodes {
		d.Nodes = append(d.Nodes, workflow.Node{ID: dagID(i), Task: "work", Join: n.join})
	}
	for _, e := range c.edges {
		tr := workflow.Transition{From: dagID(e.from), To: dagID(e.to), Outcome: e.outcome}
		switch {
		case e.outcome == workflow.OnError && e.at > 0:
			tr.Condition = fmt.Sprintf("error.code >= 'e%d'", e.at)
		case e.outcome == "":
			tr.Condition = fmt.Sprintf("result >= %d", e.at)
		}
		d.Transitions = append(d.Transitions, tr)
	}
	return d
}

func dagID(i int) workflow.NodeID { return workflow.NodeID(fmt.Sprintf("n%d", i)) }

// A dagModel says by itself what must become of a dag: it looks at every node
// after every end.
type dagModel struct {
	dagCase
	state  []string // "", running, done, skipped
	edge   []string // "", live, dead
	failed bool     // some failure was not handled
	over   bool
}

// taken reports whether an edge is live once its node has ended.
func (m *dagModel) taken(e dagEdge) bool {
	n := m.nodes[e.from]
	switch e.outcome {
	case workflow.OnAlways:
		return true
	case workflow.OnError:
		return n.fails && n.value >= e.at
	case workflow.OnSuccess:
	}
	return !n.fails && n.value >= e.at
}

// end ends a node that runs.
func (m *dagModel) end(i int) {
	m.state[i] = "done"
	live := false
	for k, e := range m.edges {
		if e.from == i {
			m.edge[k] = "dead"
			if m.taken(e) {
				m.edge[k], live = "live", true
			}
		}
	}
	if m.nodes[i].fails && !live {
		m.failed, m.over = true, m.over || m.failFast
		m.skipAfter(i)
	}
	m.spread()
}

func (m *dagModel) skipAfter(i int) {
	for k, e := range m.edges {
		if e.from != i {
			continue
		}
		m.edge[k] = "dead"
		if m.state[e.to] == "" {
			m.state[e.to] = "skipped"
			m.skipAfter(e.to)
		}
	}
}

// spread starts and skips nodes until nothing changes.
func (m *dagModel) spread() {
	for i := 0; i < len(m.nodes) && !m.over; i++ {
		live, open, in := 0, 0, 0
		for k, e := range m.edges {
			if e.to == i {
				in++
				switch m.edge[k] {
				case "live":
					live++
				case "":
					open++
				}
			}
		}
		need, early := 1, false
		if q := m.nodes[i].join.Quorum(); q > 0 {
			need, early = q, true
		}
		switch {
		case m.state[i] != "":
		case in == 0 || live >= need && (early || open == 0):
			m.state[i] = "running"
		case live+open < need:
			m.state[i] = "skipped"
			for k, e := range m.edges {
				if e.from == i {
					m.edge[k] = "dead"
				}
			}
			i = -1 // from the beginning
		}
	}
	if !slices.Contains(m.state, "running") {
		m.over = true
	}
}

// Any dag, whose tasks end in any order, runs what the model says, each node
// once, and ends as it says.
func TestReady(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		c := drawDAG(t)
		g, err := compiled.Compile(workflow.Bounds{}, c.definition())
		if err != nil {
			t.Fatalf("%v", err)
		}
		p := newPlayer(t, g)
		m := &dagModel{dagCase: c, state: make([]string, len(c.nodes)), edge: make([]string, len(c.edges))}
		if _, err := p.send(state.Start{}); err != nil {
			t.Fatalf("%v", err)
		}
		m.spread()
		for p.compare(m); !m.over; p.compare(m) {
			live := p.state.LiveTokens()
			tok := p.state.Token(rapid.SampledFrom(live).Draw(t, "next"))
			var i int
			_, _ = fmt.Sscanf(string(tok.Node), "n%d", &i)
			n := c.nodes[i]
			var msg state.Message = state.TaskCompleted{Token: tok.ID, Attempt: 1, Epoch: epoch0, Output: int64(n.value)}
			if n.fails {
				msg = state.TaskFailed{Token: tok.ID, Attempt: 1, Epoch: epoch0, Failure: workflow.Failure{Code: fmt.Sprintf("e%d", n.value)}}
			}
			if _, err := p.send(msg); err != nil {
				t.Fatalf("%v", err)
			}
			m.end(i)
		}
		p.replay()
	})
}

// compare fails unless a run stands as the model does.
func (p *player) compare(m *dagModel) {
	p.t.Helper()
	if want := m.want(); p.state.Status != want {
		p.t.Fatalf("the run is %v, want %v: %v", p.state.Status, want, m.state)
	}
	made := map[workflow.NodeID]int{}
	for id := workflow.TokenID(1); id < p.state.NextToken; id++ {
		made[p.state.Token(id).Node]++
	}
	for i, want := range m.state {
		x := p.state.Step(dagID(i))
		ran := want == "running" || want == "done"
		if n := made[x.Node]; n > 1 || ran != (n == 1) {
			p.t.Fatalf("%s has %d tokens, want it %q: %v", x.Node, n, want, m.state)
		}
		if (x.Phase == state.StepSkipped) != (want == "skipped") && !m.over {
			p.t.Fatalf("%s is %v, want it %q", x.Node, x.Phase, want)
		}
	}
}

func (m *dagModel) want() workflow.RunStatus {
	switch {
	case !m.over:
		return workflow.RunRunning
	case m.failed:
		return workflow.RunFailed
	}
	return workflow.RunCompleted
}

// large returns a dag of n nodes and about 4.17 transitions per node.
func large(t failer, n int) *compiled.Graph {
	t.Helper()
	d := &workflow.Definition{Name: "large", Mode: workflow.ModeDAG}
	for i := range n {
		d.Nodes = append(d.Nodes, workflow.Node{ID: dagID(i), Task: "work"})
		for k := range 5 {
			if from := i - 1 - (k*k*7+i*k%13)%50; from >= 0 && len(d.Transitions) < n*25/6 {
				d.Transitions = append(d.Transitions, workflow.Transition{From: dagID(from), To: dagID(i)})
			}
		}
	}
	g, err := compiled.Compile(compiled.Boundless(), d)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return g
}

// playDAG completes every task as soon as it is dispatched.
func playDAG(b testing.TB, g *compiled.Graph) *state.State {
	p := newPlayer(b, g)
	p.quick = true
	mustSend(b, p, state.Start{})
	for id := workflow.TokenID(1); id < p.state.NextToken; id++ {
		mustSend(b, p, state.TaskCompleted{Token: id, Attempt: 1, Epoch: epoch0})
	}
	return p.state
}

// BenchmarkDAG plays whole dags. The time per node does not grow with them.
func BenchmarkDAG(b *testing.B) {
	for _, n := range []int{1_000, 60_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := large(b, n)
			perUnit(b, n, "node", func() *state.State { return playDAG(b, g) })
		})
	}
}

// The time per node does not grow with the dag. The bound is generous, for
// machines that do other things too.
func TestDAGIsLinear(t *testing.T) {
	harness.MeasuresTime(t)
	small, big := large(t, 1_000), large(t, 60_000)
	per := func(g *compiled.Graph, rounds int) float64 {
		best := time.Duration(1 << 62)
		for range 3 {
			begun := time.Now()
			for range rounds {
				if s := playDAG(t, g); s.Status != workflow.RunCompleted {
					t.Fatalf("the run is %v: %v", s.Status, s.Failure)
				}
			}
			best = min(best, time.Since(begun))
		}
		return float64(best.Nanoseconds()) / float64(rounds*len(g.Nodes))
	}
	a, b := per(small, 20), per(big, 1)
	t.Logf("%.0f ns per node of 1000, %.0f ns of %d with %d transitions: %.2f", a, b, len(big.Nodes), len(big.Transitions), b/a)
	if b > harness.Figure(12.0, 12.0, 4.0)*a { // of 60 times the nodes
		t.Fatalf("%.0f ns per node of a small dag, %.0f ns of a large one", a, b)
	}
}
