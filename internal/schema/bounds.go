package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/limits"
)

// maxWeight bounds the weight of a schema: about a second of a processor and 250 MB,
// if all of it is wrong and each place is told.
const maxWeight = 400_000

// A size says how large a document is that is to be a schema. It counts before anything is compiled, so it
// cannot tell a schema from an object that only looks like one, and takes all for schemas.
type size struct {
	subschemas int // there may be: everything that is an object or a bool
	weight     int // of all values: what it costs to find them wrong grows with their depth
}

// addValue counts what is in a document so many levels deep, but for what is there as a value. The walk ends at the
// bound: a document may be deeper and larger than anybody would wait for.
func (s *size) addValue(doc any, depth int) {
	if s.weight += 8 + depth; s.weight > maxWeight {
		return
	}
	switch doc := doc.(type) {
	// true and false are schemas wherever a schema may stand.
	case bool:
		s.subschemas++
	case map[string]any:
		s.subschemas++
		for name, v := range doc {
			switch name {
			// These hold values, which are no schemas whatever they look like.
			case "enum", "const", "default", "examples":
			default:
				s.addValue(v, depth+1)
			}
		}
	case []any:
		for _, v := range doc {
			s.addValue(v, depth+1)
		}
	}
}

// CountSubschemas returns how many subschemas a document may have that is to be a schema, as far as its weight is within bounds.
func CountSubschemas(doc any) int {
	var all size
	all.addValue(doc, 0)
	return all.subschemas
}

// checkSize returns an error if a document is too large to be a schema.
func checkSize(doc any) error {
	var all size
	all.addValue(doc, 0)
	switch {
	case all.subschemas > limits.MaxSubschemas:
		return fmt.Errorf("%d subschemas are more than %d", all.subschemas, limits.MaxSubschemas)
	case all.weight > maxWeight:
		return fmt.Errorf("its values weigh more than %d, where each counts 8 and its depth", maxWeight)
	}
	return nil
}

// maxPatternBytes bounds the source of all patterns of a schema, in bytes.
const maxPatternBytes = 64 << 10

// A patternCompiler compiles the patterns of one schema, within the bounds of those of expressions. A pattern that is
// repeated is compiled once and counted once.
type patternCompiler struct {
	compiled map[string]*expr.Pattern
	bytes    int
}

// compile is called by the library for each pattern that it meets.
func (c *patternCompiler) compile(source string) (jsonschema.Regexp, error) {
	if p, ok := c.compiled[source]; ok {
		return p, nil
	}
	// This comes before the pattern is compiled, which is what costs.
	if c.bytes += len(source); c.bytes > maxPatternBytes {
		return nil, fmt.Errorf("the patterns of the schema have more than %d bytes", maxPatternBytes)
	}
	p, err := expr.CompilePattern(source)
	if err != nil {
		return nil, err
	}
	if c.compiled == nil {
		c.compiled = map[string]*expr.Pattern{}
	}
	c.compiled[source] = p
	return p, nil
}

// paths counts how often the parts of a schema apply to one value, over all paths by which $ref, allOf and such
// lead to them. Example: a refers twice to b, b twice to c, and so on: 20 small parts are a million when a value is
// checked. And a that refers to itself for the same value would be checked for ever.
type paths struct {
	applied     map[*jsonschema.Schema]int // by a part, itself counted; 0 while that is found out
	unevaluated bool
	older       bool // one of its parts is of a draft before 2020-12
}

// follow returns why a schema cannot be used, nil if it can. It visits each part once, from the root on, whatever
// refers to it.
func (p *paths) follow(root *jsonschema.Schema) error {
	seen := map[*jsonschema.Schema]bool{root: true}
	for queue := []*jsonschema.Schema{root}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		// The targets of these depend on the way to them, so that they cannot be counted before.
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return fmt.Errorf("at %s: $dynamicRef and $recursiveRef are not supported: use $ref", s.Location)
		}
		if _, err := p.countApplied(s); err != nil {
			return err
		}
		// Drafts before 2020-12 have keywords that only the library knows.
		p.older = p.older || s.DraftVersion < 2020
		p.unevaluated = p.unevaluated || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
		// The schemas for children are looked at too, with a count of their own.
		for _, part := range append(partsForValue(s), partsForChildren(s)...) {
			if !seen[part] {
				seen[part] = true
				queue = append(queue, part)
			}
		}
	}
	return nil
}

// countApplied returns how many schemas apply to a value if s does, itself counted: the sum over its parts, each
// found once. A part that is met while its own sum is being found out refers to itself.
func (p *paths) countApplied(s *jsonschema.Schema) (int, error) {
	switch n, ok := p.applied[s]; {
	case n > 0:
		return n, nil
	case ok:
		return 0, fmt.Errorf("at %s: it refers to itself for one and the same value", s.Location)
	}
	// A walk that meets this mark on the way down has found a circle.
	p.applied[s] = 0
	// The bound is looked at with each part, so that the sum cannot overflow.
	sum := 1
	for _, part := range partsForValue(s) {
		n, err := p.countApplied(part)
		if err != nil {
			return 0, err
		}
		if sum += n; sum > limits.MaxAppliedSchemas {
			return 0, fmt.Errorf("at %s: its references apply more than %d schemas to one value", s.Location, limits.MaxAppliedSchemas)
		}
	}
	p.applied[s] = sum
	return sum, nil
}

// partsForValue returns the schemas that s applies to the value that it applies to itself. They are what makes a
// check of one value grow. To apply a schema to the children is no danger: children are smaller.
func partsForValue(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := slices.Concat([]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf, sortedParts(s.DependentSchemas))
	// In older drafts a dependency is a schema or a list of names.
	for _, name := range sortedKeys(s.Dependencies) {
		if part, ok := s.Dependencies[name].(*jsonschema.Schema); ok {
			parts = append(parts, part)
		}
	}
	return slices.DeleteFunc(parts, isNoSchema)
}

// partsForChildren returns the schemas that s applies to what is in the value, or to names
// in it.
func partsForChildren(s *jsonschema.Schema) []*jsonschema.Schema {
	var byPattern []*jsonschema.Schema
	for _, pattern := range sortedPatterns(s) {
		byPattern = append(byPattern, s.PatternProperties[pattern])
	}
	parts := slices.Concat(
		[]*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems},
		s.PrefixItems, sortedParts(s.Properties), byPattern,
	)
	// Their types differ from draft to draft, and a bool is no part.
	for _, part := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch part := part.(type) {
		case *jsonschema.Schema:
			parts = append(parts, part)
		case []*jsonschema.Schema:
			parts = append(parts, part...)
		}
	}
	return slices.DeleteFunc(parts, isNoSchema)
}

// sortedPatterns returns the patterns for names of properties that have a schema, in the order of their texts.
func sortedPatterns(s *jsonschema.Schema) []jsonschema.Regexp {
	return slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b jsonschema.Regexp) int { return cmp.Compare(a.String(), b.String()) })
}

// isNoSchema reports whether a part is not there.
func isNoSchema(s *jsonschema.Schema) bool { return s == nil }

// sortedParts returns schemas in the order of their names, so that the first error is always the same one.
func sortedParts(m map[string]*jsonschema.Schema) []*jsonschema.Schema {
	parts := make([]*jsonschema.Schema, 0, len(m))
	for _, name := range sortedKeys(m) {
		parts = append(parts, m[name])
	}
	return parts
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
