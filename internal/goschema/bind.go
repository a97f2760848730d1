package goschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
)

// Bind decodes a value of the JSON model into a variable of the schema's Go type, to which into points. It returns the first
// place, in the order of keys, where the value does not fit, or nil.
func (s *Schema) Bind(v, into any) *Problem {
	if p := s.Check(v); p != nil {
		return p
	}
	if err := value.Bind(v, into, false); err != nil {
		return findFault(v, reflect.TypeOf(into).Elem(), err)
	}
	return nil
}

// findFault returns the place of the innermost part that encoding/json refuses, of a value that it refuses with err.
func findFault(v any, t reflect.Type, err error) *Problem {
	for t.Kind() == reflect.Pointer && !saysItsJSON(t) {
		t = t.Elem()
	}
	if scalarOf(t, reading) != nil {
		return &Problem{"", describeFault(err)}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if fault := bindAlone(map[string]any{key: v[key]}, t); fault != nil {
				return findFaultOfPart(v[key], typeOfPart(t, key), fault).moveWithin(key)
			}
		}
	case []any:
		for i, e := range v {
			if t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
				break
			}
			if fault := bindAlone(e, t.Elem()); fault != nil {
				return findFault(e, t.Elem(), fault).moveWithin("[" + strconv.Itoa(i) + "]")
			}
		}
	}
	return &Problem{"", describeFault(err)}
}

// findFaultOfPart is findFault for a part that its owner refuses. A part whose type is nil, or which has no fault of its own, is the place.
func findFaultOfPart(v any, t reflect.Type, fault error) *Problem {
	if t != nil {
		if own := bindAlone(v, t); own != nil {
			return findFault(v, t, own)
		}
	}
	return &Problem{"", describeFault(fault)}
}

func bindAlone(v any, t reflect.Type) error { return value.Bind(v, reflect.New(t).Interface(), false) }

// typeOfPart returns the type of a part of an object, or nil where it is not decoded as a value of that type.
func typeOfPart(t reflect.Type, key string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var folded reflect.Type
	for _, f := range fieldsOf(t) {
		switch {
		case f.quoted:
		case f.name == key:
			return f.Type
		case foldCase(f.name) == foldCase(key):
			folded = f.Type
		}
	}
	return folded
}

// describeFault returns the text of an error of encoding/json, without the place in the Go type, which the problem has.
func describeFault(err error) string {
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Sprintf("%s does not fit %s", wrong.Value, wrong.Type)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
