package goschema

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
)

// Check returns the first place, in the order of keys, where a value of the JSON model does not fit, or nil. A null
// counts as absent where something may be absent: as the value itself, and as a field of a struct.
func (s *Schema) Check(v any) *Problem {
	s = s.Resolve()
	if v == nil {
		return nil
	}
	if p := s.checkType(v); p != nil {
		return p
	}
	switch v := v.(type) {
	case map[string]any:
		return s.checkObject(v)
	case []any:
		return s.checkList(v)
	}
	return nil
}

func (s *Schema) checkList(list []any) *Problem {
	if s.Length != nil && len(list) != *s.Length {
		return &Problem{"", fmt.Sprintf("it has the length %d, and %s has %d", len(list), s.Go, *s.Length)}
	}
	if s.Items == nil {
		return nil
	}
	for i, e := range list {
		if p := s.Items.checkPart(e); p != nil {
			return p.moveWithin("[" + strconv.Itoa(i) + "]")
		}
	}
	return nil
}

// checkPart is Check for an element of a list or a value of a map, which cannot be absent: null is one only if the Go type has a nil, or says its JSON itself.
func (s *Schema) checkPart(v any) *Problem {
	if of := s.Resolve(); v == nil && !s.Nullable && of.Type != "" {
		return &Problem{"", fmt.Sprintf("it is null, and %s is of type %s", of.Go, of.Type)}
	}
	return s.Check(v)
}

func (s *Schema) checkObject(object map[string]any) *Problem {
	if len(s.Properties) == 0 && s.Additional == nil {
		return nil
	}
	for _, name := range s.Required {
		if object[name] != nil {
			continue
		}
		if !s.hasFolded(object, name) {
			return &Problem{name, fmt.Sprintf("it is missing (%s)", s.Properties[name].Go)}
		}
	}
	for key, v := range object {
		if s.checkField(key, v) == nil {
			continue
		}
		for _, first := range slices.Sorted(maps.Keys(object)) { // the same one whenever it is asked
			if p := s.checkField(first, object[first]); p != nil {
				return p
			}
		}
	}
	return nil
}

func (s *Schema) checkField(key string, v any) *Problem {
	p, name := s.Property(key)
	if p == nil {
		if s.IsOpen() {
			return nil
		}
		return &Problem{key, fmt.Sprintf("%s has no such field%s", s.Go, s.Suggest(key))}
	}
	check := p.Check
	if s.Properties[name] == nil {
		check = p.checkPart
	}
	if problem := check(v); problem != nil {
		return problem.moveWithin(key)
	}
	return nil
}

// hasFolded says whether an object has a field by another case of its name, as encoding/json takes it.
func (s *Schema) hasFolded(object map[string]any, name string) bool {
	for key, v := range object {
		if v != nil && foldCase(key) == foldCase(name) && s.Properties[key] == nil {
			return true
		}
	}
	return false
}

// Suggest returns the names that a key may stand for, as the end of a sentence.
func (s *Schema) Suggest(key string) string {
	names := slices.Sorted(maps.Keys(s.Properties))
	for _, name := range names {
		if value.NearlyEqual(key, name) {
			return fmt.Sprintf(": did you mean %q?", name)
		}
	}
	if len(names) == 0 {
		return ": it has none"
	}
	known := ": there are " + strings.Join(names[:min(len(names), maxNames)], ", ")
	if len(names) > maxNames {
		known += fmt.Sprintf(" and %d more", len(names)-maxNames)
	}
	return known
}

// maxNames bounds the fields that a problem lists.
const maxNames = 10

// checkType compares the kind of a value, which is not null, and what the tag enum lists.
func (s *Schema) checkType(v any) *Problem {
	if got := typeOf(v); s.Type != "" && s.Type != got && (s.Type != "number" || got != "integer") {
		return &Problem{"", fmt.Sprintf("it is of type %s, and %s is of type %s", got, s.Go, s.Type)}
	}
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		return &Problem{"", fmt.Sprintf("it is %s, and %s is one of %s", value.Shorten(string(value.Encode(v)), 100), s.Go, value.Encode(s.Enum))}
	}
	return nil
}

// typeOf returns the type of a value of the JSON model, by the names of JSON Schema. A float without a fraction is an
// integer.
func typeOf(v any) string {
	switch v := v.(type) {
	case bool:
		return "boolean"
	case string:
		return "string"
	case int64:
		return "integer"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// moveWithin returns the problem of a part as one of the whole.
func (p *Problem) moveWithin(step string) *Problem {
	if p.Path != "" && p.Path[0] != '[' {
		step += "."
	}
	p.Path = step + p.Path
	return p
}
