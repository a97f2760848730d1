package workflow

import (
	"regexp"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/reading"
)

// A place is where a field of a node, a transition or a definition was written.
type place = reading.Place

// places are those of the fields of one node, transition or definition.
type places reading.Places

func (ps places) findPlace(field string) place { return reading.Places(ps).Find(field) }

// Place returns the line and column, from 1, of a field, or of the part around it that was written; 0 in a definition that was made in Go.
func (ps places) Place(_ expr.Pass, field string) (line, column int) {
	at := ps.findPlace(field)
	return at.Line, at.Column
}

// An owner is what the fields at hand belong to. Problems name it, and places are kept in it.
type owner struct {
	node       NodeID
	transition TransitionID
	prefix     string // of fields, if there is no id
	places     *places
}

// A parser reads elements into a definition and collects what is wrong.
type parser struct {
	reading.Reader
	owner    owner
	problems []Problem
}

// newParser returns a parser of a text, or of a part of one, that begins at a place. It has no owner yet.
func newParser(at place) *parser {
	p := &parser{}
	p.Here = at
	p.Tell = func(code, message string) {
		p.problems = append(p.problems, Problem{
			Code: code, Message: message, Node: p.owner.node, Transition: p.owner.transition,
			Field: p.owner.prefix + p.Here.Field, Line: p.Here.Line, Column: p.Here.Column,
		})
	}
	p.Note = func(at place) { *p.owner.places = append(*p.owner.places, at) }
	return p
}

// readOwned reads something whose fields belong to o. The fields in it are named from there on: a problem says node
// "a": retry.jitter, and not nodes[3].retry.jitter, unless the node has no id.
func (p *parser) readOwned(o owner, read func()) {
	// The path begins anew: fields of a node are named from the node on.
	outer, here := p.owner, p.Here
	if o.node == "" && o.transition == "" && here.Field != "" {
		o.prefix = here.Field + "."
	}
	p.owner, p.Here = o, place{Line: here.Line, Column: here.Column}
	p.NotePlace()
	read()
	reading.Places(*o.places).Sort()
	p.owner, p.Here = outer, here
}

// readFields reads the members of an object into fields.
func (p *parser) readFields(e *document.Element, fields []field) {
	reading.ReadFields(&p.Reader, e, fields, func(f field, e *document.Element) { f.read(p, e) })
}

// readName returns a string that is not empty, as [reading.Reader.ReadText] does, and none that is a boolean elsewhere.
func (p *parser) readName(e *document.Element) (string, bool) {
	// In quotes it is a text for everybody.
	if e.Kind == document.String && e.Plain && ambiguous.MatchString(e.Text) {
		p.ReportProblem(problem.WrongType, "%s is a boolean for some readers of YAML: write %q, in quotes", e.Text, e.Text)
		return "", false
	}
	return p.ReadText(e)
}

// ambiguous are plain words that YAML 1.1 reads as booleans, and YAML 1.2 as
// strings.
var ambiguous = regexp.MustCompile(`^(?i:yes|no|on|off)$`)

// readExpression returns the source of an expression: a text, or a number or bool as it is written.
func (p *parser) readExpression(e *document.Element) string {
	switch e.Kind {
	case document.Number, document.Bool:
		return e.Text
	case document.String:
		if e.Text == "" {
			p.ReportProblem(problem.Missing, "the expression is empty")
		}
		return e.Text
	// Every kind is named, so that a new one is not passed over.
	case document.Invalid, document.Null, document.List, document.Object:
	}
	p.ReportType(e, "an expression, a string,")
	return ""
}
