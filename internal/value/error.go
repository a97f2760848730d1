package value

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// The codes of an Error.
// Callers decide by them: the engine, for example, tells a value that is too large from an invalid one.
const (
	CodeJSON        = "invalid_json"   // the text is not JSON, or an object has a key twice
	CodeNumber      = "invalid_number" // a number which the model cannot hold exactly
	CodeString      = "invalid_string" // a string which is not UTF-8
	CodeUnsupported = "invalid_value"  // a Go value which has no JSON form
	CodeLimit       = "limit_exceeded" // deeper or larger than Limits allow
	CodePath        = "invalid_path"   // the text of a Path or a JSON pointer
)

// The names of the limits in an Error.
const (
	LimitDepth = "jsonDepth"
	LimitBytes = "payloadBytes"
)

// The defaults of Limits.
const (
	DefaultDepth = 128
	DefaultBytes = 64 << 20
)

// Limits bound a value. The zero value means the defaults.
type Limits struct {
	// Depth is the largest number of containers inside each other: a scalar
	// has depth 0, [] has depth 1. Zero means DefaultDepth.
	Depth int
	// Bytes is the largest size: of the text for Decode, of the canonical
	// encoding for Normalize. Zero means DefaultBytes, below zero no bound.
	Bytes int
}

// maxDepth and maxBytes put the defaults in place of zero. Only Bytes may be without a bound:
// the depth bounds a stack.
func (l Limits) maxDepth() int {
	if l.Depth == 0 {
		return DefaultDepth
	}
	return l.Depth
}

func (l Limits) maxBytes() int {
	switch {
	case l.Bytes == 0:
		return DefaultBytes
	case l.Bytes < 0:
		return int(^uint(0) >> 1)
	default:
		return l.Bytes
	}
}

// An Error says what is wrong with a value, and where.
type Error struct {
	Code    string // one of the Code constants
	Message string // what is wrong, without the place
	Path    string // the place in the value, such as $.a[3]; "" for a Path
	Offset  int    // the byte in the text for Decode and ParsePath, else -1
	Limit   string // the name of the limit that was exceeded, or ""
	Max     int    // the value of that limit
	Value   int    // the value that exceeded it, as far as it was measured
}

// Error returns one line with the place and what is wrong there.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path)
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " at byte %d", e.Offset)
	}
	return b.String()
}

// Pointer returns the place in the value as a JSON pointer (RFC 6901), "" for the value itself.
func (e *Error) Pointer() string {
	var segments []string
	for rest := strings.TrimPrefix(e.Path, "$"); rest != ""; {
		var n int
		var segment string
		switch rest[0] {
		case '.':
			n = 1 + identifierLen(rest[1:])
			segment = rest[1:n]
		default: // [ and an index, or a key in quotes
			scan := Scanner{data: []byte(rest), pos: 1}
			if key, err := scan.Text(); err == nil {
				segment, n = key, scan.pos+1
			} else {
				n = strings.IndexByte(rest, ']') + 1
				segment = rest[1 : n-1]
			}
		}
		segments, rest = append(segments, segment), rest[n:]
	}
	return Pointer(segments)
}

// newError returns an Error without an offset, at the root.
//
// The place is added on the way out: each container that the error passes puts its step in
// front, by inElement or inKey. An error that nobody moves is at the root, $.
func newError(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Path: "$", Offset: -1}
}

// limitError says which limit, what it is, and what exceeded it, in the message and as fields.
func limitError(limit string, limitValue, v int) *Error {
	e := newError(CodeLimit, "%s %d exceeds the limit of %d", limit, v, limitValue)
	e.Limit, e.Max, e.Value = limit, limitValue, v
	return e
}

// inElement moves the error below the element i of a list.
func (e *Error) inElement(i int) *Error {
	return e.moveBelow("[" + strconv.Itoa(i) + "]")
}

// inKey moves the error below the key of a map.
//
// A key that is no identifier is written as JSON in brackets, so that $["a.b"] is one step and
// $.a.b two.
func (e *Error) inKey(key string) *Error {
	if isIdentifier(key) {
		return e.moveBelow("." + key)
	}
	return e.moveBelow("[" + string(appendString(nil, key)) + "]")
}

// moveBelow puts a step behind the $, in front of the steps that are there already.
func (e *Error) moveBelow(step string) *Error {
	e.Path = "$" + step + e.Path[1:]
	return e
}

// Shorten returns a text as a message can quote it: at most so many bytes of it, with
// "..." behind them if that is not all.
//
// Messages quote what users wrote, and that may be of any size; a character that is cut in two
// is dropped.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// NearlyEqual reports whether a and b differ by one character, left out, put in or
// changed, or by the order of two.
//
// It is for proposals: "did you mean". It compares bytes, which is enough for names in ASCII,
// and one pass over the common start leaves only the few cases below.
func NearlyEqual(a, b string) bool {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	a, b = a[n:], b[n:]
	// The rests begin with the difference. With equal lengths one character was changed, or
	// two were swapped; with lengths that differ by one, one was put in or left out.
	switch len(a) - len(b) {
	case 0:
		swapped := len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
		return len(a) > 0 && a[1:] == b[1:] || swapped
	case 1:
		return a[1:] == b
	case -1:
		return b[1:] == a
	}
	return false
}

// EscapeControls writes a text that has control characters, such as the message of a failure with several lines, with the
// escapes of Go, so that a line stays one.
func EscapeControls(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}
