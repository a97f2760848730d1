package replay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// TestDiffIgnoresTheOrderOfParallelResults compares two runs that were given the same, in
// another order.
func TestDiffIgnoresTheOrderOfParallelResults(t *testing.T) {
	play := func(id workflow.RunID, first, second int) *replay.Recording {
		r := record(t, id, order, map[string]any{"of": []any{int64(0), int64(1)}})
		r.complete("validate", 0, nil)
		prices := []int64{12, 7}
		r.complete("quote", first, map[string]any{"price": prices[first]})
		r.complete("quote", 0, map[string]any{"price": prices[second]})
		r.complete("check", 0, map[string]any{"score": 0.5})
		return r.recording()
	}
	c, err := replay.Diff(play("a", 0, 1), play("b", 1, 0))
	require.NoError(t, err)
	require.False(t, c.Differs(), "%v", c)
	require.Equal(t, 5, c.Equal, "four nodes and a join")
}

func TestDiffFindsThePlace(t *testing.T) {
	c, err := replay.Diff(playOrder(t, "a", 0.9, 1, 2, 3).recording(), playOrder(t, "b", 0.7, 1, 2, 4).recording())
	require.NoError(t, err)
	require.Equal(t, "check", c.Parting.Place)
	require.Equal(t, "completed, takes check->ship [tier 0]", c.Parting.A.Text)
	require.Equal(t, "completed, takes check->approve [tier 1]", c.Parting.B.Text)
	require.Equal(t, []workflow.NodeID{"ship"}, c.OnlyA)
	require.Equal(t, []workflow.NodeID{"approve"}, c.OnlyB)
	require.Equal(t, &replay.ValueDifference{Place: "quote[2] result.price", SeqA: 5, SeqB: 5, A: int64(3), B: int64(4)}, c.Value)
}

// TestDiffOfARunThatIsBehind compares a run with one that has not come as far.
func TestDiffOfARunThatIsBehind(t *testing.T) {
	whole, part := playOrder(t, "a", 0.5, 1), playOrder(t, "b", 0.5, 1)
	part.records = part.records[:3]
	for _, c := range []struct{ a, b *recorder }{{whole, part}, {part, whole}} {
		got, err := replay.Diff(c.a.recording(), c.b.recording())
		require.NoError(t, err)
		require.Equal(t, "check", got.Parting.Place)
		require.Nil(t, got.Value)
		require.True(t, got.Parting.A == nil || got.Parting.B == nil)
		require.Contains(t, got.String(), "has not come to an end there")
	}
}

func TestCoverage(t *testing.T) {
	var c replay.Coverage
	require.NoError(t, c.Add(playOrder(t, "a", 0.9, 1, 2).recording()))
	d := c.Definitions()
	require.Len(t, d, 1)
	require.Equal(t, []string{
		"transition check->approve [tier 1] was never taken",
		"transition ship->refund [error tier 0] was never taken",
		"node approve was never reached",
		"node refund was never reached",
	}, d[0].Never())
	require.NoError(t, c.Add(playOrder(t, "b", 0.1).recording()), "no branches")
	r := record(t, "c", order, map[string]any{"of": []any{}})
	r.complete("validate", 0, nil)
	r.complete("check", 0, map[string]any{"score": 0.95})
	r.fail("ship", "lost")
	require.NoError(t, c.Add(r.recording()))
	d = c.Definitions()
	require.Equal(t, 3, d[0].Runs)
	require.Empty(t, d[0].Never())
	require.Equal(t, replay.TransitionCoverage{Transition: "validate->quote", Node: "validate", Taken: 3, Branches: 2, Empty: 2}, withoutFlags(d[0].Transitions[0]))
	require.Equal(t, 3, d[0].Joins[0].Fired)
}

// TestCoverageOfChoices counts what an expression chose, not the attempts that it was chosen for.
func TestCoverageOfChoices(t *testing.T) {
	r := record(t, "a", `
name: agent
start: act
nodes: [{id: act, taskExpr: input.tool, tasks: [search, count, sum], retry: {maxAttempts: 2}}]
`, map[string]any{"tool": "count"})
	r.fail("act", "busy")
	r.now = r.now.Add(time.Minute)
	r.send(state.AlarmFired{})
	r.complete("act", 0, nil)
	var c replay.Coverage
	require.NoError(t, c.Add(r.recording()))
	d := c.Definitions()[0]
	require.Equal(t, []replay.ChoiceCoverage{{Name: "search"}, {Name: "count", Chosen: 1}, {Name: "sum"}}, d.Nodes[0].Choices)
	require.Equal(t, []string{"node act never chose search", "node act never chose sum"}, d.Never())
}

// TestCoverageOfADAG tells of no join that has not fired: in a dag each node waits for what it needs, and none does so by a join.
func TestCoverageOfADAG(t *testing.T) {
	r := record(t, "a", `
name: build
mode: dag
nodes: [{id: compile, task: t}, {id: lint, task: t}, {id: ship, task: t, needs: [compile, lint], join: all}]
`, nil)
	for _, node := range []workflow.NodeID{"compile", "lint", "ship"} {
		r.complete(node, 0, nil)
	}
	var c replay.Coverage
	require.NoError(t, c.Add(r.recording()))
	require.Empty(t, c.Definitions()[0].Never())
}

func withoutFlags(t replay.TransitionCoverage) replay.TransitionCoverage {
	return replay.TransitionCoverage{Transition: t.Transition, Node: t.Node, Tier: t.Tier, Taken: t.Taken, Branches: t.Branches, Empty: t.Empty}
}

// TestStepper shows records in any order: each looks the same however one came there.
func TestStepper(t *testing.T) {
	prices := make([]int, 300) // more than lie between two states to go back to
	r := playOrder(t, "a", 0.9, prices...)
	s, err := replay.NewStepper(r.recording())
	require.NoError(t, err)
	require.EqualValues(t, 304, s.Len())
	var frames []string
	for seq := range s.Len() {
		f, err := s.At(seq + 1)
		require.NoError(t, err)
		frames = append(frames, f.String())
	}
	require.Equal(t, 1, s.Kept(), "a step back need not begin at the first")
	for _, seq := range []int64{304, 1, 300, 299, 258, 257, 256, 255, 2, 301} {
		f, err := s.At(seq)
		require.NoError(t, err)
		require.Equal(t, frames[seq-1], f.String())
	}
	_, err = s.At(305)
	require.EqualError(t, err, "there is no record 305: the run has records 1 to 304")
	var wrong *replay.RecordError
	require.ErrorAs(t, err, &wrong)
}

// TestStepperOfALongRun keeps few states of it, and still goes back.
func TestStepperOfALongRun(t *testing.T) {
	r := record(t, "a", order, map[string]any{"of": []any{}})
	for seq := range int64(50_000) {
		r.records = append(r.records, decision.Record{Seq: seq + 2, At: dawn, Epoch: 7, Message: state.Heartbeat{Token: 1, Attempt: 1, Epoch: 7}})
	}
	s, err := replay.NewStepper(r.recording())
	require.NoError(t, err)
	for _, seq := range []int64{50_001, 49_999, 4096, 2, 50_001} {
		f, err := s.At(seq)
		require.NoError(t, err)
		require.Equal(t, seq, f.Seq)
		require.Len(t, f.Tokens, 1)
		require.LessOrEqual(t, s.Kept(), 32)
	}
	require.GreaterOrEqual(t, s.Kept(), 16)
}

// Every value that a run was given is compared, by where it came to.
func TestDiffOfGivenValues(t *testing.T) {
	const approvals = `
name: a
start: split
nodes: [{id: split}, {id: a, approval: {quorum: 1}}, {id: b, approval: {quorum: 1}}]
transitions: [{from: split, to: a}, {from: split, to: b}]
`
	const tasks = `
name: a
start: split
nodes: [{id: split}, {id: a, task: work}, {id: b, task: work}]
transitions: [{from: split, to: a}, {from: split, to: b}]
`
	const open = `
name: a
start: split
nodes: [{id: split}, {id: part, task: work}, {id: sum, task: work}]
transitions:
  - {from: split, to: part, foreach: {collection: input.of, as: of}, siblingGroup: parts, open: true}
  - {from: part, to: sum, synchronization: {siblingGroup: parts}}
`
	vote := func(node workflow.NodeID, data any) state.Message {
		return state.Ballot{Node: node, By: "ann", Approved: true, Data: data}
	}
	skip := func(node workflow.NodeID, output any) state.Message { return state.Skip{Node: node, Output: output} }
	add := func(item any) state.Message { return state.AddBranch{Group: "parts", Item: item} }
	tests := map[string]struct {
		definition string
		a, b       []state.Message
		place      string
	}{
		"votes in another order":   {approvals, []state.Message{vote("a", nil), vote("b", "x")}, []state.Message{vote("b", "x"), vote("a", nil)}, ""},
		"data of a vote":           {approvals, []state.Message{vote("a", "x")}, []state.Message{vote("a", "y")}, "a vote of ann data"},
		"results in another order": {tasks, []state.Message{skip("a", "x"), skip("b", "y")}, []state.Message{skip("b", "y"), skip("a", "x")}, ""},
		"a result":                 {tasks, []state.Message{skip("b", "x")}, []state.Message{skip("b", "y")}, "b result"},
		"null and nothing":         {tasks, []state.Message{skip("b", map[string]any{"a": nil})}, []state.Message{skip("b", map[string]any{})}, "b result"},
		"an item":                  {open, []state.Message{add("x"), add("y")}, []state.Message{add("x"), add("z")}, "the branches of split, group parts added item (2)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			play := func(messages []state.Message) *replay.Recording {
				r := record(t, "a", tt.definition, map[string]any{"of": []any{}})
				for _, m := range messages {
					r.send(m)
				}
				return r.recording()
			}
			c, err := replay.Diff(play(tt.a), play(tt.b))
			require.NoError(t, err)
			place := ""
			if c.Value != nil {
				place = c.Value.Place
			}
			require.Equal(t, tt.place, place, "%v", c)
		})
	}
}

// A panic over the records of the second run names the second.
func TestDiffNamesWhichIsDamaged(t *testing.T) {
	good := playOrder(t, "good", 0.9, 1)
	bad := replay.New("bad", good.graph, func(func(decision.Record, error) bool) { panic("no such token") })
	_, err := replay.Diff(good.recording(), bad)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, `run "bad": `)
	_, err = replay.Diff(bad, good.recording())
	require.ErrorContains(t, err, `run "bad": `)
}

// A run does not part from itself where one node has begun several fan-outs.
func TestDiffOfSeveralFanOutsOfANode(t *testing.T) {
	r := record(t, "a", `
name: two
start: split
nodes: [{id: split}, {id: a, task: work}, {id: b, task: work}, {id: c, task: work}, {id: d, task: work}]
transitions:
  - {from: split, to: a, spawnCount: 2, siblingGroup: left}
  - {from: split, to: b, spawnCount: 3, siblingGroup: right}
  - {from: a, to: c, synchronization: {siblingGroup: left}}
  - {from: b, to: d, synchronization: {siblingGroup: right}}
`, nil)
	for _, node := range []workflow.NodeID{"a", "a", "b", "b", "b"} {
		r.complete(node, 0, nil)
	}
	c, err := replay.Diff(r.recording(), r.recording())
	require.NoError(t, err)
	require.False(t, c.Differs(), "%v", c)
	other := *r
	other.records = r.records[:len(r.records)-1]
	c, err = replay.Diff(r.recording(), other.recording())
	require.NoError(t, err)
	require.Equal(t, "b[2]", c.Parting.Place)
	other.records = r.records[:2]
	c, err = replay.Diff(r.recording(), other.recording())
	require.NoError(t, err)
	require.Contains(t, c.String(), "they part at a[1]")
}
