package schedule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/expr"
)

// inputVariables may be used in the expressions of an input.
var inputVariables = []string{"scheduled", "last", "fire"}

// Input returns the input of the run that begins at an instant: the input of the schedule with the value of each
// expression in its place; nil if the schedule has none. The expressions may use
//
//   - scheduled: the instant, a timestamp in UTC
//   - fire: count, how many firings there have been with this one, from 1; local, the instant with the offset of the
//     schedule's zone, such as 2026-11-22T02:00:00+01:00; date, its date on the clock of the zone
//   - last: what the caller knows of the previous run, an object with run, status and output, or null
//
// last is a value as JSON has them. The error names the part of the input and says what is wrong with its expression.
func (t *Timetable) Input(at time.Time, count int64, last any) (any, error) {
	if t.schedule.Input == nil {
		return nil, nil
	}
	local := at.In(t.zone)
	i := inputMaker{compiler: expr.NewCompiler(inputLimits), variables: expr.Map{
		"scheduled": at.UTC(),
		"last":      last,
		"fire":      map[string]any{"count": count, "local": local.Format(time.RFC3339), "date": local.Format(time.DateOnly)},
	}}
	v, err := i.evaluatePart("input", t.schedule.Input)
	if err != nil {
		return nil, err
	}
	if _, isObject := v.(map[string]any); !isObject {
		text, _ := t.schedule.Input.(string)
		return nil, &inputError{"input", text, errors.New("the expression gives no object")}
	}
	return v, nil
}

// An inputError says which part of an input has no value.
type inputError struct {
	field, text string
	err         error
}

// Error names the part, and says what is wrong with its expression.
func (e *inputError) Error() string { return e.field + ": " + e.err.Error() }

// Unwrap returns what is wrong with the expression.
func (e *inputError) Unwrap() error { return e.err }

// An inputMaker puts the values of expressions in their places.
type inputMaker struct {
	compiler  *expr.Compiler
	variables expr.Map
}

// evaluatePart returns the value of a part of an input.
func (m *inputMaker) evaluatePart(field string, v any) (any, error) {
	switch v := v.(type) {
	case string:
		p, err := m.compiler.Compile(v, inputVariables)
		if err == nil {
			var out any
			if out, err = p.Eval(m.variables); err == nil {
				return out, nil
			}
		}
		return nil, &inputError{field, v, err}
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = m.evaluatePart(fmt.Sprintf("%s[%d]", field, i), item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			var err error
			if out[key], err = m.evaluatePart(field+"."+key, v[key]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}
