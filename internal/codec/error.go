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

// newError returns an error at a byte of the text, or with -1 if there is no text, as in
// encoding.
func newError(offset int, format string, args ...any) *Error {
	return &Error{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// newError returns an error at the position.
func (d *decoder) newError(format string, args ...any) *Error {
	return newError(d.scan.Offset(), format, args...)
}

// wrapError is newError with a cause, which errors.Is finds.
func (d *decoder) wrapError(cause error, format string, args ...any) *Error {
	err := d.newError(format, args...)
	err.Err = cause
	return err
}

// inField moves the error below a field or key.
//
// Fields are added from the inside to the outside, as an error comes back: spawns, then [2],
// then count. An index has no dot before it.
func (e *Error) inField(name string) *Error {
	if e.Field != "" && e.Field[0] != '[' {
		name += "."
	}
	e.Field = name + e.Field
	return e
}

// inElement moves the error below the element i of a list.
func (e *Error) inElement(i int) *Error { return e.inField("[" + strconv.Itoa(i) + "]") }
