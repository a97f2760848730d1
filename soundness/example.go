package soundness

import (
	"math"
	"reflect"
	"slices"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/value"
)

// maxExamples bounds the examples of a schema that are tried, its default included.
const maxExamples = 2

// examplesOf returns the first examples of a schema, and its default, that the schema itself allows as far as allowsValue can tell.
func (v *values) examplesOf(m map[string]any) []any {
	key := reflect.ValueOf(m).Pointer() // a schema stays where it is, and is asked for in each state
	if known, ok := v.examples[key]; ok {
		return known
	}
	candidates, _ := m["examples"].([]any)
	candidates = slices.Clone(candidates[:min(len(candidates), maxLeast)])
	if x, ok := m["default"]; ok {
		candidates = append(candidates, x)
	}
	var out []any
	for _, x := range candidates {
		if len(out) < maxExamples && !v.check.isStopped() && allowsValue(m, x) {
			out = append(out, x)
		}
	}
	v.examples[key] = out
	return out
}

// allowsValue reports whether a schema allows a value, as far as its simple keywords tell. It follows no references and no alternatives.
func allowsValue(schema, x any) bool {
	m, ok := schema.(map[string]any)
	if !ok {
		return schema != false
	}
	if c, ok := m["const"]; ok && !isSame(c, x) {
		return false
	}
	if e, ok := m["enum"].([]any); ok && !slices.ContainsFunc(e, func(c any) bool { return isSame(c, x) }) {
		return false
	}
	switch types := m["type"].(type) {
	case string:
		if !isOfType(types, x) {
			return false
		}
	case []any:
		if !slices.ContainsFunc(types, func(name any) bool { return isOfType(name, x) }) {
			return false
		}
	}
	switch x := x.(type) {
	case string:
		return allowsText(m, x)
	case int64, float64:
		return allowsNumber(m, x) && isMultiple(floatOf(x), floatOf(m["multipleOf"]))
	case []any:
		return allowsLength(m, len(x), "minItems", "maxItems") && !slices.ContainsFunc(x, func(y any) bool { return !allowsValue(m["items"], y) })
	case map[string]any:
		return allowsFields(m, x)
	}
	return true
}

func isSame(a, b any) bool { return string(value.Encode(a)) == string(value.Encode(b)) }

// isMultiple reports whether a number is a multiple of another, near enough for fractions that a float does not hold exactly.
func isMultiple(x, of float64) bool {
	return !(math.Abs(x/of-math.Round(x/of)) > 1e-9) // without another it is not a number, and holds
}

// isOfType reports whether a value is of a type of JSON Schema.
func isOfType(name, x any) (ok bool) {
	switch name {
	case "string":
		_, ok = x.(string)
	case "boolean":
		_, ok = x.(bool)
	case "integer":
		return floatOf(x) == math.Trunc(floatOf(x))
	case "number":
		return !math.IsNaN(floatOf(x))
	case "array":
		_, ok = x.([]any)
	case "object":
		_, ok = x.(map[string]any)
	case "null":
		return x == nil
	}
	return ok
}

// allowsText reports whether a text has a length and the pattern of a schema. A pattern that cannot be compiled lets no text through.
func allowsText(m map[string]any, text string) bool {
	if !allowsLength(m, len([]rune(text)), "minLength", "maxLength") {
		return false
	}
	source, ok := m["pattern"].(string)
	if !ok {
		return true
	}
	pattern, err := expr.CompilePattern(source)
	return err == nil && pattern.MatchString(text)
}

// allowsLength reports whether a number is within two keywords of a schema.
func allowsLength(m map[string]any, n int, least, most string) bool {
	return !(float64(n) < floatOf(m[least])) && !(float64(n) > floatOf(m[most])) // without a bound it is not a number, and holds
}

// allowsFields reports whether an object has what is required, and only properties that fit.
func allowsFields(m, x map[string]any) bool {
	required, _ := m["required"].([]any)
	for _, name := range required {
		key, _ := name.(string)
		if _, ok := x[key]; !ok {
			return false
		}
	}
	properties, _ := m["properties"].(map[string]any)
	for key, y := range x {
		if schema, ok := properties[key]; ok && !allowsValue(schema, y) || !ok && m["additionalProperties"] == false && m["patternProperties"] == nil {
			return false
		}
	}
	return true
}
