package planning_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// unmetJoins are the transitions that the incidents of a run were about, by the node from which they lead, with the
// first token that was made afterwards.
type unmetJoins struct {
	graph *compiled.Graph // a patch may bring what could not come before
	since map[workflow.NodeID]workflow.TokenID
}

// check fails if a token has come to where an incident said that none comes any more.
func (u *unmetJoins) check(p *player) {
	if u.graph != p.state.Graph {
		*u = unmetJoins{p.state.Graph, map[workflow.NodeID]workflow.TokenID{}}
	}
	for id := workflow.TokenID(1); len(u.since) > 0 && id < p.state.NextToken; id++ {
		if since := u.since[p.state.Token(id).Node]; since != 0 && id >= since {
			p.t.Fatalf("%v has come to %q after an incident that says that nothing does", id, p.state.Token(id).Node)
		}
	}
	f := p.state.FailureOrIncident()
	if f == nil || f.Code != workflow.CodeJoinUnmet {
		return
	}
	for _, tr := range p.state.Graph.Node(f.Node).Incoming {
		if strings.Contains(f.Message, "lacks "+string(tr.ID)+",") && u.since[tr.From] == 0 {
			u.since[tr.From] = p.state.NextToken
		}
	}
}

// A run whose join can no longer be met has an incident as long as it goes on, and ends as before.
func TestIncidentOfAJoin(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: r
start: begin
nodes:
  - {id: begin}
  - {id: a, task: a}
  - {id: b, task: b}
  - {id: both, task: both, join: all}
  - {id: away}
  - {id: other, wait: {event: done}}
transitions:
  - {from: begin, to: a}
  - {from: begin, to: b}
  - {from: begin, to: other}
  - {from: a, to: both}
  - {from: b, to: both, condition: result == 1}
  - {from: b, to: away, priority: 1}
`))
	_, err := p.send(state.Start{})
	require.NoError(t, err)
	require.NoError(t, p.complete(2, nil))
	require.Nil(t, p.state.FailureOrIncident(), "b may still come")
	_, err = p.send(state.Pause{})
	require.NoError(t, err)
	require.NoError(t, p.complete(3, int64(2)))
	_, err = p.send(state.Resume{})
	require.NoError(t, err)
	want := &workflow.Failure{Code: workflow.CodeJoinUnmet, Node: "both", Message: "its join lacks b->both, which nothing in the run can bring any more"}
	require.Equal(t, want, p.state.FailureOrIncident())
	require.Nil(t, p.state.Failure, "planners do not see it")
	require.Equal(t, want, state.Restore(p.graph, p.state.AllRows()).FailureOrIncident())
	require.Nil(t, p.state.Overlay().FailureOrIncident())
	_, err = p.send(state.Signal{Name: "done"})
	require.NoError(t, err)
	require.Equal(t, workflow.CodeDeadlock, p.state.FailureOrIncident().Code)
}

// drawJoins draws a graph of tasks in layers, which a branch that waits for ever keeps from ending: each node leads to
// some of the next ones, by a choice or at once, and some of these need all that leads to them.
func drawJoins(t *rapid.T) *compiled.Graph {
	d := &workflow.Definition{Name: "joins", Start: "begin", Nodes: []workflow.Node{{ID: "begin"}, {ID: "other", Wait: &workflow.WaitSpec{Event: "done"}}}}
	lead := func(from, to workflow.NodeID, condition string, priority int) {
		d.Transitions = append(d.Transitions, workflow.Transition{From: from, To: to, Condition: condition, Priority: priority})
	}
	lead("begin", "other", "", 0)
	n := rapid.IntRange(3, 8).Draw(t, "nodes")
	name := func(i int) workflow.NodeID { return workflow.NodeID(fmt.Sprint("n", i)) }
	leads := make([]int, n+1) // transitions that lead to a node
	for i := range n {
		if i < 3 {
			lead("begin", name(i), "", 0)
			leads[i]++
		}
		for k := range rapid.IntRange(0, 3).Draw(t, "transitions") {
			if i+1+k >= n {
				break
			}
			choice := rapid.SampledFrom([]string{"", "result == 1", "result == 2"}).Draw(t, "condition")
			lead(name(i), name(i+1+k), choice, 0)
			leads[i+1+k]++
		}
		lead(name(i), "end", "", 1)
	}
	for i := range n {
		x := workflow.Node{ID: name(i), Task: "work"}
		if leads[i] > 1 && rapid.Bool().Draw(t, "all") {
			x.Join = workflow.JoinAll
		}
		if leads[i] > 0 {
			d.Nodes = append(d.Nodes, x)
		}
	}
	d.Nodes = append(d.Nodes, workflow.Node{ID: "end"})
	kept := map[workflow.NodeID]bool{}
	for _, x := range d.Nodes {
		kept[x.ID] = true
	}
	d.Transitions = slices.DeleteFunc(d.Transitions, func(tr workflow.Transition) bool { return !kept[tr.From] || !kept[tr.To] })
	g, err := compiled.Compile(workflow.Bounds{}, d)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return g
}

// TestIncidentsAreWhatTheTokensSay completes the tasks of random graphs in any order. The player compares the incident
// that the state tells after each message with what is counted anew.
func TestIncidentsAreWhatTheTokensSay(t *testing.T) {
	unmet := 0
	rapid.Check(t, func(t *rapid.T) {
		p := newPlayer(t, drawJoins(t))
		if _, err := p.send(state.Start{}); err != nil {
			t.Fatalf("%v", err)
		}
		for !p.state.Status.Final() {
			var tasks []workflow.TokenID
			for _, id := range p.state.LiveTokens() {
				if p.state.Token(id).Status == workflow.Dispatched {
					tasks = append(tasks, id)
				}
			}
			if len(tasks) == 0 {
				break
			}
			if err := p.complete(rapid.SampledFrom(tasks).Draw(t, "task"), rapid.Int64Range(1, 2).Draw(t, "result")); err != nil {
				t.Fatalf("%v", err)
			}
			if p.state.FailureOrIncident() != nil {
				unmet++
			}
		}
	})
	if unmet == 0 {
		t.Error("no join was ever unmet")
	}
}
