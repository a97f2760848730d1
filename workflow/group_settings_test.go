package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

const saidOnce = `
name: x
start: a
groups:
  g: {strategy: {mOfN: 2}, remaining: ignore, timeout: 1h, merge: {target: state.all, strategy: append}}
nodes: [{id: a}, {id: b}, {id: c}, {id: d}]
transitions:
  - {from: a, to: b, siblingGroup: g}
  - {from: a, to: c, siblingGroup: g}
  - {from: b, to: d, synchronization: {siblingGroup: g, merge: {source: "1", target: state.all, strategy: append}}}
  - {from: c, to: d, synchronization: {siblingGroup: g, remaining: ignore}}
`

const saidEachTime = `
name: x
start: a
nodes: [{id: a}, {id: b}, {id: c}, {id: d}]
transitions:
  - {from: a, to: b, siblingGroup: g}
  - {from: a, to: c, siblingGroup: g}
  - {from: b, to: d, synchronization: {siblingGroup: g, strategy: {mOfN: 2}, remaining: ignore, timeout: 1h, merge: {source: "1", target: state.all, strategy: append}}}
  - {from: c, to: d, synchronization: {siblingGroup: g, strategy: {mOfN: 2}, remaining: ignore, timeout: 1h, merge: {target: state.all, strategy: append}}}
`

// Settings that are said once per group are the same definition as settings that are
// said on each of its transitions.
func TestSettingsOfAGroup(t *testing.T) {
	once, err := workflow.ParseYAML([]byte(saidOnce))
	require.NoError(t, err)
	each, err := workflow.ParseYAML([]byte(saidEachTime))
	require.NoError(t, err)
	require.Empty(t, once.Check())
	require.Equal(t, workflow.HashOfDefinition(t, each), workflow.HashOfDefinition(t, once))

	g, err := workflow.Compile(once)
	require.NoError(t, err)
	require.Equal(t, workflow.HashOfDefinition(t, each), g.Hash)
	require.Nil(t, g.Definition.Groups)
	require.Empty(t, g.Definition.Check())
	full, err := compiled.Of(g)
	require.NoError(t, err)
	require.Equal(t, workflow.MOfN(2), full.Groups["g"].Sync.Strategy)
	require.Len(t, once.Groups, 1, "the caller's definition is not modified")
	require.Nil(t, once.Transitions[3].Synchronization.Merge)

	data, err := once.MarshalJSON()
	require.NoError(t, err)
	again, err := workflow.ParseJSON(data)
	require.NoError(t, err)
	require.Equal(t, once.Groups, again.Groups)
	require.Equal(t, workflow.HashOfDefinition(t, each), workflow.HashOfDefinition(t, again))
}
