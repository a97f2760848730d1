package goschema

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Openness says whether the objects of a JSON Schema may have fields that their Go types lack.
type Openness bool

// The kinds of schemas.
const (
	Closed Openness = false
	Open   Openness = true
)

// The types of the root package that are no values of their own, which imports this one.
const (
	taskType     = "github.com/pawl-run/pawl.Task"
	resultType   = "github.com/pawl-run/pawl.Result"
	resultOfType = "github.com/pawl-run/pawl.ResultOf["
)

func qualifiedName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// errUntyped refuses a handler of a task.
var errUntyped = errors.New("input: a handler of a pawl.Task has no types; give the function that pawl.Typed takes")

// OfInput returns the schema of the input of a handler, as encoding/json reads its values.
func OfInput(t reflect.Type) (*Schema, error) {
	if qualifiedName(t) == taskType {
		return nil, errUntyped
	}
	s, err := deriveSchema(t, reading)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	return s, nil
}

// OfOutput returns the schema of the output of a handler: that of a pawl.ResultOf is the schema of its Output, and that of a pawl.Result, or of
// what a reader reads, is any. A pointer to a result counts as the result.
func OfOutput(t reflect.Type) (*Schema, error) {
	result := t
	if t.Kind() == reflect.Pointer {
		result = t.Elem()
	}
	if name := qualifiedName(result); strings.HasPrefix(name, resultOfType) {
		output, _ := result.FieldByName("Output")
		return OfOutput(output.Type)
	} else if name == resultType || t.Implements(reader) && !saysItsJSON(t) {
		return &Schema{}, nil
	}
	s, err := Of(t)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return s, nil
}

// JSONSchema returns the schema as a value of the JSON model, for a definition. It takes what encoding/json writes for
// the Go type, null for a nil pointer, slice or map as well.
func (s *Schema) JSONSchema(open Openness) map[string]any {
	out := map[string]any{}
	set := func(key string, v any, is bool) {
		if is {
			out[key] = v
		}
	}
	set("description", s.Description, s.Description != "")
	if s.Ref != "" {
		out["$ref"] = s.Ref
		return s.orNull(out)
	}
	set("type", s.Type, s.Type != "")
	set("format", s.Format, s.Format != "")
	set("contentEncoding", s.Encoding, s.Encoding != "")
	set("enum", slices.Clone(s.Enum), len(s.Enum) > 0)
	if s.Items != nil {
		out["items"] = s.Items.JSONSchema(open)
	}
	set("properties", documentsOf(s.Properties, open), len(s.Properties) > 0)
	required := make([]any, len(s.Required))
	for i, name := range s.Required {
		required[i] = name
	}
	set("required", required, len(required) > 0)
	switch additional := s.Additional.(type) {
	case *Schema:
		out["additionalProperties"] = additional.JSONSchema(open)
	case bool:
		set("additionalProperties", additional, open == Closed)
	}
	set("$defs", documentsOf(s.Defs, open), len(s.Defs) > 0)
	return s.orNull(out)
}

// orNull lets a JSON Schema take null, if the Go type may be nil.
func (s *Schema) orNull(schema map[string]any) map[string]any {
	switch {
	case !s.Nullable || s.Ref == "" && s.Type == "":
	case s.Ref != "":
		delete(schema, "$ref")
		schema["anyOf"] = []any{map[string]any{"$ref": s.Ref}, map[string]any{"type": "null"}}
	default:
		schema["type"] = []any{s.Type, "null"}
		if len(s.Enum) > 0 {
			schema["enum"] = append(slices.Clone(s.Enum), nil)
		}
	}
	return schema
}

func documentsOf(parts map[string]*Schema, open Openness) map[string]any {
	out := make(map[string]any, len(parts))
	for name, s := range parts {
		out[name] = s.JSONSchema(open)
	}
	return out
}
