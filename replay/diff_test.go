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
