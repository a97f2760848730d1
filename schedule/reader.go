package schedule

import (
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/reading"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A field is one field of the format: how it is read, and how it is written; nil leaves it out.
type field struct {
	name  string
	read  func(*reader, *document.Element)
	write func() any
}

// FieldName implements reading.Named.
func (f field) FieldName() string { return f.name }

// A reader reads elements into schedules and collects what is wrong. The path of a place in a schedule leaves out the first base bytes of
// that from the beginning of the text.
type reader struct {
	reading.Reader
	base     int
	places   *reading.Places // of the schedule at hand; nil outside of any
	problems []workflow.Problem
}

// newReader returns a reader of a text.
func newReader() *reader {
	r := &reader{}
	r.NoteValues = true // each is an expression
	r.Tell = func(code, message string) {
		r.problems = append(r.problems, workflow.Problem{Code: code, Message: message, Field: r.Here.Field, Line: r.Here.Line, Column: r.Here.Column})
	}
	r.Note = func(at reading.Place) {
		if r.places != nil {
			at.Field = strings.TrimPrefix(at.Field[r.base:], ".")
			*r.places = append(*r.places, at)
		}
	}
	return r
}

// readFields reads the members of an object into fields.
func (r *reader) readFields(e *document.Element, fields []field) {
	reading.ReadFields(&r.Reader, e, fields, func(f field, e *document.Element) { f.read(r, e) })
}

// readInstant returns an instant in UTC.
func (r *reader) readInstant(e *document.Element) time.Time {
	if e.Kind != document.String {
		r.ReportType(e, "an instant, a string such as 2026-12-01T00:00:00Z,")
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, e.Text)
	if err != nil {
		r.ReportProblem(problem.WrongType, "%q is not an instant in RFC 3339, such as 2026-12-01T00:00:00Z or 2026-12-01T01:00:00+01:00", value.Shorten(e.Text, 40))
		return time.Time{}
	}
	return t.UTC()
}
