package typecheck_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/goschema"
	"github.com/pawl-run/pawl/internal/typecheck"
	"github.com/pawl-run/pawl/workflow"
)

type quote struct {
	Supplier string         `json:"supplier"`
	Limit    float64        `json:"limit,omitzero"`
	Count    int            `json:"count,omitzero"`
	Tags     map[string]any `json:"tags"`
}

type offer struct {
	Price float64 `json:"price"`
	From  struct {
		Name string `json:"name"`
	} `json:"from"`
	Notes map[string]string `json:"notes"`
	Raw   any               `json:"raw"`
}

const definition = `
name: quotes
start: ask
input: {schema: {type: object, properties: {name: {type: string}, number: {type: integer}}}}
nodes:
  - id: ask
    task: quote
    input:
      suplier: input.name
      limit: "'much'"
      count: input.name
      tags: "{'a': 1}"
    output:
      state.price: result.price
      state.cost: result.cost
      state.name: result.from.nam
      state.note: result.notes.anything + result.raw.deep.er
      state.maybe: "has(result.later) ? result.later : 0"
      state.perhaps: result.?later.orValue(0)
  - id: again
    task: quote
    input: {Supplier: input.name, limit: input.number, count: nodes.ask.output.price, tags: nodes.ask.output.from.name}
  - id: other
    task: unknown
    input: {x: nodes.again.output.prize}
  - id: list
    task: list
transitions:
  - {from: ask, to: again, condition: result.price > 3.0 && result.prce > 2.0}
  - {from: ask, to: other, outcome: error, condition: error.code == 'x'}
  - {from: again, to: list, foreach: {collection: result.offers}}
`

// A mapping or an expression that does not fit the types of a handler is told with both places; one that may fit is not.
func TestProblems(t *testing.T) {
	d, err := workflow.ParseYAML([]byte(definition))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	of := func(in, out reflect.Type) typecheck.Types {
		i, err := goschema.Of(in)
		require.NoError(t, err)
		o, err := goschema.Of(out)
		require.NoError(t, err)
		return typecheck.Types{In: i, Out: o}
	}
	problems := typecheck.Problems(g, map[string]typecheck.Types{
		"quote": of(reflect.TypeFor[quote](), reflect.TypeFor[offer]()),
		"list":  of(reflect.TypeFor[[]int](), reflect.TypeFor[any]()),
	})
	var got []string
	for _, p := range problems {
		require.True(t, p.Warning)
		got = append(got, p.String())
	}
	const quotes = `, which the handler of "quote" takes, `
	const offers = `, and typecheck_test.offer, which the handler of "quote" returns, has no such field: `
	require.Equal(t, []string{
		`line 11:7: warning: node "ask": input.count: it is of type string, and typecheck_test.quote.Count` + quotes + `is of type integer (handler_type)`,
		`line 10:7: warning: node "ask": input.limit: it is of type string, and typecheck_test.quote.Limit` + quotes + `is of type number (handler_type)`,
		`line 9:7: warning: node "ask": input.suplier: typecheck_test.quote` + quotes + `has no such field: did you mean "supplier"? (handler_type)`,
		`line 8:5: warning: node "ask": input: supplier is missing: the handler of "quote" needs typecheck_test.quote.Supplier (handler_type)`,
		`line 15:7: warning: node "ask": output.state.cost: it reads result.cost` + offers + `there are from, notes, price, raw (handler_type)`,
		`line 16:7: warning: node "ask": output.state.name: it reads result.from.nam, and typecheck_test.offer.From, which the handler of "quote" returns, has no such field: did you mean "name"? (handler_type)`,
		`line 22:87: warning: node "again": input.tags: it is of type string, and typecheck_test.quote.Tags` + quotes + `is of type object (handler_type)`,
		`line 25:13: warning: node "other": input.x: it reads nodes.again.output.prize` + offers + `did you mean "price"? (handler_type)`,
		`line 27:5: warning: node "list": task: the handler of "list" takes []int, and the input of a node is an object (handler_type)`,
		`line 29:28: warning: transition "ask->again": condition: it reads result.prce` + offers + `did you mean "price"? (handler_type)`,
		`line 31:39: warning: transition "again->list": foreach.collection: it reads result.offers` + offers + `there are from, notes, price, raw (handler_type)`,
	}, got)
}

// A file of handlers lets itself be read only if each of them says what it takes and gives, and describes what it needs.
func TestFilesAreWhole(t *testing.T) {
	for text, want := range map[string]string{
		`{"tasks": {"t": {}}}`:                                          "a task has no schema of its input, or of its output",
		`{"tasks": {"t": null}}`:                                        "a task has no schema of its input, or of its output",
		`{"tasks": {"t": {"input": null, "output": {}}}}`:               "a task has no schema of its input, or of its output",
		`{"tasks": {"t": {"input": {}, "output": null}}}`:               "a task has no schema of its input, or of its output",
		`{"tasks": {"t": {"input": {"required": ["q"]}, "output": 7}}}`: `the schema requires "q", which it does not describe`,
		`{"tasks": {"t": {"input": {"type": "object", "properties": {"a": {"required": ["q"], "properties": {"p": {}}}}}, "output": {}}}}`: `the schema requires "q", which it does not describe`,
		`{"tasks": {"t": {"input": 7, "output": {}}}}`: "read a schema",
		`{"tasks": {"t": []}}`:                         "cannot unmarshal array",
		`{"tasks": {"t": {"input": {"properties": {"a": null, "b": {"$ref": "#/$defs/b"}}, "items": null, "additionalProperties": null, "$defs": {"b": {"$ref": "#/$defs/b"}}}, "output": {}}}}`: "",
		`{"tasks": null}`: "",
	} {
		var f typecheck.File
		err := json.Unmarshal([]byte(text), &f)
		if want != "" {
			require.ErrorContains(t, err, want, text)
			continue
		}
		require.NoError(t, err, text)
		d, err := workflow.ParseYAML([]byte("name: d\nstart: a\nnodes: [{id: a, task: t, input: {a: '1', b: '2', c: '3'}, output: {state.x: result.a.b}}]"))
		require.NoError(t, err)
		g, err := compiled.Compile(workflow.Bounds{}, d)
		require.NoError(t, err)
		require.NotPanics(t, func() { typecheck.CompareFiles(g, []typecheck.File{f}) }, text)
	}
}
