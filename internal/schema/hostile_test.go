package schema_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/schema"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// doubling returns a schema in which each of n levels applies the one below it twice, in the
// way that twice says.
func doubling(n int, lowest map[string]any, twice func(ref map[string]any) map[string]any) map[string]any {
	defs := map[string]any{"a0": lowest}
	for i := range n {
		defs[fmt.Sprint("a", i+1)] = twice(map[string]any{"$ref": fmt.Sprint("#/$defs/a", i)})
	}
	return map[string]any{"$defs": defs, "$ref": fmt.Sprint("#/$defs/a", n)}
}

func inList(keyword string) func(map[string]any) map[string]any {
	return func(ref map[string]any) map[string]any { return map[string]any{keyword: []any{ref, ref}} }
}

func deepList(n int) any {
	var v any = int64(1)
	for range n {
		v = []any{v}
	}
	return v
}

// The work that a schema causes by its size is bounded when it is compiled.
func TestHostileSchemasAreRefused(t *testing.T) {
	properties, patterns, deep := map[string]any{}, map[string]any{}, map[string]any{}
	for i := range 6000 {
		properties[fmt.Sprint("p", i)] = map[string]any{"type": "integer"}
	}
	for i := range 300 {
		patterns[strings.Repeat("a", 1000)+fmt.Sprint(i)] = true
	}
	for range 5000 {
		deep = map[string]any{"not": deep}
	}
	tests := map[string]struct {
		schema any
		want   string
	}{
		"allOf": {doubling(40, map[string]any{"type": "integer"}, inList("allOf")), "more than 10000 schemas to one value"},
		"anyOf": {doubling(40, map[string]any{"type": "string"}, inList("anyOf")), "more than 10000 schemas"},
		"oneOf": {doubling(14, map[string]any{"type": "string"}, inList("oneOf")), "more than 10000 schemas"},
		"dependentSchemas": {doubling(40, map[string]any{"type": "string"}, func(ref map[string]any) map[string]any {
			return map[string]any{"dependentSchemas": map[string]any{"p": ref, "q": ref}}
		}), "more than 10000 schemas"},
		"if": {doubling(40, map[string]any{"type": "string"}, func(ref map[string]any) map[string]any {
			return map[string]any{"if": ref, "then": ref, "else": ref}
		}), "more than 10000 schemas"},
		"itself":                {map[string]any{"$ref": "#"}, "it refers to itself for one and the same value"},
		"a cycle":               {map[string]any{"$defs": map[string]any{"a": map[string]any{"anyOf": []any{true, map[string]any{"$ref": "#/$defs/b"}}}, "b": map[string]any{"not": map[string]any{"$ref": "#/$defs/a"}}}, "properties": map[string]any{"x": map[string]any{"$ref": "#/$defs/a"}}}, "it refers to itself"},
		"$dynamicRef":           {map[string]any{"$dynamicAnchor": "a", "properties": map[string]any{"x": map[string]any{"$dynamicRef": "#a"}}}, "not supported"},
		"the schema of schemas": {map[string]any{"$ref": "https://json-schema.org/draft/2020-12/schema"}, "not supported"},
		"many":                  {map[string]any{"properties": properties}, "6002 subschemas are more than 5000"},
		"deep":                  {deep, "jsonDepth"},
		"a pattern":             {map[string]any{"pattern": strings.Repeat("a?", 900)}, "limit of 1024"},
		"repetitions":           {map[string]any{"pattern": "((a{10}b){10}c){10}d{900}e{900}"}, "limit of 2000"},
		"no schemas":            {map[string]any{"allOf": repeated(int64(1), 100_000)}, "its values weigh more than 400000"},
		"no schemas, deep":      {nested(map[string]any{"allOf": repeated(int64(1), 5_000)}, 100), "its values weigh more than 400000"},
		"no names":              {nested(map[string]any{"required": repeated(int64(1), 5_000)}, 100), "its values weigh more than 400000"},
		"patterns":              {map[string]any{"patternProperties": patterns}, "more than 65536 bytes"},
	}
	for name, test := range tests {
		_, err := schema.Compile(test.schema)
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), test.want, name)
		d := &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t", OutputSchema: test.schema}}}
		require.Error(t, d.Validate(), name)
	}
}

// nested returns a schema beneath so many others.
func nested(schema map[string]any, n int) any {
	for range n {
		schema = map[string]any{"not": schema}
	}
	return schema
}

// To find each place of a schema wrong may take a second: a definition has many schemas.
func TestFewWrongSchemasAreToldOf(t *testing.T) {
	d := &workflow.Definition{Name: "x", Start: "a"}
	for i := range 1000 {
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("a", i)), Task: "t", OutputSchema: map[string]any{"allOf": []any{int64(i)}}})
	}
	d.Start = "a0"
	var invalid *workflow.DefinitionError
	require.ErrorAs(t, d.Validate(), &invalid)
	var told []workflow.Problem
	for _, p := range invalid.Problems {
		if p.Code == problem.Schema {
			told = append(told, p)
		}
	}
	require.Len(t, told, 11)
	assert.Contains(t, told[10].Message, "more than 10 schemas are wrong")
}

// A definition may have a hundred thousand unknown keywords.
func TestFewUnknownKeywordsAreToldOf(t *testing.T) {
	d := &workflow.Definition{Name: "x", Start: "a0"}
	for i := range 1000 {
		unknown := map[string]any{"a": true, "b": true, "c": true}
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("a", i)), Task: "t", OutputSchema: unknown})
	}
	told := 0
	for _, p := range d.Check() {
		if p.Code == problem.SchemaKeyword {
			told++
		}
	}
	require.Equal(t, 51, told)
}

// A subschema of three bytes takes a thousand for as long as the definition is remembered.
func TestSubschemasAreBoundedTogether(t *testing.T) {
	d := &workflow.Definition{Name: "x", Start: "a0"}
	for i := range 30 {
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("a", i)), Task: "t", OutputSchema: map[string]any{"anyOf": repeated(map[string]any{}, 100)}})
	}
	_, err := workflow.Bounds{Subschemas: 1_500}.Compile(d)
	var invalid *workflow.DefinitionError
	require.ErrorAs(t, err, &invalid)
	var told []workflow.Problem
	for _, p := range invalid.Problems {
		if p.Code == problem.TooLarge {
			told = append(told, p)
		}
	}
	require.Len(t, told, 1)
	assert.Contains(t, told[0].Message, "up to here the schemas have more than 1500 subschemas")
	assert.Equal(t, workflow.NodeID("a14"), told[0].Node)

	_, err = workflow.Compile(d)
	require.NotContains(t, fmt.Sprint(err), "subschemas")
}

// The work that a schema causes for a value is bounded when the value is checked, before the
// work is done.
func TestHostileChecksEndAtTheirCost(t *testing.T) {
	numbers, wide := make([]any, 5000), map[string]any{}
	for i := range numbers {
		numbers[i] = int64(i)
	}
	for i := range 1000 {
		wide[fmt.Sprint("some longer name of a property ", i)] = int64(i)
	}
	twice := map[string]any{"items": map[string]any{"$ref": "#"}}
	tests := map[string]struct {
		schema, value any
	}{
		"doubling in depth": {map[string]any{"allOf": []any{twice, twice}}, deepList(100)},
		"doubling in not":   {map[string]any{"not": map[string]any{"anyOf": []any{twice, twice}}}, deepList(100)},
		"errors in depth":   {map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "array", "items": map[string]any{"$ref": "#"}}}}, nestedList(numbers, 100, 30)},
		"a pattern":         {map[string]any{"pattern": "(a?){200}b"}, strings.Repeat("a", 1<<20)},
		"names":             {map[string]any{"patternProperties": map[string]any{"(a?){300}b": true, "(a?){301}b": true}}, wide},
		"numbers in enum":   {map[string]any{"items": map[string]any{"enum": numbers}}, numbers},
		"lists in enum":     {map[string]any{"items": map[string]any{"enum": []any{numbers}}}, repeated(numbers, 1000)},
		"unique":            {map[string]any{"uniqueItems": true}, []any{repeated(numbers, 1000), repeated(numbers, 1000)}},
		"unevaluated":       {map[string]any{"unevaluatedProperties": false, "allOf": repeated(map[string]any{"title": "x"}, 4900)}, many(5000)},
	}
	for name, test := range tests {
		s, err := schema.Compile(test.schema)
		require.NoError(t, err, name)
		var limit *schema.LimitError
		require.ErrorAs(t, s.Check(test.value), &limit, name)
		assert.Equal(t, limits.SchemaCost, limit.Limit, name)
		assert.EqualValues(t, limits.MaxSchemaCost, limit.Max, name)
	}
	s, err := schema.Compile(twice)
	require.NoError(t, err)
	require.NoError(t, s.Check(deepList(500)))
	var limit *schema.LimitError
	require.ErrorAs(t, s.Check(deepList(5000)), &limit)
	assert.Equal(t, value.LimitDepth, limit.Limit)
}

// nestedList returns so many times the items of a list, as many levels deep.
func nestedList(list []any, levels, times int) any {
	var v any = slices.Concat(slices.Repeat([][]any{list}, times)...)
	for range levels {
		v = []any{v}
	}
	return v
}

func repeated(v any, n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = v
	}
	return list
}

func many(n int) map[string]any {
	object := map[string]any{}
	for i := range n {
		object[fmt.Sprint("p", i)] = int64(i)
	}
	return object
}

// Ordinary uses of schemas have room: megabytes of plain values, trees, unions.
func TestOrdinaryChecksAreWithinTheirCost(t *testing.T) {
	numbers := make([]any, 500_000)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	leaf := map[string]any{"kind": "leaf"}
	tree := func(v any) any { return map[string]any{"kind": "pair", "left": v, "right": leaf} }
	var v any = leaf
	for range 100 {
		v = tree(v)
	}
	tests := map[string]struct {
		schema, value any
	}{
		"numbers": {map[string]any{"items": map[string]any{"type": "integer", "minimum": int64(0)}}, numbers},
		"a tree": {map[string]any{"$defs": map[string]any{"node": map[string]any{
			"type": "object", "required": []any{"kind"}, "properties": map[string]any{
				"kind": map[string]any{"enum": []any{"leaf", "pair"}}, "left": map[string]any{"$ref": "#/$defs/node"}, "right": map[string]any{"$ref": "#/$defs/node"},
			}, "additionalProperties": false,
		}}, "$ref": "#/$defs/node"}, v},
		"a long text": {map[string]any{"type": "string", "pattern": "^[a-z]*$"}, strings.Repeat("a", 1<<20)},
	}
	for name, test := range tests {
		s, err := schema.Compile(test.schema)
		require.NoError(t, err, name)
		require.NoError(t, s.Check(test.value), name)
	}
}

// A message about a value that does not fit is stored and told: it names the place.
func TestSchemaErrorsQuoteNoValue(t *testing.T) {
	for _, test := range []struct {
		schema any
		value  any
		want   string
	}{
		{map[string]any{"minimum": int64(1000)}, int64(777), `at "/a~1b": minimum: it is less than 1000`},
		{map[string]any{"maximum": 0.5}, int64(777), `at "/a~1b": maximum: it is more than 0.5`},
		{map[string]any{"exclusiveMinimum": int64(777)}, int64(777), `at "/a~1b": exclusiveMinimum: it is not more than 777`},
		{map[string]any{"exclusiveMaximum": int64(5)}, int64(777), `at "/a~1b": exclusiveMaximum: it is not less than 5`},
		{map[string]any{"multipleOf": int64(5)}, int64(777), `at "/a~1b": multipleOf: it is not a multiple of 5`},
		{map[string]any{"pattern": "^[a-z]+$"}, "secret777", `at "/a~1b": it does not match the pattern "^[a-z]+$"`},
		{map[string]any{"enum": []any{"a", "b"}}, "secret777", `at "/a~1b": value must be one of 'a', 'b'`},
		{map[string]any{"const": "a"}, "secret777", `at "/a~1b": value must be 'a'`},
		{map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "format": "email"}, "secret777", `at "/a~1b": it is not a valid email`},
		{map[string]any{"not": map[string]any{}}, "secret777", `at "/a~1b": 'not' failed`},
		{map[string]any{"additionalProperties": false}, map[string]any{"z": int64(1), "y": int64(1), "x": int64(1)}, `at "/a~1b": additional properties 'x', 'y', 'z' not allowed`},
	} {
		doc := map[string]any{"properties": map[string]any{"a/b": test.schema}}
		if inner, ok := test.schema.(map[string]any); ok && inner["$schema"] != nil {
			doc["$schema"] = inner["$schema"]
		}
		s, err := schema.Compile(doc)
		require.NoError(t, err)
		assert.EqualError(t, s.Check(map[string]any{"a/b": test.value}), test.want)
	}
	s, err := schema.Compile(map[string]any{"additionalProperties": map[string]any{"type": "string"}})
	require.NoError(t, err)
	for range 20 { // whatever the order of the map is
		require.EqualError(t, s.Check(map[string]any{"c": int64(1), "a": int64(1), "b": int64(1)}), `at "/a": got number, want string`)
	}
}
