package goschema

import (
	"fmt"
	"maps"
	"slices"
)

// A Schema says which values a Go type takes, or gives. The zero Schema takes anything.
type Schema struct {
	Type        string             `json:"type,omitzero"` // object, array, string, integer, number, boolean; "" is any
	Description string             `json:"description,omitzero"`
	Format      string             `json:"format,omitzero"`          // date-time, of a string
	Encoding    string             `json:"contentEncoding,omitzero"` // base64, of a string
	Enum        []any              `json:"enum,omitzero"`
	Properties  map[string]*Schema `json:"properties,omitzero"`
	Required    []string           `json:"required,omitzero"`             // sorted
	Additional  any                `json:"additionalProperties,omitzero"` // of an object: false, or the *Schema of what Properties does not name
	Items       *Schema            `json:"items,omitzero"`
	Ref         string             `json:"$ref,omitzero"`  // to one of Defs, of a type that holds itself
	Defs        map[string]*Schema `json:"$defs,omitzero"` // of the root
	Go          string             `json:"x-go,omitzero"`  // the type, or the field as TYPE.FIELD

	Nullable bool `json:"-"` // the Go type writes null for nil
	Length   *int `json:"-"` // of a Go array, which takes no other; no part of a document: it would change published definitions

	folded map[string]string // the names of Properties by their lower case
	target *Schema           // that Ref names
}

// Resolve returns the schema, or the one that it refers to.
func (s *Schema) Resolve() *Schema {
	if s.target != nil {
		return s.target
	}
	return s
}

// Property returns the schema of a field of an object, and the name that the Go type has for it. Like encoding/json it
// finds "name" for a field Name. It returns nil where the object has no such field, or is any.
func (s *Schema) Property(key string) (*Schema, string) {
	s = s.Resolve()
	if p := s.Properties[key]; p != nil {
		return p, key
	}
	if name, ok := s.folded[foldCase(key)]; ok {
		return s.Properties[name], name
	}
	if p, ok := s.Additional.(*Schema); ok {
		return p, key
	}
	return nil, ""
}

// foldNames notes the names by which encoding/json finds a field: of two that differ in case alone the first, in their
// order as texts.
func (s *Schema) foldNames() {
	s.folded = make(map[string]string, len(s.Properties))
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if _, taken := s.folded[foldCase(name)]; !taken {
			s.folded[foldCase(name)] = name
		}
	}
}

// Exact returns the schema of a field by its very name, as an expression reads it, or nil.
func (s *Schema) Exact(key string) *Schema {
	s = s.Resolve()
	if p := s.Properties[key]; p != nil {
		return p
	}
	p, _ := s.Additional.(*Schema)
	return p
}

// IsOpen says whether an object may have fields beside its properties, as every schema that is no object's.
func (s *Schema) IsOpen() bool {
	closed, ok := s.Resolve().Additional.(bool)
	return !ok || closed
}

// A Problem says where a value does not fit a schema.
type Problem struct {
	Path    string // from the value on, such as lines[2].price; "" is the value itself
	Message string
}

// Error names the place below input and what is wrong there.
func (p *Problem) Error() string {
	if p.Path == "" {
		return "input: " + p.Message
	}
	if p.Path[0] == '[' {
		return "input" + p.Path + ": " + p.Message
	}
	return "input." + p.Path + ": " + p.Message
}

// An UnsupportedError names a part of a Go type that JSON cannot represent.
type UnsupportedError struct {
	Place  string // the type, or the field as TYPE.FIELD
	Reason string
}

// Error names the place and the reason.
func (e *UnsupportedError) Error() string { return fmt.Sprintf("%s: %s", e.Place, e.Reason) }
