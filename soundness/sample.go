package soundness

import (
	"maps"
	"slices"
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
// one without. They need not be all valid, since patterns, lengths and exclusive bounds are not
// read: the planner refuses a value that the schema does not allow, and tryMove takes that for
// a wrong guess.
func schemaPool(schema any) []any {
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
	switch m["type"] {
	case "boolean":
		return []any{true, false}
	case "integer", "number":
		// Bounds that are no integers are not read, as if there were none.
		low, hasLow := m["minimum"].(int64)
		high, hasHigh := m["maximum"].(int64)
		switch {
		case hasLow && hasHigh:
			return []any{low, high}
		case hasLow:
			return []any{low, low + 1}
		case hasHigh:
			return []any{high, high - 1}
		}
		return []any{int64(1), int64(0)}
	case "string":
		return []any{"a", ""}
	case "array":
		items := sampleOf(m["items"])
		if items == nil {
			items = int64(1)
		}
		return []any{[]any{items}, []any{}}
	case "object":
		return []any{sampleOf(schema)}
	case "null":
		return []any{nil}
	}
	return nil
}

// sampleOf returns a value that a schema allows, with all its properties; nil without one.
//
// It is the base into which the values that matter are put: required fields must be there for
// the schema to let it through, and optional ones do no harm. A property of which nothing is
// known is left out.
func sampleOf(schema any) any {
	m, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	properties, isObject := m["properties"].(map[string]any)
	if m["type"] == "object" || m["type"] == nil && isObject {
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if x := sampleOf(properties[name]); x != nil {
				out[name] = x
			}
		}
		return out
	}
	if pool := schemaPool(schema); len(pool) > 0 {
		return pool[0]
	}
	return nil
}
