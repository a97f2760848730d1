package workflow_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// What differs is told by id and field; order counts where it decides, and defaults that are written out do not.
func TestCompareDefinitions(t *testing.T) {
	parse := func(text string) *workflow.Definition {
		d, err := workflow.ParseYAML([]byte(text))
		require.NoError(t, err)
		return d
	}
	before := parse(`
name: a
start: x
nodes: [{id: x, task: x}, {id: y, task: y, timeout: 1s}, {id: z, task: z}]
transitions: [{from: x, to: y, condition: "true"}, {from: x, to: z}, {from: y, to: z}]
`)
	after := parse(`
name: a
version: 1
start: x
timeout: 1h
nodes: [{id: new, task: new}, {id: y, task: y, timeout: 2s, heartbeat: 1s}, {id: x, task: x}]
transitions: [{id: late, from: x, to: new}, {from: x, to: y, condition: "false"}]
`)
	got, err := workflow.CompareDefinitions(before, after)
	require.NoError(t, err)
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	require.Equal(t, []workflow.DefinitionChange{
		{Kind: workflow.ChangeChanged, Fields: []workflow.FieldChange{{"timeout", nil, raw(`"1h"`)}}},
		{Kind: workflow.ChangeAdded, Node: "new"},
		{Kind: workflow.ChangeChanged, Node: "y", Fields: []workflow.FieldChange{{"heartbeat", nil, raw(`"1s"`)}, {"timeout", raw(`"1s"`), raw(`"2s"`)}}},
		{Kind: workflow.ChangeAdded, Transition: "late"},
		{Kind: workflow.ChangeChanged, Transition: "x->y", Fields: []workflow.FieldChange{{"condition", raw(`"true"`), raw(`"false"`)}}},
		{Kind: workflow.ChangeRemoved, Node: "z"},
		{Kind: workflow.ChangeRemoved, Transition: "x->z"},
		{Kind: workflow.ChangeRemoved, Transition: "y->z"},
	}, got)

	got, err = workflow.CompareDefinitions(before, before)
	require.NoError(t, err)
	require.Empty(t, got)

	turned := *before
	turned.Transitions = []workflow.Transition{before.Transitions[1], before.Transitions[0], before.Transitions[2]}
	got, err = workflow.CompareDefinitions(before, &turned)
	require.NoError(t, err)
	require.Equal(t, []workflow.DefinitionChange{{Kind: workflow.ChangeChanged, Fields: []workflow.FieldChange{{"order of transitions", raw(`["x->y","x->z","y->z"]`), raw(`["x->z","x->y","y->z"]`)}}}}, got)

	_, err = workflow.CompareDefinitions(nil, before)
	require.NoError(t, err)
	_, err = workflow.CompareDefinitions(before, &workflow.Definition{State: workflow.StateSpec{Initial: map[string]any{"f": func() {}}}})
	require.Error(t, err)
}
