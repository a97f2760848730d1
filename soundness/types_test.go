package soundness_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// expressionFindings returns what a check tells of the types of expressions.
func expressionFindings(t *testing.T, text string) []soundness.Finding {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	r, err := soundness.Check(d, soundness.Options{})
	require.NoError(t, err)
	return slices.DeleteFunc(r.Findings, func(f soundness.Finding) bool { return f.Code != soundness.ExpressionType })
}

// TestTypesOfExpressions accuses an expression only if it fails with every value that the schema of v allows, and of k, a text: not for a text
// that is no number, an index, or a key of an object that may have others.
func TestTypesOfExpressions(t *testing.T) {
	const closed = `{type: object, required: [n], properties: {n: {type: integer}}, additionalProperties: false}`
	tests := []struct {
		schema, expression string
		fails              bool
	}{
		{`{type: string, format: date-time}`, `timestamp(input.v).getHours()`, false},
		{`{type: string}`, `int(input.v)`, false},
		{`{type: string}`, `duration(input.v)`, false},
		{`{type: string}`, `input.v.split(',')[1]`, false},
		{`{type: string}`, `input.v.substring(3)`, false},
		{`{type: array, minItems: 2}`, `input.v[1].x`, false},
		{`{type: array, minItems: 2}`, `input.v[1] + 'a'`, false},
		{`{type: array, minItems: 1, items: {type: object, properties: {x: {type: array, minItems: 1}}}}`, `input.v[0].x[0] + 'a'`, false},
		{`{type: array, minItems: 1, items: {type: string}}`, `input.v[0] + 1`, true},
		{`{type: array, minItems: 1, items: {type: object, properties: {x: {type: string}}}}`, `input.v[0].x - 1`, true},
		{`{type: array, items: {type: string}}`, `input.v.map(x, x + 1)`, false},
		{`{type: array, items: {type: string}}`, `input.v.startsWith('a')`, true},
		{`{type: array, items: {type: string}}`, `input.v.name`, true},
		{`{type: number}`, `math.round(input.v)`, false},
		{`{type: number, minimum: 5, maximum: 9}`, `math.round(input.v)`, false},
		{`{type: number}`, `math.sqrt(input.v - 5)`, false},
		{`{type: number}`, `input.v.size()`, true},
		{`{type: number}`, `input.v.map(x, x)`, true},
		{`{type: integer}`, `input.v > 5 ? 1 : input.k + 1`, false},
		{`{type: integer}`, `input.v < 5 ? input.k + 1 : (input.k - 1)`, true},
		{`{type: integer}`, `input.v < 5 ? input.k + 1 : input.v < 9 ? 1 : 2`, false},
		{`{type: integer}`, `input.v < 5 ? (input.v < 3 ? input.k + 1 : input.k - 1) : 2`, false},
		{`{type: integer}`, `input.v + input.k > 3 ? 1 : 2`, true},
		{`{type: integer}`, `input.v + (input.v < 5 ? input.k : 'b')`, false}, // it is not taken apart
		{`{type: integer}`, `input.v + input.k == '\'' ? 1 : 2`, true},
		{`{type: integer}`, `input.v + input.k == '?:||' ? 1 : 2`, true},
		{`{type: string}`, `input.v > 3 && input.v < 5`, true},
		{`{type: string}`, `input.v > 3 || input.k.size() > 5`, false},
		{`{type: string}`, `input.v > 3 && input.k == 'zz'`, false},
		{`{type: string}`, `(input.v > 3 || input.v < 1)`, true},
		{`{type: [string, "null"]}`, `input.v + 1`, true},
		{`{type: [string, integer]}`, `input.v + 1`, false},
		{`{type: ["null", object]}`, `input.v.x`, false},
		{`{type: object}`, `input.v + 1`, true},
		{`{type: object}`, `input.v.x`, false},
		{`{type: object}`, `input.v[input.k] + 1`, false},
		{`{type: object, properties: {n: {type: integer}}, patternProperties: {^x: {}}, additionalProperties: false}`, `input.v.x`, false},
		{closed, `input.v.x`, true},
		{closed, `input.v.n.x`, true},
		{closed, `input.v[input.k]`, false},
		{closed, `has(input.v.x) ? input.v.x : 1`, false},
		{`{type: object, properties: {n: {type: integer}}}`, `input.v.map(x, x + 1)`, false},
		{`{type: object, properties: {n: {type: integer}}}`, `input.v.transformList(x, y, y + 'a').size()`, false},
		{`{type: object, properties: {n: {type: integer}, s: {type: string}}, required: [n]}`, `input.v.map(x, input.v[x] + 1)`, false},
		{`{type: object, properties: {s: {type: string}}, required: [s]}`, `input.v.all(x, y, y > 3)`, false},
		{`{type: object, properties: {o: {type: object, properties: {s: {type: string}}}}, required: [o]}`, `input.v.o.map(x, x + 1)`, false},
		{`{type: array, minItems: 1, items: {type: object, properties: {s: {type: string}}}}`, `input.v[0].map(x, x + 1)`, false},
		{`{type: object, properties: {n: {type: integer}}}`, `input.v.map(x, input.v.n.x)`, false},
		{`{type: object, properties: {n: {type: integer}}, required: [n]}`, `input.v.map(x, input.v.n.x)`, true},
		{`{type: object, properties: {n: {type: integer}}}`, `input.v.n.x`, true},
		{`{type: object, properties: {n: {type: integer}}}`, `input.v.n.size()`, true},
		{closed, `input.v.map(x, x + 1)`, true},
		{closed, `input.v.map(x, input.v[x] + input.k)`, true},
		{`{enum: [1, a]}`, `input.v + 1`, false},
		{`{enum: [a, b]}`, `input.v + 1`, true},
	}
	for _, tt := range tests {
		t.Run(tt.schema+" "+tt.expression, func(t *testing.T) {
			found := expressionFindings(t, `
name: typed
start: a
input: {schema: {type: object, required: [v, k], properties: {v: `+tt.schema+`, k: {type: string}}}}
nodes:
  - id: a
    output:
      output.r: |-
        `+tt.expression+`
`)
			require.Equal(t, tt.fails, len(found) > 0, "%v", found)
		})
	}
}

// TestTypesOfResults accuses no expression that reads a result where there may be another one than the schema describes, or none.
func TestTypesOfResults(t *testing.T) {
	const schema = `outputSchema: {type: object, required: [n], properties: {n: {type: string}}}`
	const guarded = `input: {x: "result == null ? 1 : result.n + 1"}`
	for text, fails := range map[string]bool{
		`start: a
nodes: [{id: a, task: t, ` + schema + `}, {id: b, task: t, input: {x: result.n + 1}}]
transitions: [{from: a, to: b}]`: true,
		`mode: dag
nodes: [{id: a, task: t, ` + schema + `}, {id: b, task: t, needs: [a], input: {x: result.n + 1}}]`: false,
		`start: a
nodes: [{id: a, task: t, ` + schema + `, input: {x: result.n + 1}}, {id: b}]
transitions: [{from: a, to: a, condition: "result.n == 'x'", loop: {maxIterations: 2}}, {from: a, to: b, priority: 1}]`: false,
		`start: a
nodes: [{id: a, task: t, ` + schema + `}, {id: b, task: t, input: {x: result.n + 1}}]
transitions: [{from: a, to: b, outcome: always}]`: false,
		`start: a
nodes: [{id: a, task: t, ` + schema + `}, {id: b, task: t, ` + guarded + `}]
transitions: [{from: a, to: b}]`: false,
		`start: a
nodes: [{id: a, task: t, timeout: 1s, outputSchema: {type: object, required: [count], properties: {count: {type: string}}}}, {id: b}, {id: c}]
transitions: [{from: a, to: b, condition: int(result.count) > 5}, {from: a, to: c, priority: 1}]`: false,
	} {
		found := expressionFindings(t, "name: results\n"+text+"\n")
		require.Equal(t, fails, len(found) > 0, "%s: %v", text, found)
	}
}
