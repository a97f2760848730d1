package schema

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/value"
)

// drawValue draws a value of few kinds, so that schemas fit it now and then.
func drawValue(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 7).Draw(t, "value"); {
	case n == 6 && depth > 0:
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return drawValue(t, depth-1) }), 0, 4).Draw(t, "list")
	case n == 7 && depth > 0:
		object := map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "ab"}), 0, 3, rapid.ID).Draw(t, "names") {
			object[name] = drawValue(t, depth-1)
		}
		return object
	}
	return rapid.SampledFrom([]any{nil, true, int64(0), int64(2), 1.5, 1e300, "", "a", "ab"}).Draw(t, "scalar")
}

// drawSchema draws a schema of a few keywords.
func drawSchema(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 7).Draw(t, "bool") == 0 {
		return rapid.SampledFrom([]any{
			true, false, map[string]any{"type": "string"}, map[string]any{"type": "integer"}, map[string]any{"type": []any{"object", "array"}},
			map[string]any{"const": int64(2)}, map[string]any{"minLength": int64(1)}, map[string]any{"pattern": "^a"}, map[string]any{"maximum": int64(1)},
			map[string]any{"required": []any{"a"}}, map[string]any{"maxItems": int64(1)}, map[string]any{"uniqueItems": true}, map[string]any{"enum": []any{"a", int64(0), nil}},
			map[string]any{"dependentRequired": map[string]any{"a": []any{"b"}}}, map[string]any{"$ref": "#/$defs/x"},
		}).Draw(t, "leaf")
	}
	one := func() any { return drawSchema(t, depth-1) }
	some := func() any { return []any{one(), one()} }
	named := func() any { return map[string]any{"a": one(), "b": one()} }
	s := map[string]any{}
	for _, keyword := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"allOf", "anyOf", "oneOf", "not", "if", "properties", "patternProperties", "additionalProperties", "forbid",
		"propertyNames", "dependentSchemas", "prefixItems", "items", "contains", "minContains", "maxContains", "type",
	}), 1, 4, rapid.ID).Draw(t, "keywords") {
		switch keyword {
		case "allOf", "anyOf", "oneOf", "prefixItems":
			s[keyword] = some()
		case "properties", "dependentSchemas":
			s[keyword] = named()
		case "patternProperties":
			s[keyword] = map[string]any{"^a": one(), "b$": one()}
		case "if":
			s["if"], s["then"], s["else"] = one(), one(), one()
		case "forbid":
			s["additionalProperties"] = false
		case "minContains", "maxContains":
			s["contains"], s[keyword] = one(), int64(rapid.IntRange(0, 2).Draw(t, "n"))
		case "type":
			s[keyword] = rapid.SampledFrom([]any{"number", "integer", "object", []any{"array", "null"}}).Draw(t, "type")
		default:
			s[keyword] = one()
		}
	}
	return s
}

// toldPlaces returns where an error of the library and its causes are.
func toldPlaces(err error) map[string]bool {
	at := map[string]bool{}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return at
	}
	at[value.Pointer(ve.InstanceLocation)] = true
	for _, cause := range ve.Causes {
		for place := range toldPlaces(cause) {
			at[place] = true
		}
	}
	return at
}

// A large value is found to fit, or not, as the library finds it; the place is one of those
// that the library tells.
func TestViolationsAreThoseOfTheLibrary(t *testing.T) {
	fit, unfit := 0, 0
	harness.CheckProperty(t, func(t *rapid.T) {
		doc := map[string]any{"$defs": map[string]any{"x": map[string]any{"type": []any{"string", "null"}}}, "allOf": []any{drawSchema(t, 3)}}
		s, err := Compile(doc)
		require.NoError(t, err)
		require.False(t, s.whole)
		named := strings.Contains(string(value.Encode(doc)), "propertyNames")
		for range 5 {
			v := drawValue(t, 3)
			want := s.compiled.Validate(v)
			got := new(violationFinder).findViolation(s.compiled, v).toError()
			require.Equal(t, want == nil, got == nil, "%s for %s: %v, %v", value.Encode(doc), value.Encode(v), want, got)
			if fit++; got == nil {
				continue
			}
			unfit++
			found := &Error{}
			require.ErrorAs(t, got, &found)
			require.NotEmpty(t, found.Message)
			if !named { // the library tells a place beside it
				require.Contains(t, toldPlaces(want), found.Path, "%s for %s: %v, %v", value.Encode(doc), value.Encode(v), want, got)
			}
		}
	})
	require.Greater(t, fit, unfit)
	require.NotZero(t, unfit)
}

// A value of a megabyte that does not fit its schema takes a few megabytes to be refused, in
// however many places it is wrong.
func TestLargeValuesAreRefusedInLittleMemory(t *testing.T) {
	numbers, texts, wide, pairs := make([]any, 500_000), make([]any, 250_000), map[string]any{}, make([]any, 60_000)
	for i := range numbers {
		numbers[i] = int64(i % 10)
	}
	for i := range texts {
		texts[i] = "x"
	}
	for i := range 100_000 {
		wide[fmt.Sprint("k", i)] = int64(1)
	}
	for i := range pairs {
		pairs[i] = map[string]any{"a": int64(1), "b": "x"}
	}
	text, flag, long := map[string]any{"type": "string"}, map[string]any{"type": "boolean"}, map[string]any{"minLength": int64(2)}
	for name, c := range map[string]struct {
		schema, value any
		path          string
	}{
		"items":        {map[string]any{"items": text}, numbers, "/0"},
		"alternatives": {map[string]any{"anyOf": []any{map[string]any{"items": text}, map[string]any{"items": flag}}}, numbers, "/0"},
		"of each":      {map[string]any{"items": map[string]any{"oneOf": []any{text, flag}}}, numbers[:200_000], "/0"},
		"lengths":      {map[string]any{"items": long}, texts, "/0"},
		"properties":   {map[string]any{"additionalProperties": text}, wide, "/k0"},
		"objects":      {map[string]any{"items": map[string]any{"properties": map[string]any{"a": text, "b": long}}}, pairs, "/0/a"},
		"the last":     {map[string]any{"items": map[string]any{"type": "integer"}}, append(numbers[:499_999:499_999], "x"), "/499999"},
	} {
		s, err := Compile(c.schema)
		require.NoError(t, err, name)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err = s.Check(c.value)
		runtime.ReadMemStats(&after)
		var found *Error
		require.ErrorAs(t, err, &found, name)
		require.Equal(t, c.path, found.Path, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20), name)
	}
}

// If several names of a value violate a schema, the library finds them in any order, and the same one is told each time.
func TestTheViolationOfANameIsTheSame(t *testing.T) {
	v := map[string]any{"aaa": int64(1), "bbbb": int64(1), "ccccc": int64(1), "dddddd": int64(1)}
	for _, doc := range []map[string]any{
		{"propertyNames": map[string]any{"maxLength": int64(2)}},
		{"dependentRequired": map[string]any{"aaa": []any{"x"}, "bbbb": []any{"y"}, "ccccc": []any{"z"}}},
		{"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": map[string]any{"aaa": []any{"x"}, "bbbb": []any{"y"}, "ccccc": []any{"z"}}},
	} {
		s, err := Compile(doc)
		require.NoError(t, err)
		want := s.Check(v).Error()
		for range 50 {
			require.Equal(t, want, s.Check(v).Error())
		}
	}
}

// If a value violates the schemas of several patterns, the same pattern is told each time, since it is recorded and
// planned again.
func TestTheViolationOfAPatternIsTheSame(t *testing.T) {
	schema := map[string]any{"patternProperties": map[string]any{
		"^a": map[string]any{"type": "string"}, "b$": map[string]any{"type": "boolean"}, "^ab": map[string]any{"type": "array"}, "": map[string]any{"type": "object"},
	}}
	s, err := Compile(schema)
	require.NoError(t, err)
	want := new(violationFinder).findViolation(s.compiled, map[string]any{"ab": int64(1)}).toError().Error()
	for range 50 {
		require.Equal(t, want, new(violationFinder).findViolation(s.compiled, map[string]any{"ab": int64(1)}).toError().Error())
	}
}
