// Package filter compiles conditions on runs: expressions in CEL over what the index says of a
// run, by which lists and watches select. It is pure.
package filter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/shown"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Run is what a condition sees of a run.
type Run struct {
	ID                 workflow.RunID
	Workflow           string
	Version            int
	Status             workflow.RunStatus
	Labels             map[string]string
	StartedAt, EndedAt time.Time // zero if it has not
	Parent, ForkedFrom workflow.RunID
	Tenant             string
	Seq                int64
	Code               string // of its failure

	Cost int // what evaluating conditions on it has come to, in units of package expr
}

// Pay implements expr.Payer.
func (r *Run) Pay(units int) { r.Cost += units }

var _ expr.Payer = (*Run)(nil)

// A variable of conditions.
type variable struct {
	name  string
	value func(*Run) any
}

// variables are those that docs/command.md lists.
var variables = []variable{
	{"run", func(r *Run) any { return string(r.ID) }},
	{"workflow", func(r *Run) any { return r.Workflow }},
	{"version", func(r *Run) any { return int64(r.Version) }},
	{"status", func(r *Run) any { return r.Status.String() }},
	{"labels", func(r *Run) any { return labels(r.Labels) }},
	{"started", func(r *Run) any { return instantOrNull(r.StartedAt) }},
	{"ended", func(r *Run) any { return instantOrNull(r.EndedAt) }},
	{"code", func(r *Run) any { return r.Code }},
	{"tenant", func(r *Run) any { return r.Tenant }},
	{"parent", func(r *Run) any { return string(r.Parent) }},
	{"forkedFrom", func(r *Run) any { return string(r.ForkedFrom) }},
	{"seq", func(r *Run) any { return r.Seq }},
}

// Variables returns the names of the variables that a condition may use.
func Variables() []string {
	var out []string
	for _, v := range variables {
		out = append(out, v.name)
	}
	return out
}

// instantOrNull returns null for an instant that is not known.
func instantOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// Lookup implements expr.Vars.
func (r *Run) Lookup(name string) (any, bool) {
	for i := range variables {
		if variables[i].name == name {
			return variables[i].value(r), true
		}
	}
	return nil, false
}

// labels are the labels of a run in a condition: one that it has not is the empty text.
type labels map[string]string

var _ expr.Filler = labels{}

// Get implements value.Object.
func (l labels) Get(key string) (any, bool) {
	v, ok := l[key]
	return v, ok
}

// Keys implements value.Object.
func (l labels) Keys() []string { return slices.Sorted(maps.Keys(l)) }

// Len implements value.Object.
func (l labels) Len() int { return len(l) }

// Absent implements expr.Filler.
func (l labels) Absent() any { return "" }

// limits bound a condition: its text, and what one run may cost, some 1 ms at most.
var limits = expr.Limits{Source: 4 << 10, Cost: 10_000}

// A Where is a compiled condition. Many goroutines may use it at a time.
type Where struct {
	Bounds // of what it can be true of

	program *expr.Program
	reads   func(name string) bool
}

// An Error says why a condition cannot be compiled, or evaluated for a run.
type Error struct {
	Line    int            // of the condition, from 1; 0 if there is no place
	Column  int            // in code points, from 1
	Message string         // what is wrong
	Run     workflow.RunID // the run for which it is; "" if it is for every run
}

// Error returns the message, with the place and the run.
func (e *Error) Error() string {
	text := "the condition on runs"
	if e.Line > 0 {
		text += fmt.Sprintf(", at %d:%d", e.Line, e.Column)
	}
	if e.Run != "" {
		text += fmt.Sprintf(", for run %q", string(e.Run))
	}
	return text + ": " + e.Message
}

// As gives errors.As this error as the type with the same fields that package pawl shows.
func (e *Error) As(target any) bool { return shown.As(e, target) }

// errorOf returns an error of package expr as one of a condition.
func errorOf(err error, id workflow.RunID) *Error {
	out := &Error{Message: err.Error(), Run: id}
	if e := (*expr.Error)(nil); errors.As(err, &e) {
		out.Line, out.Column, out.Message = e.Line, e.Column, e.Message
	}
	return out
}

// Parse compiles a condition. It fails with an *Error.
func Parse(text string) (*Where, error) {
	program, err := expr.Compile(text, Variables(), limits)
	if err != nil {
		return nil, errorOf(err, "")
	}
	chains := program.References()
	w := &Where{program: program, reads: func(name string) bool {
		return slices.ContainsFunc(chains, func(chain []string) bool { return chain[0] == name })
	}}
	// If one run's result is a bool, every run's is.
	example := Run{StartedAt: time.Unix(0, 0), EndedAt: time.Unix(1, 0)}
	if v, err := program.Eval(&example); err == nil {
		if _, ok := v.(bool); !ok {
			return nil, &Error{Line: 1, Column: 1, Message: fmt.Sprintf("it is no condition: it gives %s, not true or false", shownResult(v))}
		}
	}
	for _, e := range expr.Equalities(text, Variables()) {
		if err := w.narrow(&e); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// shownResult returns, for the error, the result of an expression that is no condition.
func shownResult(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(value.Shorten(v, 40))
	case value.Object, map[string]any:
		return "an object"
	}
	return value.Shorten(fmt.Sprint(v), 40)
}

// ReadsCode reports whether the condition uses the code of failures.
func (w *Where) ReadsCode() bool { return w.reads("code") }

// Fits evaluates the condition for a run. It fails with an *Error.
func (w *Where) Fits(r *Run) (bool, error) {
	ok, err := w.program.EvalBool(r)
	if err == nil {
		return ok, nil
	}
	out := errorOf(err, r.ID)
	switch {
	case r.EndedAt.IsZero() && w.reads("ended"):
		out.Message += "; ended is null until a run has ended: write ended != null && ..."
	case w.reads("started") || w.reads("ended"):
		out.Message += `; started and ended are instants: compare them with timestamp("2026-11-01T00:00:00Z")`
	}
	if w.reads("labels") && strings.Contains(err.Error(), "no such overload") {
		out.Message += `; labels are texts: compare them with texts, as "3"`
	}
	return false, out
}
