package workflow

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/reading"
	"github.com/pawl-run/pawl/internal/value"
)

// Parse reads a definition from JSON, if its first character is {, and else from YAML; see [ParseJSON] and
// [ParseYAML]. JSON is YAML as well, but has its own error messages.
func Parse(data []byte) (*Definition, error) {
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		return ParseJSON(data)
	}
	return ParseYAML(data)
}

// MustParse is Parse for a definition that is part of the program, such as an embedded file: it panics where Parse fails.
func MustParse(data []byte) *Definition {
	d, err := Parse(data)
	if err != nil {
		panic(fmt.Sprintf("workflow: parse a definition of the program: %v", err))
	}
	return d
}

// ParseJSON reads a definition from JSON. It refuses unknown fields, duplicate
// keys, and values of another type than the field's. The error is
// a *DefinitionError, which names every problem with its place.
//
// The meaning of a text is not checked here: see [Definition.Validate], whose problems name the places in
// the text as well. Only for a text with other problems, ParseJSON also reports ids that no node has.
func ParseJSON(data []byte) (*Definition, error) { return Bounds{}.ParseJSON(data) }

// ParseYAML reads a definition from one document of YAML 1.2; see [ParseJSON].
// Ids, names and codes that YAML does not read as strings, such as 1 or null,
// or that some YAML readers do not, such as yes or off, need quotes.
func ParseYAML(data []byte) (*Definition, error) { return Bounds{}.ParseYAML(data) }

// definitionTexts reads the texts of definitions.
var definitionTexts = document.Reader{Noun: "definition", Depth: value.DefaultDepth}

// ParseJSON reads a definition within the bounds; see [ParseJSON].
func (b Bounds) ParseJSON(data []byte) (*Definition, error) {
	return b.parseText(data, definitionTexts.ReadJSON)
}

// ParseYAML reads a definition within the bounds; see [ParseYAML].
func (b Bounds) ParseYAML(data []byte) (*Definition, error) {
	return b.parseText(data, definitionTexts.ReadYAML)
}

// parseText reads a definition with one of the readers. The size of the text is looked at before anything is made of it.
func (b Bounds) parseText(data []byte, read func([]byte) (*document.Element, error)) (*Definition, error) {
	p := newParser(place{})
	if most := b.withDefaults().Bytes; len(data) > most {
		p.ReportProblem(problem.TooLarge, "%d bytes are more than %d", len(data), most)
		return nil, p.definitionError("")
	}
	e, err := read(data)
	if err != nil {
		p.ReportSyntax(err)
		return nil, p.definitionError("")
	}
	return b.ParseElement(*e)
}

// elements gives [Bounds] a method for package pawltest.
type elements struct{}

// ParseElement reads a definition that is a part of a text, such as a scenario,
// in which its problems have their places; see [ParseJSON]. Nobody outside of this module can make an element.
func (elements) ParseElement(e document.Element) (*Definition, error) {
	p := newParser(place{Line: e.Line, Column: e.Column})
	d := &Definition{}
	p.readOwned(owner{places: &d.places}, func() { p.readFields(&e, definitionFormat(d)) })
	if len(p.problems) > 0 {
		p.addGraphProblems(d)
		return nil, p.definitionError(d.Name)
	}
	return d, nil
}

// addGraphProblems adds ids that no node has, or two have, to the problems of a text, if all of its nodes could be read: then the ids are
// wrong whatever else is, and nobody has to mend the rest to learn of them.
func (p *parser) addGraphProblems(d *Definition) {
	if len(d.Nodes) == 0 || len(p.problems) >= reading.MaxProblems || slices.ContainsFunc(p.problems, func(q Problem) bool {
		return q.Node == "" && q.Transition == "" && strings.HasPrefix(q.Field, "nodes")
	}) {
		return
	}
	read := p.problems
	for _, found := range newChecker(d.completed()).checkGraphIDs() {
		if !slices.ContainsFunc(read, found.isBeside) {
			p.problems = append(p.problems, found)
		}
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	p.problems = p.problems[:min(len(p.problems), reading.MaxProblems)]
}

// isBeside reports whether q is a problem of the same list, whose items without a problem may have another index than in the text.
func (p Problem) isBeside(q Problem) bool {
	list, _, isItem := strings.Cut(p.Field, "[")
	return isItem && p.Node == q.Node && p.Transition == q.Transition && strings.HasPrefix(q.Field, list+"[")
}

// definitionError returns what the parser has found as one error.
func (p *parser) definitionError(name string) error {
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
