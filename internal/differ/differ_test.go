package differ

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// A change names the member in which two objects differ, and shows the place in which two texts do.
func TestChangesAreSeen(t *testing.T) {
	long := strings.Repeat("x", 200)
	change := func(before, after string) []string {
		return FormatLines(&workflow.DefinitionChange{Node: "agree", Kind: workflow.ChangeChanged, Fields: []workflow.FieldChange{
			{Field: "approval", Before: []byte(before), After: []byte(after)},
		}})
	}
	require.Equal(t, []string{"~ agree.approval.quorum 2 -> 1"}, change(`{"messageExpr":"`+long+`","quorum":2}`, `{"messageExpr":"`+long+`","quorum":1}`))
	require.Equal(t, []string{"~ agree.approval.a - -> 1", "~ agree.approval.b.c 1 -> -"}, change(`{"b":{"c":1,"d":2}}`, `{"a":1,"b":{"d":2}}`))
	lines := change(`"`+long+`two"`, `"`+long+`one"`)
	require.Equal(t, []string{`~ agree.approval …` + long[:20] + `two" -> …` + long[:20] + `one"`}, lines)
	require.Equal(t, []string{`~ agree.approval {"a":1} -> 7`}, change(`{"a":1}`, `7`))
}

// Operations lead from one definition to another, whatever ids are; not to its version.
func TestOperationsLeadThere(t *testing.T) {
	parseDefinition := func(text string) *workflow.Definition {
		d, err := workflow.ParseYAML([]byte(text))
		require.NoError(t, err)
		return d
	}
	from := parseDefinition("{name: d, start: a/b, nodes: [{id: a/b, task: t}, {id: gone, task: t}, {id: same, task: t}], transitions: [{id: one, from: a/b, to: gone}], limits: {meta: {cost: 5}}}")
	to := parseDefinition("{name: d, version: 2, start: a/b, nodes: [{id: a/b, task: u}, {id: same, task: t}, {id: new~, task: t}], transitions: [{id: one, from: a/b, to: new~}]}")
	ops, err := FindOperations(from, to)
	require.NoError(t, err)
	text, err := json.Marshal(ops)
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"op": "remove", "path": "/limits"},
		{"op": "add", "path": "/nodes/a~1b", "value": {"task": "u"}},
		{"op": "add", "path": "/nodes/new~0", "value": {"task": "t"}},
		{"op": "add", "path": "/transitions/one", "value": {"from": "a/b", "to": "new~"}},
		{"op": "remove", "path": "/nodes/gone"}
	]`, string(text))
	from = parseDefinition("{name: d, start: a, nodes: [{id: a, task: t}, {id: b, task: t}], transitions: [{from: a, to: b}, {from: a, to: b, condition: 'false'}]}")
	to = parseDefinition("{name: d, start: a, nodes: [{id: a, task: t}, {id: b, task: t}, {id: c, task: t}], transitions: [{from: a, to: b}, {from: a, to: b, condition: 'true'}, {from: b, to: c}]}")
	ops, err = FindOperations(from, to) // whose transitions have no ids
	require.NoError(t, err)
	text, err = json.Marshal(ops)
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"op": "add", "path": "/nodes/c", "value": {"task": "t"}},
		{"op": "add", "path": "/transitions/a->b#2", "value": {"from": "a", "to": "b", "condition": "true"}},
		{"op": "add", "path": "/transitions/b->c", "value": {"from": "b", "to": "c"}}
	]`, string(text))
	ops, err = FindOperations(to, to)
	require.NoError(t, err)
	require.Empty(t, ops)
}
