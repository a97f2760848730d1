package workflow_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// Differences are told by id and field; order counts where it decides, and defaults that are written out do not.
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

// Parts that their ids do not tell apart are refused: a difference between them would not be seen.
func TestCompareAmbiguousDefinitions(t *testing.T) {
	for _, d := range []*workflow.Definition{
		{Nodes: []workflow.Node{{ID: "a", Task: "x"}, {ID: "a", Task: "y"}}},
		{Nodes: []workflow.Node{{Task: "x"}}},
		{Transitions: []workflow.Transition{{ID: "t", From: "a", To: "b"}, {ID: "t", From: "b", To: "a"}}},
	} {
		_, err := workflow.CompareDefinitions(d, nil)
		require.ErrorContains(t, err, "no id of its own")
		_, err = workflow.CompareDefinitions(nil, d)
		require.ErrorContains(t, err, "no id of its own")
	}
}

// Definitions differ in both directions alike, and in nothing exactly if their hashes are equal and their nodes
// stand in the same order.
func TestCompareDefinitionsBothWays(t *testing.T) {
	var all []*workflow.Definition
	for _, text := range []string{
		"{name: a, start: x, nodes: [{id: x, task: x}]}",
		"{name: a, version: 1, start: x, nodes: [{id: x, task: x, retry: {maxAttempts: 3}}]}",
		"{name: a, start: x, nodes: [{id: x, task: x, retry: {maxAttempts: 3, nonRetryable: [b]}}]}",
		"{name: a, start: x, state: {initial: {a: {b: {c: 1}}}}, nodes: [{id: x, task: x}]}",
		"{name: a, start: x, state: {initial: {a: {b: {c: 2}}}}, nodes: [{id: x, task: x}]}",
		"{name: a, start: x, state: {initial: {a: {b: {c: null}}}}, nodes: [{id: x, task: x}]}",
		"{name: a, start: x, state: {initial: {a: {b: {}}}}, nodes: [{id: x, task: x}]}",
		"{name: a, start: x, nodes: [{id: x, task: x}, {id: y}], transitions: [{from: x, to: y}]}",
		"{name: a, start: x, nodes: [{id: x, task: x}, {id: y}], transitions: [{from: x, to: y, condition: 'true'}, {from: x, to: y}]}",
		"{name: a, start: x, nodes: [{id: x, task: x}, {id: y}], transitions: [{id: t, from: x, to: y}]}",
	} {
		d, err := workflow.ParseYAML([]byte(text))
		require.NoError(t, err)
		all = append(all, d)
	}
	turned := map[workflow.ChangeKind]workflow.ChangeKind{workflow.ChangeAdded: workflow.ChangeRemoved, workflow.ChangeRemoved: workflow.ChangeAdded, workflow.ChangeChanged: workflow.ChangeChanged}
	for i, a := range all {
		for j, b := range all {
			there, err := workflow.CompareDefinitions(a, b)
			require.NoError(t, err)
			back, err := workflow.CompareDefinitions(b, a)
			require.NoError(t, err)
			for k := range back {
				back[k].Kind = turned[back[k].Kind]
				for l := range back[k].Fields {
					f := &back[k].Fields[l]
					f.Before, f.After = f.After, f.Before
				}
			}
			require.ElementsMatch(t, there, back, "%d %d", i, j)
			hashA, err := a.Hash()
			require.NoError(t, err)
			hashB, err := b.Hash()
			require.NoError(t, err)
			require.Equal(t, hashA == hashB, len(there) == 0, "%d %d", i, j)
		}
	}
}
