package value

import (
	"slices"
	"strings"
)

// The bounds of a Path.
// Both are generous: a path is written by a person, and one that is longer than this is a
// mistake. There can be no more segments than containers in a value.
const (
	maxPathBytes    = 16 << 10
	maxPathSegments = DefaultDepth
)

// A Path names a place in a map of maps, where a value is to be written.
//
//	state.a.b          three segments
//	state["a.b"].c     a key which is no identifier is quoted as in JSON
//	state.log[]        appends one element to the list state.log
//
// A bare segment is an identifier as in CEL: letters of ASCII, digits and _,
// not a digit first. Lists have no indices here.
type Path struct {
	Segments []string // the keys, outermost first
	Append   bool     // the path ends in []
}

// ParsePath parses the text form of a path of at least one segment. The error
// is an *Error with code invalid_path, what was expected, and where.
func ParsePath(s string) (Path, error) {
	p, err := parsePath(s)
	if err != nil {
		return Path{}, err
	}
	return p, nil
}

// parsePath takes segment after segment. The loop runs once for an empty text as well, so that
// the error says that a key is missing.
func parsePath(s string) (Path, *Error) {
	if len(s) > maxPathBytes {
		return Path{}, pathError(maxPathBytes, "path of %d bytes is longer than %d", len(s), maxPathBytes)
	}
	var p Path
	for i := 0; i < len(s) || i == 0; {
		if s[i:] == "[]" && i > 0 {
			p.Append = true
			return p, nil
		}
		segment, n, err := pathSegment(s, i)
		if err != nil {
			return Path{}, err
		}
		if p.Segments = append(p.Segments, segment); len(p.Segments) > maxPathSegments {
			return Path{}, pathError(i, "path of more than %d segments", maxPathSegments)
		}
		i += n
	}
	return p, nil
}

// pathError has a place in the text of the path, and none in a value.
func pathError(offset int, format string, args ...any) *Error {
	e := newError(CodePath, format, args...)
	e.Path, e.Offset = "", offset
	return e
}

// pathSegment parses the segment at s[i:] and returns its length in s.
//
// A segment is either in brackets or an identifier, which but for the first has a dot before
// it. Each way in which people write something else has a message of its own that says what to
// write.
func pathSegment(s string, i int) (segment string, n int, err *Error) {
	rest := s[i:]
	switch {
	case strings.HasPrefix(rest, "[\""):
		return quotedSegment(rest, i)
	case strings.HasPrefix(rest, "[]"):
		return "", 0, pathError(i, "[] before the end of the path")
	case strings.HasPrefix(rest, "["):
		return "", 0, pathError(i, "[ without a quoted key: write [\"key\"]")
	case i > 0 && rest[0] != '.':
		return "", 0, pathError(i, "%q in a bare key: write [\"key\"]", firstRune(rest))
	case i > 0:
		n = 1
	}
	end := n + identifierLen(rest[n:])
	switch {
	case end > n:
		return rest[n:end], end, nil
	case end == len(rest):
		return "", 0, pathError(i+n, "a key is missing")
	default:
		return "", 0, pathError(i+n, "%q where a key was expected", firstRune(rest[n:]))
	}
}

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return 0
}

// quotedSegment parses ["key"] at the start of rest, which is at offset.
//
// The key is a JSON string, so that the scanner of Decode reads it and any key can be written.
// Its offsets count from the bracket and are moved by offset.
func quotedSegment(rest string, offset int) (segment string, n int, err *Error) {
	scan := Scanner{data: []byte(rest), pos: 1}
	key, err := scan.Text()
	if err != nil {
		return "", 0, pathError(offset+max(err.Offset, 0), "%s", err.Message)
	}
	if scan.peekByte() != ']' {
		return "", 0, pathError(offset+scan.pos, "%s where ] was expected", scan.DescribeNext())
	}
	return key, scan.pos + 1, nil
}

// isIdentifier reports whether s is an identifier of CEL.
func isIdentifier(s string) bool {
	return s != "" && identifierLen(s) == len(s)
}

// identifierLen returns the length of the identifier at the start of s.
func identifierLen(s string) int {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || !isDigit(c)) {
			return i
		}
	}
	return len(s)
}

// String returns the text form, which parses to the same path.
//
// Keys that are no identifiers are quoted, the others are not: each path has one text.
func (p Path) String() string {
	var dst []byte
	for i, s := range p.Segments {
		switch {
		case !isIdentifier(s):
			dst = append(appendString(append(dst, '['), s), ']')
		case i > 0:
			dst = append(append(dst, '.'), s...)
		default:
			dst = append(dst, s...)
		}
	}
	if p.Append {
		dst = append(dst, "[]"...)
	}
	return string(dst)
}

// Equal reports whether both paths name the same place in the same way.
func (p Path) Equal(q Path) bool {
	return p.Append == q.Append && slices.Equal(p.Segments, q.Segments)
}

// Pointer returns segments as a JSON pointer (RFC 6901); none give the empty one.
func Pointer(segments []string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(pointerEscaper.Replace(s))
	}
	return b.String()
}

var (
	pointerEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// ParsePointer returns the segments of a JSON pointer (RFC 6901); the empty one has none.
// It is the inverse of Pointer and, as that, takes any length. The error is an *Error with
// code invalid_path.
func ParsePointer(s string) ([]string, error) {
	switch {
	case s == "":
		return nil, nil
	case s[0] != '/':
		return nil, pathError(0, "pointer does not begin with /")
	}
	segments := strings.Split(s[1:], "/")
	offset := 1
	for i, segment := range segments {
		if at := badTilde(segment); at >= 0 {
			return nil, pathError(offset+at, "~ without 0 or 1 after it")
		}
		segments[i] = pointerUnescaper.Replace(segment)
		offset += len(segment) + 1
	}
	return segments, nil
}

// badTilde returns the index of the first ~ which is no escape, or -1.
//
// ~0 stands for ~ and ~1 for /; a lone ~ is refused by the RFC.
func badTilde(s string) int {
	for i := range len(s) {
		if s[i] == '~' && !strings.HasPrefix(s[i:], "~0") && !strings.HasPrefix(s[i:], "~1") {
			return i
		}
	}
	return -1
}

// Overlaps reports whether writes to both paths may touch the same place: the
// paths are equal, or one leads to the other. Two equal paths that append do
// not overlap, for each adds an element of its own; an append and any other
// write to the list, into it, or above it do.
//
// Validation asks it about the targets that one node, or one join, writes: of two that overlap
// the result would depend on which is written last.
func Overlaps(a, b Path) bool {
	if a.Append && b.Append && slices.Equal(a.Segments, b.Segments) {
		return false
	}
	n := min(len(a.Segments), len(b.Segments))
	return slices.Equal(a.Segments[:n], b.Segments[:n])
}
