package soundness_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// TestExamplesAreSamples: examples and the default of a schema are tried where no text can be made up, and only if the schema allows them.
func TestExamplesAreSamples(t *testing.T) {
	const pattern = `type: string, pattern: "^[A-Z]{3}$"`
	const whole = `{type: object, required: [currency], properties: {currency: {` + pattern + `}, tags: {type: array}}`
	tests := []struct {
		schema string
		found  bool
	}{
		{`{type: object, required: [currency], properties: {currency: {` + pattern + `}}}`, false},
		{`{type: object, required: [currency], properties: {currency: {` + pattern + `, examples: [EUR]}}}`, true},
		{`{type: object, required: [currency], properties: {currency: {` + pattern + `, examples: [1, euro, Euro, EUR]}}}`, true},
		{`{type: object, required: [currency], properties: {currency: {` + pattern + `, examples: [euro]}}}`, false},
		{`{type: object, required: [currency], properties: {currency: {` + pattern + `, default: EUR}}}`, true},
		{`{type: object, required: [currency], properties: {currency: {` + pattern + `, const: EUR}}}`, true},
		{`{type: object, required: [currency], properties: {currency: {` + pattern + `, enum: [EUR]}}}`, true},
		{`{type: object, required: [currency], properties: {currency: {` + pattern + `, maxLength: 2, examples: [EUR]}}}`, false},
		{whole + `, examples: [{currency: EUR}]}`, true},
		{whole + `, default: {currency: EUR}}`, true},
		{whole + `, examples: [{}, {currency: euro}, {currency: EUR, tags: 1}]}`, false},
		{`{type: object, required: [currency], properties: {currency: {type: array, minItems: 1, items: {` + pattern + `}, examples: [[euro], [EUR]]}}}`, true},
		{`{type: object, required: [currency], properties: {currency: {type: integer, multipleOf: 7, minimum: 6, default: 14}}}`, true},
	}
	for _, tt := range tests {
		for _, condition := range []string{"has(input.currency)", "input.other == 1"} {
			d, err := workflow.ParseYAML([]byte(`
name: examples
start: s
input: {schema: ` + tt.schema + `}
nodes: [{id: s}, {id: l}, {id: r}]
transitions:
  - {from: s, to: l, condition: "` + condition + `"}
  - {from: s, to: r, priority: 1}
`))
			require.NoError(t, err)
			r, err := soundness.Check(d, soundness.Options{})
			require.NoError(t, err)
			require.Equal(t, tt.found, r.States > 0, "%s: %s: %v", tt.schema, condition, r)
		}
	}
}

// TestSamplesOfUnreadFields: a field that no expression reads has a value of one of its types, or is left out where it may be and the value
// would not do.
func TestSamplesOfUnreadFields(t *testing.T) {
	tests := []struct {
		properties string
		found      bool
	}{
		{`a: {type: [string, "null"]}`, true},
		{`a: {type: ["null", string], minLength: 3}`, true},
		{`a: {type: "null"}`, true},
		{`a: {type: [integer, boolean], exclusiveMinimum: 0.5}`, true},
		{`a: {type: [integer, "null"], exclusiveMinimum: 0.5, exclusiveMaximum: 1.5}`, true},
		{`a: {type: [object, "null"], required: [c], properties: {c: {type: [array, string], minItems: 2}}}`, true},
		{`a: {type: integer}, b: {type: string, pattern: "^[0-9]+$"}`, true},
		{`a: {type: integer}, b: {type: [string, "null"], pattern: "^[0-9]+$"}`, true},
		{`a: {type: integer}, b: {type: string, maxLength: 0}`, true},
		{`a: {type: integer}, b: {type: integer, minimum: 6, multipleOf: 5}`, true},
		{`a: {type: number, multipleOf: 0.01}`, true},
		{`a: {type: integer}, b: {type: object, required: [c], properties: {c: {type: string, pattern: "^[0-9]+$"}}}`, true},
		{`a: {type: integer}, b: {type: array, minItems: 1, items: {type: string, pattern: "^[0-9]+$"}}`, true},
		{`a: {type: string, pattern: "^[0-9]+$"}`, false},
	}
	for _, tt := range tests {
		for _, output := range []string{"input.other", "has(input.b) ? input.b : 1"} {
			d, err := workflow.ParseYAML([]byte(`
name: unread
start: s
input: {schema: {type: object, required: [a], properties: {` + tt.properties + `}}}
nodes: [{id: s, output: {output.x: "` + output + `"}}, {id: l}, {id: r}]
transitions:
  - {from: s, to: l, condition: "input.n > 3"}
  - {from: s, to: r, priority: 1}
`))
			require.NoError(t, err)
			r, err := soundness.Check(d, soundness.Options{})
			require.NoError(t, err)
			require.Equal(t, tt.found, r.Complete && r.States > 0, "%s: %s: %v", tt.properties, output, r)
		}
	}
}

// TestFormats makes up instants where the schema asks for them.
func TestFormats(t *testing.T) {
	d, err := workflow.ParseYAML([]byte(`
name: formats
start: a
input: {schema: {type: object, required: [v], properties: {v: {type: string, format: date-time}}}}
nodes: [{id: a, output: {output.r: timestamp(input.v).getHours()}}]
`))
	require.NoError(t, err)
	r, err := soundness.Check(d, soundness.Options{})
	require.NoError(t, err)
	require.True(t, r.Complete, "%v", r)
	require.Empty(t, r.Findings)
}

// TestPayloadsOfSchemas makes up the payload of an event from the schema of the node's result.
func TestPayloadsOfSchemas(t *testing.T) {
	for _, payload := range []string{
		`{type: object}`,
		`{type: object, required: [amount, currency], properties: {amount: {type: number}, currency: {type: string, pattern: "^[A-Z]{3}$", examples: [EUR]}}}`,
	} {
		d, err := workflow.ParseYAML([]byte(`
name: paid
start: paid
nodes:
  - {id: paid, wait: {event: paid}, timeout: 1h, outputSchema: {type: object, properties: {payload: ` + payload + `}}}
  - {id: s}
  - {id: l}
  - {id: j, join: all}
  - {id: r}
transitions:
  - {from: paid, to: s}
  - {from: s, to: l, condition: "size(nodes) > 0"}
  - {from: s, to: r, priority: 1}
  - {from: l, to: j}
  - {from: r, to: j}
`))
		require.NoError(t, err)
		r, err := soundness.Check(d, soundness.Options{})
		require.NoError(t, err)
		require.Empty(t, r.Bounds)
		require.Len(t, r.Faults(), 1)
		require.Equal(t, soundness.UnmeetableJoin, r.Faults()[0].Code)
		playScenario(t, r.Faults()[0])
	}
}
