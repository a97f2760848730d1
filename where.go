package pawl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A WhereError says why a condition on runs, as in RunFilter.Where, cannot be compiled, or
// evaluated for a run. It comes with ErrInvalid.
type WhereError = store.WhereError

// An EffortError ends a list that has come to the Effort of its filter, such as RunFilter.Effort: there may be more, and a
// list with the same filter whose After is the Run of the error, and its AfterToken the Token, goes on there.
type EffortError = store.EffortError

// CheckWhere returns the error with which a list or a watch with this condition would begin, a
// *WhereError and ErrInvalid; nil for one that compiles. "" is no condition.
//
// A condition is an expression in CEL that is true or false of a run, such as
//
//	status == "failed" && labels.customer == "7" && started > timestamp("2026-11-01T00:00:00Z")
//
// Its variables are run, workflow, status, tenant, parent, forkedFrom and code (of the failure), which are
// texts, "" without; version and seq; labels, a map of texts, in which labels.x is "" if the run
// has no label x; started and ended, which is null until the run has ended. An index finds run, workflow,
// status, tenant, parent and labels that == or in compares with constant texts, and that && joins with the
// rest. For all else the engine looks at each run. A condition has at most 4 KiB, and may cost some 1 ms
// for a run.
func CheckWhere(where string) error {
	if where == "" {
		return nil
	}
	_, err := filter.Parse(where)
	return invalidWhere(err)
}

// invalidWhere adds ErrInvalid to a *WhereError.
func invalidWhere(err error) error {
	if errors.As(err, new(*WhereError)) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

// fitsWhere reports whether a change is of a run for which a condition holds.
func (c *RunChange) fitsWhere(w *filter.Where) (bool, error) {
	if w == nil || c.Lost {
		return true, nil
	}
	fits, err := w.Fits(&filter.Run{
		ID: c.Run, Workflow: c.Workflow, Version: c.Version, Status: c.Status, Labels: c.Labels, StartedAt: c.StartedAt, EndedAt: c.EndedAt,
		Parent: c.Parent, ForkedFrom: c.ForkedFrom.Run, Tenant: c.Tenant, Seq: c.Seq, Code: c.Code,
	})
	return fits, invalidWhere(err)
}

// A LabelError says which label of a run is not one. It is ErrInvalid.
type LabelError struct {
	Key  string // "" if there are too many
	What string // is wrong
}

// Error says what is wrong with which label.
func (e *LabelError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%v: %s", ErrInvalid, e.What)
	}
	return fmt.Sprintf("%v: label %+q: %s", ErrInvalid, value.Shorten(e.Key, workflow.MaxLabelKey), e.What)
}

// Unwrap returns ErrInvalid.
func (e *LabelError) Unwrap() error { return ErrInvalid }

// checkLabels returns a *LabelError of the first label that is wrong, by key.
//
// Keys are looked at in order, so that of several faults the same one is told each time.
func checkLabels(labels map[string]string) error {
	if len(labels) > workflow.MaxLabels {
		return &LabelError{What: fmt.Sprintf("the run has %d labels, at most %d", len(labels), workflow.MaxLabels)}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if key == "" {
			return &LabelError{What: "the key of a label is empty"}
		}
		if what := labelFault("key", key, workflow.MaxLabelKey); what != "" {
			return &LabelError{key, what}
		}
		if what := labelFault("value", labels[key], workflow.MaxLabelValue); what != "" {
			return &LabelError{key, what}
		}
	}
	return nil
}

// labelFault says what is wrong with the key or the value of a label, "" if nothing is.
func labelFault(which, text string, most int) string {
	switch i := strings.IndexFunc(text, isInvisible); {
	case len(text) > most:
		return fmt.Sprintf("the %s has %d bytes, at most %d", which, len(text), most)
	case !utf8.ValidString(text):
		return fmt.Sprintf("the %s is not UTF-8", which)
	case i >= 0:
		r, _ := utf8.DecodeRuneInString(text[i:])
		return fmt.Sprintf("the %s holds %U, which nobody sees: another one would look the same", which, r)
	}
	return ""
}

// keptLabels returns labels as a run keeps them: a copy, nil without any.
//
// The caller may change its map later.
func keptLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	return maps.Clone(labels)
}

// hasLabels reports whether labels has all that are wanted.
func hasLabels(labels, wanted map[string]string) bool {
	for key, v := range wanted {
		if have, ok := labels[key]; !ok || have != v {
			return false
		}
	}
	return true
}
