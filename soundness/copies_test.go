package soundness_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// TestCopiedResults: a field of a result is found by way of whatever the result was copied to, so that the search makes
// one up which has it; where it is not found, the search says so, and claims nothing of what it has not seen.
func TestCopiedResults(t *testing.T) {
	const join = `
transitions: [{from: f, to: a}, {from: f, to: b}, {from: a, to: j}, {from: b, to: j}, {from: j, to: s}]
`
	const group = `
transitions:
  - {from: f, to: a, siblingGroup: g}
  - {from: f, to: b, siblingGroup: g}
  - {from: a, to: j, synchronization: {siblingGroup: g, merge: {target: state.all, strategy: STRATEGY}}}
  - {from: b, to: j, synchronization: {siblingGroup: g, merge: {target: state.all, strategy: STRATEGY}}}
  - {from: j, to: s}
`
	const result = `
transitions:
  - {from: f, to: a, siblingGroup: g}
  - {from: f, to: b, siblingGroup: g}
  - {from: a, to: s, synchronization: {siblingGroup: g, merge: {strategy: STRATEGY}}}
  - {from: b, to: s, synchronization: {siblingGroup: g, merge: {strategy: STRATEGY}}}
`
	for name, test := range map[string]struct {
		nodes, rest string
		undecided   bool
	}{
		"whole":         {`{id: a, task: t, output: {state.a: result}}, {id: b, task: t}, {id: j, join: all}, {id: s, output: {output.x: state.a.n}}`, join, false},
		"of a field":    {`{id: a, task: t, output: {state.a: result.n}}, {id: b, task: t}, {id: j, join: all}, {id: s, output: {output.x: state.a.k}}`, join, false},
		"twice":         {`{id: a, task: t, output: {state.a: result}}, {id: b, task: t}, {id: j, join: all, output: {state.c: state.a.m}}, {id: s, output: {output.x: state.c.n}}`, join, false},
		"deep":          {`{id: a, task: t, output: {state.a.b: result}}, {id: b, task: t}, {id: j, join: all}, {id: s, output: {output.x: state.a.b.c.d}}`, join, false},
		"decides":       {`{id: a, task: t, output: {state.a: result}}, {id: b, task: t}, {id: j, join: all}, {id: s, task: u, input: {x: "state.a.n > 3 ? 1 : 2"}}`, join, false},
		"collected":     {`{id: a, task: t}, {id: b, task: t}, {id: j}, {id: s, output: {output.x: "state.all[0].n"}}`, group, false},
		"keyed":         {`{id: a, task: t}, {id: b, task: t}, {id: j}, {id: s, output: {output.x: "state.all[\"0\"].n"}}`, group, false},
		"in a function": {`{id: a, task: t}, {id: b, task: t}, {id: j}, {id: s, output: {output.x: "state.all.map(x, x.n)"}}`, group, true},
		"the result":    {`{id: a, task: t}, {id: b, task: t}, {id: s, task: t, input: {x: "result[0].n"}}`, result, false},
		"of a target":   {`{id: a, task: t}, {id: b, task: t}, {id: s, task: t, input: {x: "result[0].n"}}`, strings.ReplaceAll(result, "{strategy", "{target: state.all, strategy"), false},
		"chooses":       {`{id: a, task: t}, {id: b, task: t}, {id: s, taskExpr: "result[0].n > 3 ? 'u' : 'v'", tasks: [u, v]}`, result, true},
		"a sum":         {`{id: a, task: t, output: {state.a: "{'m': result}"}}, {id: b, task: t}, {id: j, join: all}, {id: s, output: {output.x: state.a.m.n}}`, join, true},
	} {
		t.Run(name, func(t *testing.T) {
			strategy := "collect"
			if name == "keyed" {
				strategy = "keyed_by_branch"
			}
			text := "name: kept\nstart: f\nnodes: [{id: f}, " + test.nodes + "]" + strings.ReplaceAll(test.rest, "STRATEGY", strategy)
			d, err := workflow.ParseYAML([]byte(text))
			require.NoError(t, err)
			r, err := soundness.Check(d, soundness.Options{StallAfter: true})
			require.NoError(t, err)
			require.Empty(t, r.Faults(), "%v", r)
			require.Equal(t, test.undecided, !r.Complete, "%v", r)
		})
	}
}
