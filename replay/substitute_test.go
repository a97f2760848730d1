package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// changed returns the definition of the order with something else in it.
func changed(t *testing.T, old, new string) *workflow.Definition {
	t.Helper()
	require.Contains(t, order, old)
	d, err := workflow.ParseYAML([]byte(strings.Replace(order, old, new, 1)))
	require.NoError(t, err)
	return d
}

func TestSubstituteOfTheSame(t *testing.T) {
	s, err := replay.Substitute(playOrder(t, "a", 0.9, 1, 2).recording(), changed(t, "version: 3", "version: 4"))
	require.NoError(t, err)
	require.Equal(t, replay.Substitution{Run: "a", Workflow: "order", Version: 3, Records: 6, Was: workflow.RunCompleted, Is: workflow.RunCompleted}, s)
	require.Equal(t, "6 records decide the same", s.String())
}

// TestSubstituteAThreshold asks what a stricter condition would have decided: the run goes
// another way, for which nothing is recorded.
func TestSubstituteAThreshold(t *testing.T) {
	s, err := replay.Substitute(playOrder(t, "a", 0.9, 1, 2).recording(), changed(t, "> 0.8", "> 0.95"))
	require.NoError(t, err)
	require.EqualValues(t, 4, s.Records)
	require.EqualValues(t, 5, s.Difference.Seq)
	require.Equal(t, "create-token t5 node=ship", s.Difference.Was)
	require.Equal(t, "create-token t5 node=approve", s.Difference.Is)
	require.Equal(t, []string{"approve"}, s.Missing)
	require.Equal(t, []string{"ship"}, s.Unused)
	require.Equal(t, []workflow.NodeID{"ship"}, s.OnlyWas)
	require.Equal(t, []workflow.NodeID{"approve"}, s.OnlyIs)
	require.Equal(t, workflow.RunRunning, s.Is)
	require.Contains(t, s.String(), "not recorded at: approve")
}

// TestSubstituteGivesResultsToTheirNodes puts a timer before the fan-out, and lets
// one branch run at a time: tokens have other ids, and attempts other times, and every result
// that was recorded is asked for all the same.
func TestSubstituteGivesResultsToTheirNodes(t *testing.T) {
	d, err := workflow.ParseYAML([]byte(strings.NewReplacer(
		"nodes:\n", "nodes:\n  - {id: pause, wait: {for: 1h}}\n",
		"{from: validate, to: quote, foreach", "{from: validate, to: pause}\n  - {from: pause, to: quote, maxConcurrency: 1, foreach",
	).Replace(order)))
	require.NoError(t, err)
	rec := playOrder(t, "a", 0.9, 1, 2, 3)
	s, err := replay.Substitute(rec.recording(), d)
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Difference.Seq)
	require.Equal(t, workflow.RunCompleted, s.Is, "%v", &s)
	require.Empty(t, s.Missing)
	require.Empty(t, s.Unused)
	require.Empty(t, s.Refused)
	require.Equal(t, []workflow.NodeID{"pause"}, s.OnlyIs)
}

// TestSubstituteOfAWideGroup gives each result to its token without a look at all of them.
func TestSubstituteOfAWideGroup(t *testing.T) {
	d := changed(t, "{from: validate, to: quote, foreach", "{from: validate, to: first}\n  - {from: first, to: quote, foreach")
	d.Nodes = append(d.Nodes, workflow.Node{ID: "first"})
	bytesWith := func(branches int) int64 {
		rec := playOrder(t, "a", 0.9, make([]int, branches)...).recording()
		return bytesOf(func() {
			s, err := replay.Substitute(rec, d)
			require.NoError(t, err)
			require.EqualValues(t, 1, s.Records)
			require.Equal(t, workflow.RunCompleted, s.Is, "%v", &s)
			require.Empty(t, s.Unused)
		})
	}
	few, many := bytesWith(200)/200, bytesWith(2000)/2000
	require.Less(t, many, 2*few, "for each branch")
}

func TestSubstituteAnInvalidDefinition(t *testing.T) {
	_, err := replay.Substitute(playOrder(t, "a", 0.9).recording(), &workflow.Definition{})
	var invalid *workflow.DefinitionError
	require.ErrorAs(t, err, &invalid)
}

// TestSubstituteLetsTimersFireWhenTheyAreDue lets two waits pass before a vote, as they would have.
func TestSubstituteLetsTimersFireWhenTheyAreDue(t *testing.T) {
	const nodes = `
name: a
start: a
nodes: [{id: a, wait: {for: 1h}}, {id: ok, approval: {quorum: 1}}`
	r := record(t, "a", nodes+"]\ntransitions: [{from: a, to: ok}]\n", nil)
	r.now = dawn.Add(time.Hour)
	r.send(state.AlarmFired{At: r.now.UnixMilli()})
	r.now = dawn.Add(5 * time.Hour)
	r.send(state.Ballot{Node: "ok", By: "ann", Approved: true})
	d, err := workflow.ParseYAML([]byte(nodes + ", {id: a2, wait: {for: 1h}}, {id: a3, wait: {for: 1h}}]\ntransitions: [{from: a, to: a2}, {from: a2, to: a3}, {from: a3, to: ok}]\n"))
	require.NoError(t, err)
	s, err := replay.Substitute(r.recording(), d)
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, s.Is, "%v", &s)
	require.Empty(t, s.Refused)
	require.Empty(t, s.Missing)
}
