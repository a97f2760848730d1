package workflow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-run/pawl/internal/value"
)

// A Schema is a compiled JSON Schema, draft 2020-12. It refers to nothing
// outside itself. The nil Schema accepts everything.
type Schema struct{ compiled *jsonschema.Schema }

// errNoLoader refuses references to other documents.
var errNoLoader = errors.New("a schema may refer only to itself")

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%w, not to %s", errNoLoader, url)
}

// CompileSchema compiles a schema given as a value; nil gives nil.
func CompileSchema(doc any) (*Schema, error) {
	s, err := newSchemaSource(doc)
	if err != nil {
		return nil, err
	}
	return s.schemaAt()
}

// A schemaSource compiles parts of one document. The zero value is no document.
type schemaSource struct{ compiler *jsonschema.Compiler }

func newSchemaSource(doc any) (schemaSource, error) {
	if doc == nil {
		return schemaSource{}, nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:///schema", doc); err != nil {
		return schemaSource{}, err
	}
	_, err := c.Compile("mem:///schema") // the whole, so that parts are there
	return schemaSource{c}, err
}

// schemaAt compiles the part at the given keys; of no document that is nil.
func (s schemaSource) schemaAt(keys ...string) (*Schema, error) {
	if s.compiler == nil {
		return nil, nil
	}
	fragment := strings.ReplaceAll(value.Pointer(keys), "%", "%25") // RFC 6901, 6
	compiled, err := s.compiler.Compile("mem:///schema#" + fragment)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled}, nil
}

// A SchemaError reports a value that does not fit its schema.
type SchemaError struct {
	Path    string // RFC 6901 pointer into the value
	Message string
}

// Error names the place and what is wrong there.
func (e *SchemaError) Error() string { return fmt.Sprintf("at %q: %s", e.Path, e.Message) }

// Check returns a *SchemaError if v, a value of the JSON model, does not fit s.
func (s *Schema) Check(v any) error {
	if s == nil {
		return nil
	}
	err := s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return &SchemaError{Message: err.Error()}
	}
	for len(ve.Causes) > 0 {
		ve = ve.Causes[0]
	}
	path := ""
	if len(ve.InstanceLocation) > 0 {
		path = "/" + strings.Join(ve.InstanceLocation, "/")
	}
	lines := strings.Split(ve.Error(), "\n")
	message := lines[len(lines)-1]
	if _, after, ok := strings.Cut(message, "': "); ok {
		message = after
	}
	return &SchemaError{Path: path, Message: message}
}
