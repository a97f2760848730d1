// Package reading reads the elements of a text into the fields of a format, and tells what is wrong with it, each problem with its place. The
// formats themselves are tables of packages workflow and schedule.
package reading

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/value"
)

// A Reader reads one text and goes on after a problem, so that all of them are told at once.
type Reader struct {
	Here       Place                      // of what is read at the moment
	Tell       func(code, message string) // of a problem at that place
	Note       func(Place)                // keeps the place of a field, for problems that are found when the text is gone
	NoteValues bool                       // the parts of a value are noted as well
	told       int
}

// MaxProblems bounds the problems that are told of one text. A text of a few megabytes may have a problem in every field.
const MaxProblems = 1_000

// ReportProblem tells a problem at the place in hand.
func (r *Reader) ReportProblem(code, format string, args ...any) {
	if r.told == MaxProblems {
		return
	}
	r.told++
	r.Tell(code, fmt.Sprintf(format, args...))
}

// ReportType reports that e is not what is needed. It says what there is as well, such as the list [1, 2] where a string is needed.
func (r *Reader) ReportType(e *document.Element, what string) {
	r.ReportProblem(problem.WrongType, "%s where %s is needed", e.Describe(), what)
}

// ReportSyntax reports why a text is no document: nothing else is known of it.
func (r *Reader) ReportSyntax(err error) {
	var at *document.SyntaxError
	if errors.As(err, &at) {
		r.Here = Place{Line: at.Line, Column: at.Column}
	}
	code := problem.Syntax
	if errors.Is(err, document.ErrTooLarge) {
		code = problem.TooLarge
	}
	r.ReportProblem(code, "%s", err)
}

// IsKind reports whether e is of the given kind, and a problem if it is not.
func (r *Reader) IsKind(e *document.Element, kind document.Kind) bool {
	if e.Kind != kind {
		r.ReportType(e, kind.String())
	}
	return e.Kind == kind
}

// NotePlace keeps the place in hand.
func (r *Reader) NotePlace() { r.Note(r.Here) }

// ReadAt reads something at another place. Places are nested like calls.
func (r *Reader) ReadAt(at Place, read func()) {
	outer := r.Here
	r.Here = at
	read()
	r.Here = outer
}

// A Named is a field of a format, which has a name.
type Named interface{ FieldName() string }

// ReadFields reads the members of an object into fields. The order of keys means nothing. Tables are short, so they are searched one by
// one.
func ReadFields[F Named](r *Reader, e *document.Element, fields []F, read func(F, *document.Element)) {
	r.EachMember(e, func(key string, e *document.Element) {
		for i := range fields {
			if fields[i].FieldName() == key {
				r.NotePlace()
				read(fields[i], e)
				return
			}
		}
		// A field that nobody reads would be a wish that is silently not granted.
		r.ReportProblem(problem.UnknownField, "there is no such field%s", suggestField(key, fields))
	})
}

// suggestField names the field that was probably meant. It finds other ways of writing, such as sibling_group, and slips of a letter.
func suggestField[F Named](key string, fields []F) string {
	// As it would be without the separators of other conventions.
	joined := strings.ReplaceAll(strings.ReplaceAll(key, "_", ""), "-", "")
	for _, f := range fields {
		if name := f.FieldName(); strings.EqualFold(joined, name) || value.NearlyEqual(key, name) {
			return fmt.Sprintf("; did you mean %s?", name)
		}
	}
	return ""
}

// EachMember reads the members of an object, with their keys in the path. A key that is no string, or is there twice, is reported, and its
// value not read.
func (r *Reader) EachMember(e *document.Element, read func(key string, value *document.Element)) {
	if !r.IsKind(e, document.Object) {
		return
	}
	seen := make(map[string]bool, len(e.Members))
	for i := range e.Members {
		m := &e.Members[i]
		// At the top, keys are fields of what owns them.
		path := m.Key
		if r.Here.Field != "" {
			path = r.Here.Field + "." + m.Key
		}
		r.ReadAt(Place{path, m.Line, m.Column}, func() {
			switch {
			case m.Wrong != "":
				r.ReportProblem(problem.WrongType, "%s as a key: a key is a string", m.Wrong)
			case seen[m.Key]:
				r.ReportProblem(problem.DuplicateKey, "the key is there twice")
			default:
				seen[m.Key] = true
				read(m.Key, m.Value)
			}
		})
	}
}

// EachItem reads the items of a list, with their indices in the path.
func (r *Reader) EachItem(e *document.Element, read func(*document.Element)) {
	if !r.IsKind(e, document.List) {
		return
	}
	for i, item := range e.Items {
		path := r.Here.Field + "[" + strconv.Itoa(i) + "]"
		r.ReadAt(Place{path, item.Line, item.Column}, func() { read(item) })
	}
}

// ReadText returns a string that is not empty. YAML takes 1 or true without quotes for something else than a text; to turn it into one
// would make names that nobody wrote.
func (r *Reader) ReadText(e *document.Element) (string, bool) {
	switch {
	case e.Kind == document.String && e.Text == "":
		r.ReportProblem(problem.Missing, "the string is empty: leave the field out or fill it")
	case e.Kind == document.Number || e.Kind == document.Bool:
		r.ReportProblem(problem.WrongType, "%s where a string is needed: write %q, in quotes", e.Text, e.Text)
	default:
		return e.Text, r.IsKind(e, document.String)
	}
	return "", false
}

// ReadInteger returns an integer that fits into an int; 1.0 is an integer, 1.5 is not.
func (r *Reader) ReadInteger(e *document.Element) (n int64, ok bool) {
	v, err := e.Number()
	if err != nil {
		r.ReportProblem(problem.WrongType, "%s", err)
		return 0, false
	}
	// On a system whose int has 32 bits, a larger number is refused and not cut off.
	if n, ok = v.(int64); !ok || int64(int(n)) != n {
		r.ReportProblem(problem.WrongType, "%s is not an integer", e.Describe())
		return 0, false
	}
	return n, true
}

// ReadPositive returns an integer from 1 that fits into an int. In Go, 0 stands for a default; in a text it would be misread, and is
// refused.
func (r *Reader) ReadPositive(e *document.Element) (n int64, ok bool) {
	n, ok = r.ReadInteger(e)
	if ok && n < 1 {
		r.ReportProblem(problem.OutOfRange, "%s is less than 1", e.Describe())
		return 0, false
	}
	return n, ok
}

// ReadNumber returns a number, NaN for anything else.
func (r *Reader) ReadNumber(e *document.Element) float64 {
	v, err := e.Number()
	if err != nil {
		r.ReportProblem(problem.WrongType, "%s", err)
	}
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	// A problem was reported, so that nobody uses it.
	return math.NaN()
}

// ReadDuration returns a duration that is not negative; zero says whether it may be 0. It is a text with a unit: a number alone would leave
// open of what. A refused duration is read as 0.
func (r *Reader) ReadDuration(e *document.Element, zero bool) time.Duration {
	if e.Kind != document.String {
		r.ReportType(e, "a duration, a string such as 30s,")
		return 0
	}
	d, err := time.ParseDuration(e.Text)
	switch {
	case err != nil:
		r.ReportProblem(problem.WrongType, "%q is not a duration such as 30s or 1h15m", e.Text)
	case d < 0:
		r.ReportProblem(problem.OutOfRange, "%s is less than 0", e.Text)
	case d == 0 && !zero:
		r.ReportProblem(problem.OutOfRange, "%s where a duration above 0 is needed", e.Text)
	}
	return max(d, 0)
}

// ReadValue returns e as a value of the JSON model. Numbers have the types of the model: an integer is an int64, any other a float64.
func (r *Reader) ReadValue(e *document.Element) any {
	if r.NoteValues {
		r.NotePlace()
	}
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
			r.ReportProblem(problem.InvalidValue, "%s", err)
		}
		return v
	case document.List:
		out := make([]any, 0, len(e.Items))
		r.EachItem(e, func(e *document.Element) { out = append(out, r.ReadValue(e)) })
		return out
	case document.Object:
		out := make(map[string]any, len(e.Members))
		r.EachMember(e, func(key string, e *document.Element) { out[key] = r.ReadValue(e) })
		return out
	// Such as .nan in YAML.
	case document.Invalid:
	}
	r.ReportProblem(problem.InvalidValue, "%s", e.Describe())
	return nil
}
