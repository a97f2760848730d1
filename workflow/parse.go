package workflow

import (
	"bytes"
	"errors"
)

// Parse reads a definition from JSON, if its first character is {, and else
// from YAML; see [ParseJSON] and [ParseYAML].
func Parse(data []byte) (*Definition, error) {
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		return ParseJSON(data)
	}
	return ParseYAML(data)
}

// ParseJSON reads a definition from JSON. Unknown fields, keys that are there
// twice, and values of another type than the field's are refused. The error is
// a *DefinitionError, which names every problem with its place.
//
// What a text says is not checked here: see [Definition.Validate], whose
// problems name the places in the text as well.
func ParseJSON(data []byte) (*Definition, error) { return Bounds{}.parse(data, readJSON) }

// ParseYAML reads a definition from one document of YAML 1.2; see [ParseJSON].
// Ids, names and codes that YAML does not take for strings, such as 1 or null,
// and those that some readers do not, such as yes or off, need quotes.
func ParseYAML(data []byte) (*Definition, error) { return Bounds{}.parse(data, readYAML) }

func (b Bounds) parse(data []byte, read func([]byte) (*element, error)) (*Definition, error) {
	p := &parser{}
	if most := b.withDefaults().Bytes; len(data) > most {
		p.report(ProblemTooLarge, "%d bytes are more than %d", len(data), most)
		return nil, p.error("")
	}
	e, err := read(data)
	if err != nil {
		p.syntax(err)
		return nil, p.error("")
	}
	p.here = place{line: e.line, column: e.column}
	d := &Definition{}
	p.own(owner{places: &d.places}, func() { p.fields(e, definitionFormat(d)) })
	if len(p.problems) > 0 {
		return nil, p.error(d.Name)
	}
	return d, nil
}

func (p *parser) syntax(err error) {
	var at *syntaxError
	if errors.As(err, &at) {
		p.here = place{line: at.line, column: at.column}
	}
	code := ProblemSyntax
	if errors.Is(err, errTooLarge) {
		code = ProblemTooLarge
	}
	p.report(code, "%s", err)
}

func (p *parser) error(name string) error {
	return &DefinitionError{Name: name, Problems: p.problems}
}

// UnmarshalJSON implements [encoding/json.Unmarshaler]; see [ParseJSON].
func (d *Definition) UnmarshalJSON(data []byte) error {
	parsed, err := ParseJSON(data)
	if err != nil {
		return err
	}
	*d = *parsed
	return nil
}
