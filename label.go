package pawl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

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
