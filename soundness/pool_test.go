package soundness_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// A value for which a condition on a list, or on an element of one, is true is found where the condition names it.
func TestListsOfConditions(t *testing.T) {
	for _, condition := range []string{
		"result.tool in ['delete_files']", "!(result.tool in ['delete_files'])", "result.n in [1, 2]", "'delete_files' in result.tools",
		"result.tools.exists(t, t in ['delete_files'])", "result.tools.exists(t, t == 'delete_files')",
	} {
		d, err := workflow.ParseYAML([]byte(`
name: agent
start: a
nodes: [{id: a, task: t, timeout: 1m}, {id: b}, {id: c}]
transitions:
  - {from: a, to: b, condition: "` + condition + `"}
  - {from: a, to: c, priority: 1}
`))
		require.NoError(t, err)
		r, err := soundness.Check(d, soundness.Options{})
		require.NoError(t, err)
		require.Empty(t, r.Findings, condition)
		require.Empty(t, r.Bounds, condition)
		require.True(t, r.Complete, condition)
	}
}

// Values are made up for all that a node evaluates as it is entered, also where a run begins.
func TestValuesOfEntries(t *testing.T) {
	for _, nodes := range []string{
		`{id: a, task: t, timeout: 1m, input: {x: input.order.lines + 1}}`,
		`{id: a, subworkflow: {name: other}, input: {x: input.order.lines + 1}}`,
		`{id: a, approval: {messageExpr: "'Pay ' + input.order.text"}}`,
		`{id: a, end: {codeExpr: input.order.code, messageExpr: "'not ' + input.order.text"}}`,
		`{id: b}, {id: a, end: {codeExpr: input.order.code}}`,
		`{id: b, task: t, timeout: 1m}, {id: a, end: {codeExpr: nodes.b.output.refused.code, messageExpr: "'not ' + nodes.b.output.refused.text"}}`,
	} {
		text := "name: entry\nstart: a\nnodes: [" + nodes + "]\n"
		if strings.HasPrefix(nodes, "{id: b") {
			text = strings.Replace(text, "start: a", "start: b", 1) + "transitions: [{from: b, to: a}]\n"
		}
		d, err := workflow.ParseYAML([]byte(text))
		require.NoError(t, err)
		r, err := soundness.Check(d, soundness.Options{})
		require.NoError(t, err)
		require.True(t, r.Complete, "%s: %v", nodes, r)
		require.Empty(t, r.Faults(), nodes)
	}
}
