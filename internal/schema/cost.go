package schema

import (
	"iter"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-run/pawl/internal/expr"
)

// The costs of parts of a check, in units of about 100 ns.
const (
	partCost   = 5  // to apply one schema to one value
	numberCost = 10 // to read a number as a fraction, or to compare two
	bytesPrice = 16 // so many bytes of a text are read or hashed for one unit
)

// A meter counts down what a check may still cost; less than 0 ends the walk. It walks over schema and value as
// the library does, but goes into every alternative: it decides nothing but where a type does not fit. The sum may be
// too high, and must not be too low: a schema cannot make a check cost more than was counted.
type meter struct {
	left        int  // units
	depth       int  // lists and objects that the walk is in
	tooDeep     bool // why it has ended
	unevaluated bool
	whole       bool // the library tells each violation
}

// maxCheckedDepth bounds the lists and objects inside each other of a value that is
// checked. State may be as deep as a path and the value that is written there.
const maxCheckedDepth = 512

// apply pays for a schema that applies to v, beneath so many others that do. above is how many schemas lead to this
// one for the same value: the library goes through them to see that it is not in a circle.
func (m *meter) apply(s *jsonschema.Schema, v any, above int) {
	// Nothing is counted any more: the check will be refused.
	if m.left < 0 {
		return
	}
	if m.whole {
		m.left -= partCost // each violation is told
	}
	m.left -= partCost + above/8 + m.depth/4 // the library looks among those above for itself; each error has the whole path
	// The library looks no further into a value of another type.
	if s.Bool != nil || s.Types != nil && !fitsTypes(s.Types, v) {
		return
	}
	// The following keywords are paid for by the kind of the value: most of them concern one kind only.
	m.payForConstants(s, v)
	switch v := v.(type) {
	case map[string]any:
		if m.enterContainer() {
			m.payForObject(s, v, above)
			m.depth--
		}
	case []any:
		if m.enterContainer() {
			m.payForList(s, v)
			m.depth--
		}
	case string:
		m.payForText(s, v)
	// Only constants can say something of these.
	case nil, bool:
	default:
		m.payForNumber(s)
	}
	// The library ends at the first alternative that fits; here all are paid for.
	m.applyAll(s.AllOf, v, above+1)
	m.applyAll(s.AnyOf, v, above+1)
	m.applyAll(s.OneOf, v, above+1)
	for _, part := range [...]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if part != nil {
			m.apply(part, v, above+1)
		}
	}
}

// enterContainer reports whether a list or an object is within the bound of depth; the walk
// ends at one that is not.
func (m *meter) enterContainer() bool {
	if m.depth == maxCheckedDepth {
		m.left, m.tooDeep = -1, true
		return false
	}
	// The caller leaves with depth--.
	m.depth++
	return true
}

// applyAll applies each of some schemas to the same value. The rest of them is left out once the bound is passed:
// apply returns at once.
func (m *meter) applyAll(parts []*jsonschema.Schema, v any, above int) {
	for _, part := range parts {
		m.apply(part, v, above)
	}
}

// fitsTypes reports whether v may have one of the types. A number may be an integer.
func fitsTypes(types *jsonschema.Types, v any) bool {
	var fitting jsonschema.Types
	switch v.(type) {
	case nil:
		fitting.Add("null")
	case bool:
		fitting.Add("boolean")
	case string:
		fitting.Add("string")
	case []any:
		fitting.Add("array")
	case map[string]any:
		fitting.Add("object")
	// The library tells them apart; whatever is a number here may be both.
	default:
		fitting.Add("integer")
		fitting.Add("number")
	}
	return *types&fitting != 0
}

// payForConstants pays for the comparisons with constants and for the format. An enumeration is compared with one
// constant after the other.
func (m *meter) payForConstants(s *jsonschema.Schema, v any) {
	if s.Const != nil {
		m.left -= m.costOfEquality(v, *s.Const)
	}
	if s.Enum != nil {
		// Constants of another kind cost little, and are looked at as well.
		m.left -= 1 + len(s.Enum.Values)/8
		for _, constant := range s.Enum.Values {
			m.left -= m.costOfEquality(v, constant)
		}
	}
	if text, ok := v.(string); ok && s.Format != nil {
		m.left -= len(text) // some are patterns to be compiled
	}
}

// costOfEquality returns what it costs to compare a value with a constant. Values of different kinds, and texts of
// different lengths, are told apart at once. A list or an object of the same length is compared to the end, as far as
// the cost goes.
func (m *meter) costOfEquality(v, constant any) int {
	switch v := v.(type) {
	case nil, bool:
		return 0
	case string:
		if other, ok := constant.(string); ok && len(v) == len(other) {
			return len(v) / bytesPrice
		}
		return 0
	// Lists of the same length may differ in the last item only.
	case []any:
		if other, ok := constant.([]any); !ok || len(v) != len(other) {
			return 0
		}
	case map[string]any:
		if other, ok := constant.(map[string]any); !ok || len(v) != len(other) {
			return 0
		}
	default:
		switch constant.(type) {
		case nil, bool, string, []any, map[string]any:
			return 0
		}
	}
	// Not more is compared than the constant has.
	return m.costOfValue(constant)
}

// costOfValue returns what it costs to compare or to hash a value.
func (m *meter) costOfValue(v any) int {
	switch v := v.(type) {
	case nil, bool:
		return 1
	case string:
		return 1 + len(v)/bytesPrice
	case []any:
		// A list costs what is in it, and one for itself.
		return m.costOfItems(slices.Values(v))
	// Keys are hashed as well.
	case map[string]any:
		return m.costOfItems(maps.Values(v)) + 2*len(v)
	default:
		return numberCost
	}
}

// costOfItems returns what it costs to go through items, at most a little more than is left.
func (m *meter) costOfItems(items iter.Seq[any]) int {
	cost := 1
	if !m.enterContainer() {
		return cost
	}
	defer func() { m.depth-- }()
	for item := range items {
		// More than this is refused whatever it is.
		if cost > m.left {
			break
		}
		cost += m.costOfValue(item)
	}
	return cost
}

// payForNumber pays for comparisons, which are of fractions, and for a division.
func (m *meter) payForNumber(s *jsonschema.Schema) {
	if s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil {
		m.left -= numberCost
	}
	// A division of fractions, whose result is looked at.
	if s.MultipleOf != nil {
		m.left -= 3 * numberCost
	}
}

// payForText pays for the length of a text, which is counted in code points, and for its pattern.
func (m *meter) payForText(s *jsonschema.Schema, text string) {
	m.left -= len(text) / bytesPrice
	// A pattern has no backtracking: its cost grows with the text alone.
	if s.Pattern != nil {
		m.left -= costOfMatch(s.Pattern, len(text))
	}
}

// costOfMatch returns what a pattern costs on so many bytes. All are made by a patternCompiler.
func costOfMatch(pattern jsonschema.Regexp, bytes int) int {
	return pattern.(*expr.Pattern).Cost(bytes)
}

// payForList pays for the items of a list, each by what applies to it: a part of its own, the one for the rest, or
// those for all.
func (m *meter) payForList(s *jsonschema.Schema, list []any) {
	// The library notes of each item whether some part has looked at it.
	if m.unevaluated {
		m.left -= len(list)
	}
	if s.UniqueItems {
		m.left -= m.costOfUnique(list)
	}
	prefix := s.PrefixItems
	// Drafts before 2020-12 wrote both with items.
	if parts, ok := s.Items.([]*jsonschema.Schema); ok {
		prefix = parts
	}
	rest := s.Items2020
	for _, part := range []any{s.Items, s.AdditionalItems} {
		if part, ok := part.(*jsonschema.Schema); ok {
			rest = part
		}
	}
	// An item begins anew with no schemas above it: it is another value.
	for i, item := range list {
		switch {
		// A long list is not walked to its end when the check is refused already.
		case m.left < 0:
			return
		// An item has a part of its own, or the one for the rest, never both.
		case i < len(prefix):
			m.apply(prefix[i], item, 0)
		case rest != nil:
			m.apply(rest, item, 0)
		}
		// contains is tried with every item; unevaluatedItems is paid for as if no other part had seen any.
		for _, part := range [...]*jsonschema.Schema{s.Contains, s.UnevaluatedItems} {
			if part != nil {
				m.apply(part, item, 0)
			}
		}
	}
}

// costOfUnique returns what it costs to find equal items: a few are compared in pairs, many
// are hashed.
func (m *meter) costOfUnique(list []any) int {
	// Each item is compared with all others: the sum of all items, as often as there are items.
	if len(list) <= 20 {
		return len(list) * m.costOfValue(list)
	}
	// A hash of each item, and some comparisons of those whose hashes are the same.
	return 2 * m.costOfValue(list)
}

// payForObject pays for the properties of an object, and for what depends on whether some are there.
func (m *meter) payForObject(s *jsonschema.Schema, object map[string]any, above int) {
	// Whether the required ones are there is looked at one by one.
	m.left -= len(object) + len(s.Required) + len(s.DependentRequired) + len(s.Dependencies) + len(s.DependentSchemas)
	if m.unevaluated {
		m.left -= len(object)
	}
	// The order of the map makes no difference to a sum. If the bound is passed, the walk may end at another property
	// each time, and the check is refused all the same.
	for name, v := range object {
		if m.left < 0 {
			return
		}
		m.payForProperty(s, name, v)
	}
	for name, part := range s.DependentSchemas {
		if _, ok := object[name]; ok {
			m.apply(part, object, above+1)
		}
	}
	for name, required := range s.DependentRequired {
		if _, ok := object[name]; ok {
			m.left -= len(required)
		}
	}
	for name, dependency := range s.Dependencies {
		// A dependency on what is not there is not looked at.
		if _, ok := object[name]; !ok {
			continue
		}
		switch dependency := dependency.(type) {
		case *jsonschema.Schema:
			m.apply(dependency, object, above+1)
		case []string:
			m.left -= len(dependency)
		}
	}
}

// payForProperty pays for one property. If no other keyword of s names the property, the schema of further properties
// applies to it as well.
func (m *meter) payForProperty(s *jsonschema.Schema, name string, v any) {
	// A property may be named and match patterns as well: all of them apply.
	part, known := s.Properties[name]
	if known {
		m.apply(part, v, 0)
	}
	for pattern, part := range s.PatternProperties {
		// The library matches a name, and so does the walk here.
		if m.left -= 2 * costOfMatch(pattern, len(name)); m.left < 0 {
			return
		}
		if pattern.MatchString(name) {
			known = true
			m.apply(part, v, 0)
		}
	}
	// These are the properties that no other keyword of the same schema names.
	if part, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !known {
		m.apply(part, v, 0)
	}
	// A name is a value like another, with a schema of its own.
	if s.PropertyNames != nil {
		m.apply(s.PropertyNames, name, 0)
	}
	if s.UnevaluatedProperties != nil {
		m.apply(s.UnevaluatedProperties, v, 0)
	}
}
