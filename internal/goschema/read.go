package goschema

import (
	"encoding/json"
	"fmt"
	"strings"
)

// UnmarshalJSON reads a schema that was marshaled, as a root: with what its parts refer to.
func (s *Schema) UnmarshalJSON(data []byte) error {
	root, err := readSchema(data)
	if err != nil {
		return err
	}
	if err := root.resolveRefs(root.Defs); err != nil {
		return err
	}
	*s = *root
	return nil
}

// written is a Schema whose parts are not read yet.
type written struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Additional json.RawMessage            `json:"additionalProperties"`
	Items      json.RawMessage            `json:"items"`
	Defs       map[string]json.RawMessage `json:"$defs"`
}

// readSchema reads a schema with its parts. It does not know yet what they refer to.
func readSchema(data []byte) (*Schema, error) {
	var parts written
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	s, err := readScalars(data)
	if err != nil {
		return nil, err
	}
	if s.Properties, err = readSchemas(parts.Properties); err != nil {
		return nil, err
	}
	if s.Defs, err = readSchemas(parts.Defs); err != nil {
		return nil, err
	}
	if parts.Items != nil {
		if s.Items, err = readSchema(parts.Items); err != nil {
			return nil, err
		}
	}
	switch {
	case string(parts.Additional) == "false":
		s.Additional = false
	case parts.Additional != nil && string(parts.Additional) != "true":
		if s.Additional, err = readSchema(parts.Additional); err != nil {
			return nil, err
		}
	}
	for _, name := range s.Required {
		if s.Properties[name] == nil {
			return nil, fmt.Errorf("the schema requires %q, which it does not describe", name)
		}
	}
	s.foldNames()
	return s, nil
}

// readScalars reads the fields of a schema that hold no schemas.
func readScalars(data []byte) (*Schema, error) {
	var s struct {
		Type        string   `json:"type"`
		Description string   `json:"description"`
		Format      string   `json:"format"`
		Encoding    string   `json:"contentEncoding"`
		Enum        []any    `json:"enum"`
		Required    []string `json:"required"`
		Ref         string   `json:"$ref"`
		Go          string   `json:"x-go"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	return &Schema{Type: s.Type, Description: s.Description, Format: s.Format, Encoding: s.Encoding, Enum: s.Enum, Required: s.Required, Ref: s.Ref, Go: s.Go}, nil
}

func readSchemas(parts map[string]json.RawMessage) (map[string]*Schema, error) {
	if parts == nil {
		return nil, nil
	}
	out := make(map[string]*Schema, len(parts))
	for name, data := range parts {
		s, err := readSchema(data)
		if err != nil {
			return nil, err
		}
		out[name] = s
	}
	return out, nil
}

// resolveRefs lets a schema and its parts know what they refer to.
func (s *Schema) resolveRefs(defs map[string]*Schema) error {
	if s == nil {
		return nil
	}
	if s.Ref != "" {
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(s.Ref, "#/$defs/"))
		if s.target = defs[name]; s.target == nil {
			return fmt.Errorf("the schema refers to %q, which it does not define", s.Ref)
		}
		return nil
	}
	additional, _ := s.Additional.(*Schema)
	for _, part := range []*Schema{s.Items, additional} {
		if err := part.resolveRefs(defs); err != nil {
			return err
		}
	}
	for _, group := range []map[string]*Schema{s.Properties, s.Defs} {
		for _, part := range group {
			if err := part.resolveRefs(defs); err != nil {
				return err
			}
		}
	}
	return nil
}
