package worker

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/remote"
)

// A Registration says what a worker takes.
type Registration struct {
	// ID names the worker, in at most 255 bytes; no two that run at once may have the same.
	ID string
	// Types are the task types that it takes, at most 256; "*" is every type. In Start, nil is those of the handlers.
	Types []string
	// Capacity is how many tasks it holds at once, at most 10,000; 1 by default.
	Capacity int
}

// Bounds of a registration.
const (
	maxID       = 255    // bytes of an id, and of a type
	maxTypes    = 256    // types of one worker
	maxCapacity = 10_000 // tasks of one worker
)

// withDefaults returns the registration with its defaults, or an *Error that says
// what is wrong with it.
//
// Types are checked for doubles because startWaiting puts the worker into the list of each, and would
// into one list twice.
func (r Registration) withDefaults() (Registration, error) {
	if r.Capacity == 0 {
		r.Capacity = 1
	}
	if err := checkName("the id of a worker", r.ID); err != nil {
		return r, err
	}
	switch {
	case len(r.Types) == 0:
		return r, invalidRequestf("worker %q names no types: name the task types that it takes, or \"*\" for all", r.ID)
	case len(r.Types) > maxTypes:
		return r, invalidRequestf("worker %q names %d types; at most %d: use \"*\", or several workers", r.ID, len(r.Types), maxTypes)
	case r.Capacity < 0 || r.Capacity > maxCapacity:
		return r, invalidRequestf("the capacity of worker %q is %d: it must be from 1 to %d", r.ID, r.Capacity, maxCapacity)
	}
	seen := map[string]bool{}
	for _, kind := range r.Types {
		if err := checkName("a task type", kind); err != nil {
			return r, err
		}
		if seen[kind] {
			return r, invalidRequestf("worker %q names the type %q twice", r.ID, kind)
		}
		seen[kind] = true
	}
	return r, nil
}

// checkName refuses an id or a type that is empty, too long, or not plain text. Without control
// characters no id has the zero byte by which keyTags part it from the key.
func checkName(what, name string) error {
	switch {
	case name == "":
		return invalidRequestf("%s is missing", what)
	case len(name) > maxID:
		return invalidRequestf("%s has %d bytes; at most %d", what, len(name), maxID)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return invalidRequestf("%s must be UTF-8 without control characters, not %q", what, name)
	}
	return nil
}

func invalidRequestf(format string, args ...any) error {
	return &Error{Status: 400, Code: remote.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
