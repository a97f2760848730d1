package soundness_test

import (
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
