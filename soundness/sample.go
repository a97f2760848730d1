package soundness

import (
	"maps"
	"slices"
)

// schemaAt returns the schema of a field; nil if nothing says what it is.
func schemaAt(schema any, path []string) any {
	for _, key := range path {
		m, _ := schema.(map[string]any)
		properties, _ := m["properties"].(map[string]any)
		schema = properties[key]
	}
	return schema
}

// schemaPool returns values that a schema allows, as far as its simple keywords tell.
func schemaPool(schema any) []any {
	m, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
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
