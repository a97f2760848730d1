package schedule

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/reading"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// An Error reports every problem of schedules at once, for a text the first thousand. It contains no warnings.
type Error struct {
	Problems []workflow.Problem // Field is the path of a field, such as schedules[0].cron[1]
}

// maxListed bounds the problems in the text of an error. All of them are in Problems.
const maxListed = 100

// Error lists the first hundred problems, one per line.
func (e *Error) Error() string {
	var lines []string
	for i, p := range e.Problems {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Problems)-maxListed))
			break
		}
		lines = append(lines, p.String())
	}
	return "invalid schedules: " + strings.Join(lines, "\n\t")
}

// errorOf returns an error for those problems that are not warnings.
func errorOf(problems []workflow.Problem) error {
	var errs []workflow.Problem
	for _, p := range problems {
		if !p.Warning {
			errs = append(errs, p)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &Error{Problems: errs}
}

// texts reads the texts of schedules.
var texts = document.Reader{Noun: "schedule", Depth: value.DefaultDepth}

// Parse reads the schedules of a file: an object with the list schedules, as JSON if the first character is {, else as
// YAML. Unknown fields, keys that are there twice, and values of another type than the field's are refused. The error
// is an *Error with every problem and its place. The meaning of a schedule is not checked here: see [Check], whose
// problems name the places in the text as well. A text has at most 4 MiB and 10,000 schedules.
func Parse(data []byte) ([]Schedule, error) {
	var set []Schedule
	err := parseText(data, func(r *reader, e *document.Element) {
		if e.Kind == document.List {
			r.ReportProblem(problem.WrongType, "a list where an object is needed: write schedules: in the line above it, and indent the list")
			return
		}
		r.readFields(e, []field{{name: "schedules", read: func(r *reader, e *document.Element) { set = readSchedules(r, e) }}})
		if e.Kind == document.Object && e.Member("schedules") == nil {
			r.ReportProblem(problem.Missing, "a file of schedules has the list schedules")
		}
	})
	if err != nil {
		return nil, err
	}
	return set, nil
}

// readSchedules reads the list of a file.
func readSchedules(r *reader, e *document.Element) (set []Schedule) {
	if len(e.Items) > maxSchedules {
		r.ReportProblem(problem.TooLarge, "%d schedules are more than %d", len(e.Items), maxSchedules)
		return nil
	}
	r.EachItem(e, func(e *document.Element) {
		var s Schedule
		readSchedule(r, e, &s)
		set = append(set, s)
	})
	return set
}

// readSchedule reads one schedule, with the places of its fields named from its own beginning.
func readSchedule(r *reader, e *document.Element, s *Schedule) {
	outer := r.places
	r.places = &s.places
	r.base = len(r.Here.Field)
	r.NotePlace()
	r.readFields(e, fieldsOf(s))
	s.places.Sort()
	r.places, r.base = outer, 0
}

// UnmarshalJSON implements [encoding/json.Unmarshaler]: it reads one schedule as [Parse] does.
func (s *Schedule) UnmarshalJSON(data []byte) error {
	var read Schedule
	if err := parseText(data, func(r *reader, e *document.Element) { readSchedule(r, e, &read) }); err != nil {
		return err
	}
	*s = read
	return nil
}

// MarshalJSON returns s as canonical JSON, in the form that [Parse] reads: keys are sorted, and what has its default
// is left out, so that equal schedules give equal bytes. It fails if the input has no JSON form.
func (s Schedule) MarshalJSON() ([]byte, error) {
	v, err := value.Normalize(writeFields(fieldsOf(&s)), value.Limits{})
	if err != nil {
		return nil, fmt.Errorf("schedule %q as JSON: %w", s.ID, err)
	}
	return value.Encode(v), nil
}

// parseText reads a text with one function.
func parseText(data []byte, read func(*reader, *document.Element)) error {
	r := newReader()
	if len(data) > maxBytes {
		r.ReportProblem(problem.TooLarge, "%d bytes are more than %d", len(data), maxBytes)
		return errorOf(r.problems)
	}
	e, err := readDocument(data)
	if err != nil {
		r.ReportSyntax(err)
		return errorOf(r.problems)
	}
	r.Here = reading.Place{Line: e.Line, Column: e.Column}
	read(r, e)
	return errorOf(r.problems)
}

// readDocument reads JSON if the first character is {, and else YAML.
func readDocument(data []byte) (*document.Element, error) {
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		return texts.ReadJSON(data)
	}
	return texts.ReadYAML(data)
}
