package soundness_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// TestOpenGroups adds branches to open groups, as many as the join asks for: without them a join behind the branches would seem never to
// be met.
func TestOpenGroups(t *testing.T) {
	for _, transitions := range []string{
		`
  - {from: s, to: room, spawnCount: 2, siblingGroup: outer}
  - {from: room, to: part, foreach: {collection: "[]"}, siblingGroup: parts, open: true}
  - {from: part, to: done, synchronization: {siblingGroup: outer, strategy: any}}`,
		`
  - {from: s, to: part, foreach: {collection: "[]"}, siblingGroup: parts, open: true}
  - {from: part, to: done, synchronization: {siblingGroup: parts, strategy: {mOfN: 3}}}`,
		`
  - {from: s, to: part, spawnCount: 1, siblingGroup: parts, open: true}
  - {from: part, to: done, synchronization: {siblingGroup: parts, strategy: {mOfN: 3}}}`,
		`
  - {from: s, to: part, foreach: {collection: "[{'file': {'size': 7}}].filter(f, input.any)"}, siblingGroup: parts, open: true}
  - {from: part, to: done, condition: item.file.size > 6, synchronization: {siblingGroup: parts}}`,
	} {
		d, err := workflow.ParseYAML([]byte("name: open\nstart: s\nnodes: [{id: s}, {id: room}, {id: part, task: work}, {id: done, task: work}]\ntransitions:" + transitions))
		require.NoError(t, err)
		r, err := soundness.Check(d, soundness.Options{})
		require.NoError(t, err)
		require.Empty(t, r.Bounds, transitions)
		require.Empty(t, r.Faults(), transitions)
	}
}

// TestNestedOpenGroups plays a run in which one of two groups is closed that are alike but for the branches around them.
func TestNestedOpenGroups(t *testing.T) {
	d, err := workflow.ParseYAML([]byte(`
name: nested
start: s
nodes: [{id: s}, {id: room}, {id: shelf}, {id: part}, {id: heard}, {id: done}]
transitions:
  - {from: s, to: room, foreach: {collection: "[1, 2]", as: o}, siblingGroup: rooms}
  - {from: room, to: shelf, spawnCount: 1, siblingGroup: shelves}
  - {from: shelf, to: part, foreach: {collection: "[3]"}, siblingGroup: parts, open: true}
  - {from: part, to: heard, synchronization: {siblingGroup: parts}}
  - {from: heard, to: done, condition: o == 1, synchronization: {siblingGroup: rooms, strategy: {mOfN: 2}}}
`))
	require.NoError(t, err)
	r, err := soundness.Check(d, soundness.Options{})
	require.NoError(t, err)
	require.Len(t, r.Faults(), 1)
	require.Contains(t, r.Faults()[0].Scenario, "closeGroup")
	playScenario(t, r.Faults()[0])
}
