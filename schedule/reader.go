package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A place is where a field was written; lines and columns count from 1.
type place struct {
	field        string // path from its schedule
	line, column int
}

// places are those of the fields of one schedule, in the order of the text.
type places []place

// findPlace returns the place of a field, or of the field that it is a part of.
func (ps places) findPlace(field string) place {
	for len(ps) > 0 {
		if i := slices.IndexFunc(ps, func(p place) bool { return p.field == field }); i >= 0 {
			return ps[i]
		}
		if field == "" {
			break
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return place{}
}

// A field is one field of the format: how it is read, and how it is written; nil leaves it out.
type field struct {
	name  string
	read  func(*reader, *document.Element)
	write func() any
}

// A reader reads elements into schedules and collects what is wrong, as the parser of package workflow does with
// definitions. here is the place of what is read at the moment; its field is the path from the beginning of the text,
// and the path of a place in a schedule leaves out the first base bytes.
type reader struct {
	here     place
	base     int
	places   *places
	problems []workflow.Problem
}

// maxProblems bounds the problems that are told of one text.
const maxProblems = 1_000

func (r *reader) reportProblem(code, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, workflow.Problem{
			Code: code, Message: fmt.Sprintf(format, args...), Field: r.here.field, Line: r.here.line, Column: r.here.column,
		})
	}
}

func (r *reader) reportType(e *document.Element, what string) {
	r.reportProblem(problem.WrongType, "%s where %s is needed", e.Describe(), what)
}

func (r *reader) isKind(e *document.Element, kind document.Kind) bool {
	if e.Kind != kind {
		r.reportType(e, kind.String())
	}
	return e.Kind == kind
}

// notePlace keeps the place in hand for problems that are found later.
func (r *reader) notePlace() {
	if r.places != nil {
		*r.places = append(*r.places, place{strings.TrimPrefix(r.here.field[r.base:], "."), r.here.line, r.here.column})
	}
}

// atPlace reads something at another place.
func (r *reader) atPlace(p place, read func()) {
	outer := r.here
	r.here = p
	read()
	r.here = outer
}

// readFields reads the members of an object into fields.
func (r *reader) readFields(e *document.Element, fields []field) {
	r.eachMember(e, func(key string, e *document.Element) {
		for i := range fields {
			if fields[i].name == key {
				r.notePlace()
				fields[i].read(r, e)
				return
			}
		}
		r.reportProblem(problem.UnknownField, "there is no such field%s", suggestField(key, fields))
	})
}

// suggestField names the field that was probably meant.
func suggestField(key string, fields []field) string {
	joined := strings.ReplaceAll(strings.ReplaceAll(key, "_", ""), "-", "")
	for _, f := range fields {
		if strings.EqualFold(joined, f.name) || value.NearlyEqual(key, f.name) {
			return fmt.Sprintf("; did you mean %s?", f.name)
		}
	}
	return ""
}

// eachMember reads the members of an object. A key that is no string, or is there twice, is reported.
func (r *reader) eachMember(e *document.Element, read func(key string, value *document.Element)) {
	if !r.isKind(e, document.Object) {
		return
	}
	seen := make(map[string]bool, len(e.Members))
	for i := range e.Members {
		m := &e.Members[i]
		path := m.Key
		if r.here.field != "" {
			path = r.here.field + "." + m.Key
		}
		r.atPlace(place{path, m.Line, m.Column}, func() {
			switch {
			case m.Wrong != "":
				r.reportProblem(problem.WrongType, "%s as a key: a key is a string", m.Wrong)
			case seen[m.Key]:
				r.reportProblem(problem.DuplicateKey, "the key is there twice")
			default:
				seen[m.Key] = true
				read(m.Key, m.Value)
			}
		})
	}
}

// eachItem reads the items of a list.
func (r *reader) eachItem(e *document.Element, read func(*document.Element)) {
	if !r.isKind(e, document.List) {
		return
	}
	for i, item := range e.Items {
		r.atPlace(place{r.here.field + "[" + strconv.Itoa(i) + "]", item.Line, item.Column}, func() { read(item) })
	}
}

// readText returns a text that is not empty.
func (r *reader) readText(e *document.Element) (string, bool) {
	switch {
	case e.Kind == document.String && e.Text == "":
		r.reportProblem(problem.Missing, "the string is empty: leave the field out or fill it")
	case e.Kind == document.Number || e.Kind == document.Bool:
		r.reportProblem(problem.WrongType, "%s where a string is needed: write %q, in quotes", e.Text, e.Text)
	default:
		return e.Text, r.isKind(e, document.String)
	}
	return "", false
}

// readDuration returns a duration above 0.
func (r *reader) readDuration(e *document.Element) time.Duration {
	if e.Kind != document.String {
		r.reportType(e, "a duration, a string such as 30s,")
		return 0
	}
	d, err := time.ParseDuration(e.Text)
	switch {
	case err != nil:
		r.reportProblem(problem.WrongType, "%q is not a duration such as 30s or 1h15m", e.Text)
	case d <= 0:
		r.reportProblem(problem.OutOfRange, "%s where a duration above 0 is needed", e.Text)
	}
	return max(d, 0)
}

// readInstant returns an instant in UTC.
func (r *reader) readInstant(e *document.Element) time.Time {
	if e.Kind != document.String {
		r.reportType(e, "an instant, a string such as 2026-12-01T00:00:00Z,")
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, e.Text)
	if err != nil {
		r.reportProblem(problem.WrongType, "%q is not an instant in RFC 3339, such as 2026-12-01T00:00:00Z or 2026-12-01T01:00:00+01:00", value.Shorten(e.Text, 40))
		return time.Time{}
	}
	return t.UTC()
}

// readPositive returns an integer from 1.
func (r *reader) readPositive(e *document.Element) int {
	v, err := e.Number()
	n, isInteger := v.(int64)
	switch {
	case err != nil:
		r.reportProblem(problem.WrongType, "%s", err)
	case !isInteger || int64(int(n)) != n:
		r.reportProblem(problem.WrongType, "%s is not an integer", e.Describe())
	case n < 1:
		r.reportProblem(problem.OutOfRange, "%s is less than 1", e.Describe())
	default:
		return int(n)
	}
	return 0
}

// readValue returns e as a value of the JSON model.
func (r *reader) readValue(e *document.Element) any {
	r.notePlace()
	switch e.Kind {
	case document.Null:
		return nil
	case document.Bool:
		return e.Text == "true"
	case document.String:
		return e.Text
	case document.Number:
		v, err := e.Number()
		if err != nil {
			r.reportProblem(problem.InvalidValue, "%s", err)
		}
		return v
	case document.List:
		out := make([]any, 0, len(e.Items))
		r.eachItem(e, func(e *document.Element) { out = append(out, r.readValue(e)) })
		return out
	case document.Object:
		out := make(map[string]any, len(e.Members))
		r.eachMember(e, func(key string, e *document.Element) { out[key] = r.readValue(e) })
		return out
	case document.Invalid:
	}
	r.reportProblem(problem.InvalidValue, "%s", e.Describe())
	return nil
}
