package soundness

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// schemaAt returns the schema of a field; nil if nothing says what it is.
//
// Properties of objects are followed, and nothing else: an element of an array, or an
// alternative of anyOf, has no schema here, and nothing is then claimed of it.
func schemaAt(schema any, path []string) any {
	for _, key := range path {
		m, _ := schema.(map[string]any)
		properties, _ := m["properties"].(map[string]any)
		schema = properties[key]
	}
	return schema
}

// schemaPool returns values that a schema allows, as far as its simple keywords tell.
//
// They are few and on the edges: both bools, the bounds of a number, a text with something and
// one without. Examples and the default of the schema come first, for no text is made up that
// matches a pattern. They need not be all valid, since greatest lengths and multiples are not
// read: the planner refuses a value that the schema does not allow, and tryMove takes that for
// a wrong guess.
func (v *values) schemaPool(schema any) []any {
	m, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	// A constant and an enumeration say everything, whatever the type is.
	if c, ok := m["const"]; ok {
		return []any{c}
	}
	if e, ok := m["enum"].([]any); ok {
		return e
	}
	pool, examples := v.typePool(m), v.examplesOf(m)
	if len(examples) == 0 || m["type"] == "object" {
		return pool
	}
	return distinct(append(slices.Clone(examples), slices.DeleteFunc(pool, func(x any) bool { return !allowsValue(m, x) })...))
}

// typePool is schemaPool without examples. It joins the values of several types, null last: the first value is the sample, and any other
// tells more.
func (v *values) typePool(m map[string]any) (pool []any) {
	types, several := m["type"].([]any)
	if !several {
		return v.poolOfType(m, m["type"])
	}
	for _, name := range types {
		if name != "null" {
			pool = append(pool, v.poolOfType(m, name)...)
		}
	}
	if slices.Contains(types, any("null")) {
		pool = append(pool, nil)
	}
	return distinct(pool)
}

// poolOfType returns values of one type that a schema allows.
func (v *values) poolOfType(m map[string]any, name any) []any {
	switch name {
	case "boolean":
		return []any{true, false}
	case "integer", "number":
		return numberPool(m, name)
	case "string":
		least := leastOf(m, "minLength")
		format, _ := m["format"].(string)
		if least == 0 {
			return []any{cmp.Or(formats[format], "a"), ""}
		}
		return []any{strings.Repeat("a", least)}
	case "array":
		items, ok := v.sampleOf(m["items"])
		if !ok {
			items = int64(1)
		}
		least := leastOf(m, "minItems")
		if least > 1 && least*sizeOf(items) > maxSample {
			v.tellTooLarge()
			return nil
		}
		whole := slices.Repeat([]any{items}, max(least, 1))
		if least == 0 {
			return []any{whole, []any{}}
		}
		return []any{whole}
	case "object":
		return []any{v.objectOf(m)}
	case "null":
		return []any{nil}
	}
	return nil
}

// formats has a text of each format that expressions or schemas may insist on.
var formats = map[string]string{
	"date-time": "2030-01-01T00:00:00Z", "date": "2030-01-01", "time": "00:00:00Z", "email": "a@example.com",
	"uri": "https://example.com", "uuid": "00000000-0000-4000-8000-000000000000",
}

// maxLeast bounds the texts and lists that are made up.
const maxLeast = 100

// leastOf returns how long a value of a schema is at least, up to maxLeast.
func leastOf(m map[string]any, keyword string) int {
	n, _ := m[keyword].(int64)
	return int(min(max(n, 0), maxLeast))
}

// maxSample bounds the values in one that is made up: lists in lists may each be as long as maxLeast.
const maxSample = 10_000

// tellTooLarge notes that a value was not made up.
func (v *values) tellTooLarge() {
	v.check.addBound("a schema asks for values with more than %d others in them, which were not tried", maxSample)
}

// sizeOf returns how many values there are in a value, with itself.
func sizeOf(x any) int {
	n := 1
	switch x := x.(type) {
	case []any:
		for _, y := range x {
			n += sizeOf(y)
		}
	case map[string]any:
		for _, y := range x {
			n += sizeOf(y)
		}
	}
	return n
}

// numberPool returns two values of a type on the edges of what a schema of numbers allows, or one if there is no other. Without bounds
// they are 1 and 0.
//
// It tries each bound, what is one or a quarter inside of it, and the middle between two, and takes what all bounds let through: where an
// exclusive bound is near the opposite one, only the middle may be left.
func numberPool(m map[string]any, name any) []any {
	var low, high []any
	for _, keyword := range []string{"minimum", "exclusiveMinimum"} {
		low = append(low, insideOf(m, keyword, 1)...)
	}
	for _, keyword := range []string{"maximum", "exclusiveMaximum"} {
		high = append(high, insideOf(m, keyword, -1)...)
	}
	allows := func(x any) bool { return isOfType(name, x) && allowsNumber(m, x) }
	var out []any
	if i := slices.IndexFunc(low, allows); i >= 0 {
		out = append(out, low[i])
	}
	if i := slices.IndexFunc(high, allows); i >= 0 {
		out = append(out, high[i])
	}
	if len(out) == 0 && len(low) > 0 && len(high) > 0 {
		if middle := normalNumber((floatOf(low[0]) + floatOf(high[0])) / 2); allows(middle) {
			out = append(out, middle)
		}
	}
	for _, x := range slices.Concat(low, high, []any{int64(1), int64(0)}) {
		if out = distinct(out); len(out) < 2 && allows(x) {
			out = append(out, x)
		}
	}
	return distinct(out)
}

// insideOf returns a bound, and what is inside of it: the next integer, and what is one and a quarter away; nothing if the schema has none
// of that keyword. inward is 1 for a lower bound, -1 for an upper one.
func insideOf(m map[string]any, keyword string, inward float64) (out []any) {
	bound := floatOf(m[keyword])
	if math.IsNaN(bound) {
		return nil
	}
	for _, f := range []float64{bound, inward * math.Ceil(inward*bound), bound + inward, bound + inward/4} {
		out = append(out, normalNumber(f))
	}
	return out
}

// allowsNumber reports whether a number is within the bounds of a schema.
func allowsNumber(m map[string]any, x any) bool {
	f := floatOf(x)
	for keyword, holds := range map[string]func(bound float64) bool{
		"minimum": func(bound float64) bool { return f >= bound }, "exclusiveMinimum": func(bound float64) bool { return f > bound },
		"maximum": func(bound float64) bool { return f <= bound }, "exclusiveMaximum": func(bound float64) bool { return f < bound },
	} {
		if m[keyword] != nil && !holds(floatOf(m[keyword])) {
			return false
		}
	}
	return true
}

// floatOf returns a number of a schema; for any other value NaN, which no bound lets through.
func floatOf(x any) float64 {
	switch x := x.(type) {
	case int64:
		return float64(x)
	case float64:
		return x
	}
	return math.NaN()
}

// sampleOf returns a value that a schema allows; false without one.
//
// It is the base into which the values that matter are put.
func (v *values) sampleOf(schema any) (any, bool) {
	m, ok := schema.(map[string]any)
	if !ok {
		return nil, false
	}
	_, isObject := m["properties"].(map[string]any)
	if m["type"] == "object" || m["type"] == nil && isObject {
		return v.objectOf(m), true
	}
	if pool := v.schemaPool(schema); len(pool) > 0 {
		return pool[0], true
	}
	return nil, false
}

// objectOf returns an object with the properties that a schema lists.
//
// Required fields must be there for the schema to let the object through. Optional ones do no harm, unless their own schema refuses
// what was made up for them, as one with a pattern does: they are left out. So is a property without a known schema. The properties
// of an example of the whole take the place of others.
func (v *values) objectOf(m map[string]any) map[string]any {
	properties, _ := m["properties"].(map[string]any)
	required, _ := m["required"].([]any)
	out, within := map[string]any{}, 0
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		x, ok := v.sampleOf(properties[name])
		if within += sizeOf(x) - 1; within > maxSample {
			v.tellTooLarge()
			break
		}
		if ok && (slices.Contains(required, any(name)) || allowsValue(properties[name], x)) {
			out[name] = x
		}
	}
	for _, x := range v.examplesOf(m) {
		if example, ok := x.(map[string]any); ok {
			maps.Copy(out, example)
			break
		}
	}
	return out
}
