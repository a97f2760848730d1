package schema

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/pawl-run/pawl/internal/value"
)

// The library tells every violation, which takes some 300 bytes for each that a value has, and
// a list of 1 MB may have as many as it has items, once for each alternative. A violationFinder
// checks large values instead: it walks over schema and value, has the library check what a
// schema asserts of one value itself, and ends at the first violation.
type violationFinder struct {
	own  map[*jsonschema.Schema]*ownSchema
	path []string // of the value
}

// A violation is where a value does not fit, and why: text is made of it only if it is told. Where an alternative
// decides, most violations are found only to be dropped.
type violation struct {
	path []string
	err  error                // of the library
	kind jsonschema.ErrorKind // without err
}

// toError returns the violation as a *Error. An error of the library contributes only its reason: its place is
// within the part that was checked.
func (v *violation) toError() error {
	if v == nil {
		return nil
	}
	found := &Error{}
	// The finder itself has found it, and made no text so far.
	if v.err == nil {
		found.Message = value.Shorten(reasonOf(v.kind), maxMessage)
	} else if !errors.As(errorOf(v.err), &found) {
		return v.err
	}
	found.Path, found.all = value.Pointer(v.path), nil
	return found
}

// findLarge is the cost, in units, from which on a check ends at its first violation. That is some 20 ms.
const findLarge = 200_000

var anything = &jsonschema.Schema{Bool: new(true), DraftVersion: 2020}

// findViolation returns a violation of s in v, nil if v fits. s has none of what [paths] notes as whole. It
// looks at the value itself, then at the parts that apply to it, then into it, so that what is told is the outermost.
func (f *violationFinder) findViolation(s *jsonschema.Schema, v any) *violation {
	// A wrong type ends it here: what is inside a value of another type means nothing.
	err := f.checkOwn(s, v)
	if err == nil {
		err = f.findInParts(s, v)
	}
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case []any:
		return f.findInList(s, v)
	case map[string]any:
		return f.findInObject(s, v)
	default:
		return nil
	}
}

// violationHere returns a violation of the value at hand.
func (f *violationFinder) violationHere(k jsonschema.ErrorKind) *violation {
	return &violation{path: slices.Clone(f.path), kind: k}
}

// An ownSchema is what a schema asserts of one value itself. It is made once for each part of the schema and each
// check.
type ownSchema struct {
	schema *jsonschema.Schema
	plain  bool // it asserts nothing but a type
}

// fitsPlainly reports whether v, which may be of the type, fits for that reason alone. Most parts of most schemas are
// of this kind, and need no call of the library.
func (o *ownSchema) fitsPlainly(v any) bool {
	_, fraction := v.(float64) // it may be no integer
	return o.plain && (o.schema.Types == nil || !fraction)
}

// checkOwn checks what s asserts of v itself. The library would go into everything that a schema applies: it gets a
// copy without that.
func (f *violationFinder) checkOwn(s *jsonschema.Schema, v any) *violation {
	// A list of 100,000 items asks the same part as often.
	own := f.own[s]
	if own == nil {
		own = &ownSchema{schema: ownAssertions(s)}
		own.plain = isPlain(own.schema)
		if f.own == nil {
			f.own = map[*jsonschema.Schema]*ownSchema{}
		}
		f.own[s] = own
	}
	// Most values are found right or wrong by their type alone, without the library.
	switch {
	case s.Types != nil && !fitsTypes(s.Types, v):
		return f.violationHere(&kind.Type{Got: typeName(v), Want: s.Types.ToStrings()})
	case own.fitsPlainly(v):
		return nil
	}
	// The copy applies nothing to the children of v, so that this takes time for v alone.
	if err := own.schema.Validate(v); err != nil {
		return &violation{path: slices.Clone(f.path), err: err}
	}
	return nil
}

// typeName returns the type of a value in the words of the library.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return "number"
	}
}

// isPlain reports whether a schema asserts nothing but a type. It goes by the fields that there are, so that a
// keyword which a later version of the library knows makes a schema no plain one.
func isPlain(s *jsonschema.Schema) bool {
	rest := reflect.ValueOf(s).Elem()
	for i := range rest.NumField() {
		switch field := rest.Type().Field(i); field.Name {
		// These say nothing of a value.
		case "DraftVersion", "Location", "ID", "Anchor", "DynamicAnchor", "RecursiveAnchor", "Types",
			"Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated":
		default:
			if field.IsExported() && !rest.Field(i).IsZero() {
				return false
			}
		}
	}
	return true
}

// ownAssertions returns s without the schemas that it applies. Which properties it knows stays, for those that may
// not be there. To forbid further properties, the library must know the names and patterns of those that may be
// there, whatever they are.
func ownAssertions(s *jsonschema.Schema) *jsonschema.Schema {
	// The parts are left out of the copy; s itself, which others use, stays.
	own := *s
	own.Ref, own.Not, own.If, own.Then, own.Else = nil, nil, nil, nil, nil
	own.AllOf, own.AnyOf, own.OneOf, own.DependentSchemas = nil, nil, nil, nil
	own.PropertyNames, own.Contains, own.MinContains, own.MaxContains = nil, nil, nil, nil
	own.PrefixItems, own.Items2020 = nil, nil
	own.Properties, own.PatternProperties = nil, nil
	switch forbids := s.AdditionalProperties.(type) {
	// findInObject checks further properties.
	case *jsonschema.Schema:
		own.AdditionalProperties = nil
	case bool:
		// The field says true: further properties are allowed, and nothing has to be known.
		if forbids {
			break
		}
		own.Properties = make(map[string]*jsonschema.Schema, len(s.Properties))
		for name := range s.Properties {
			own.Properties[name] = anything
		}
		own.PatternProperties = make(map[jsonschema.Regexp]*jsonschema.Schema, len(s.PatternProperties))
		for pattern := range s.PatternProperties {
			own.PatternProperties[pattern] = anything
		}
	}
	return &own
}

// findInParts looks in the schemas that s applies to the value itself. They are tried in a fixed order, and the first
// violation is the one that is told.
func (f *violationFinder) findInParts(s *jsonschema.Schema, v any) *violation {
	// A clone: the schema's own list must not grow.
	parts := slices.Clone(s.AllOf)
	if s.Ref != nil {
		parts = append(parts, s.Ref)
	}
	if object, ok := v.(map[string]any); ok {
		for _, name := range sortedKeys(s.DependentSchemas) {
			if _, there := object[name]; there {
				parts = append(parts, s.DependentSchemas[name])
			}
		}
	}
	if s.If != nil {
		then := s.Then
		// A value that does not fit if violates nothing: if chooses between the other two.
		if f.findViolation(s.If, v) != nil {
			then = s.Else
		}
		if then != nil {
			parts = append(parts, then)
		}
	}
	for _, part := range parts {
		if err := f.findViolation(part, v); err != nil {
			return err
		}
	}
	// To fit what is forbidden is the violation, and it has no place inside.
	if s.Not != nil && f.findViolation(s.Not, v) == nil {
		return f.violationHere(&kind.Not{})
	}
	return cmp.Or(f.findInAlternatives(s.AnyOf, v, false), f.findInAlternatives(s.OneOf, v, true))
}

// findInAlternatives returns a violation of the first alternative if v fits none, and one of
// their exclusion if it fits two and may fit one only.
func (f *violationFinder) findInAlternatives(parts []*jsonschema.Schema, v any, one bool) (first *violation) {
	fits := -1
	for i, part := range parts {
		switch err := f.findViolation(part, v); {
		case err != nil:
			first = cmp.Or(first, err)
		// anyOf is content with the first that fits.
		case !one:
			return nil
		case fits >= 0:
			return f.violationHere(&kind.OneOf{Subschemas: []int{fits, i}})
		// The first of oneOf that fits: the others must be tried as well.
		default:
			fits = i
		}
	}
	if fits >= 0 {
		return nil
	}
	return first
}

// findInside looks in what is under a key of the value. The path is one slice, which grows and shrinks with the walk:
// whoever keeps it takes a copy.
func (f *violationFinder) findInside(s *jsonschema.Schema, key string, v any) *violation {
	f.path = append(f.path, key)
	defer func() { f.path = f.path[:len(f.path)-1] }()
	return f.findViolation(s, v)
}

// findInList looks in the items of a list, and counts those that must be contained. The first violation ends it,
// before the count is known.
func (f *violationFinder) findInList(s *jsonschema.Schema, list []any) *violation {
	matched := 0
	for i, item := range list {
		part := s.Items2020
		// The items in front have parts of their own, in place of the one for the rest.
		if i < len(s.PrefixItems) {
			part = s.PrefixItems[i]
		}
		if part != nil {
			if err := f.findInside(part, strconv.Itoa(i), item); err != nil {
				return err
			}
		}
		if s.Contains != nil && f.findInside(s.Contains, strconv.Itoa(i), item) == nil {
			matched++
		}
	}
	switch {
	case s.Contains == nil:
	// contains alone asks for one item.
	case s.MinContains == nil && matched == 0:
		return f.violationHere(&kind.Contains{})
	case s.MinContains != nil && matched < *s.MinContains:
		return f.violationHere(&kind.MinContains{Want: *s.MinContains})
	case s.MaxContains != nil && matched > *s.MaxContains:
		return f.violationHere(&kind.MaxContains{Want: *s.MaxContains})
	}
	return nil
}

// findInObject looks at the properties of an object in the order of their names: at the name, and at the value with
// each schema that is for it.
func (f *violationFinder) findInObject(s *jsonschema.Schema, object map[string]any) *violation {
	patterns := sortedPatterns(s)
	for _, name := range sortedKeys(object) {
		// A name is checked as a text; its violation is told of the object.
		if s.PropertyNames != nil {
			if err := f.findViolation(s.PropertyNames, name); err != nil {
				return err
			}
		}
		part, known := s.Properties[name]
		parts := make([]*jsonschema.Schema, 0, 2)
		if known {
			parts = append(parts, part)
		}
		// Several patterns may match, and then all of their schemas apply, in the order of the patterns: what is told is
		// recorded, and planned again.
		for _, pattern := range patterns {
			if pattern.MatchString(name) {
				known, parts = true, append(parts, s.PatternProperties[pattern])
			}
		}
		if part, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !known {
			parts = append(parts, part)
		}
		// The name is part of the path while the value is looked at.
		for _, part := range parts {
			if err := f.findInside(part, name, object[name]); err != nil {
				return err
			}
		}
	}
	return nil
}
