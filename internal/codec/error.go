package codec

import (
	"fmt"
	"strconv"
	"strings"
)

// An Error says what cannot be encoded or decoded, and where.
type Error struct {
	Kind   string // the variant; "" if it is not known
	Field  string // the path within it, such as spawns[2].count; "" for the whole
	Offset int    // the byte in the text where decoding stopped, else -1
	Reason string // what is wrong
	Err    error  // its cause, of the value or of the Lookup; may be nil
}

// Error returns one line with the place and what is wrong there.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("codec: ")
	for _, place := range []string{e.Kind, e.Field} {
		if place != "" {
			b.WriteString(place + ": ")
		}
	}
	b.WriteString(e.Reason)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Offset >= 0 {
		b.WriteString(" at byte " + strconv.Itoa(e.Offset))
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func failf(offset int, format string, args ...any) *Error {
	return &Error{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

func (d *decoder) failf(format string, args ...any) *Error {
	return failf(d.pos, format, args...)
}

func (d *decoder) wrap(cause error, format string, args ...any) *Error {
	err := d.failf(format, args...)
	err.Err = cause
	return err
}

// under moves the error below a field or key.
func (e *Error) under(name string) *Error {
	if e.Field != "" && e.Field[0] != '[' {
		name += "."
	}
	e.Field = name + e.Field
	return e
}

// at moves the error below the element i of a list.
func (e *Error) at(i int) *Error { return e.under("[" + strconv.Itoa(i) + "]") }
