package value

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/pace"
)

// A Scanner steps over one JSON text, from the left to the right. It refuses what
// [Decode] refuses. Package codec reads structs with it, and values in them.
//
// It reads forwards only and never gives a byte back; pos is where the next byte is, and after
// an error where that was found. Methods with a capital letter skip white space first; the
// others begin at the position. It allocates nothing but the strings and containers that it
// returns.
type Scanner struct {
	data      []byte
	pos       int
	limit     int               // of the depth
	marshaled bool              // the text is by encoding/json, where \ufffd stands for bytes that are not UTF-8
	keys      map[string]string // keys seen, so that they are allocated once
	deepest   int               // containers inside each other so far
	refs      bool              // an object has had the key of references
	free      bool              // something was not written as Append writes it
	pacer     pace.Pacer
}

// NewScanner returns a scanner at the start of a text, whose values have at most
// the given depth.
func NewScanner(data []byte, depth int) Scanner { return Scanner{data: data, limit: depth} }

// Offset returns the position: the byte that comes next.
func (s *Scanner) Offset() int { return s.pos }

// newError returns an error of the grammar, at the position.
func (s *Scanner) newError(format string, args ...any) *Error {
	e := newError(CodeJSON, format, args...)
	e.Offset = s.pos
	return e
}

// DescribeNext names the byte at the position in an error.
func (s *Scanner) DescribeNext() string {
	if s.pos >= len(s.data) {
		return "end of text"
	}
	if c := s.data[s.pos]; c < utf8.RuneSelf {
		return strconv.QuoteRune(rune(c))
	}
	return "byte 0x" + strconv.FormatUint(uint64(s.data[s.pos]), 16)
}

// SkipSpace steps over white space.
func (s *Scanner) SkipSpace() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
			s.free = true
		default:
			return
		}
	}
}

// peekByte returns the byte at the position, or 0 at the end.
//
// A zero byte is nowhere allowed in the grammar, so that the end needs no case of its own in
// those who look.
func (s *Scanner) peekByte() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// Expect steps over white space and the byte c.
func (s *Scanner) Expect(c byte) *Error {
	s.SkipSpace()
	if s.peekByte() != c {
		return s.newError("%s where %q was expected", s.DescribeNext(), rune(c))
	}
	s.pos++
	return nil
}

// NextElement goes to the next element of a list or an object: over a comma unless
// it is the first one. At the closing byte it steps over that, and returns false.
//
// With it a loop over a container is: for first := true; more; first = false. A comma must be
// followed by an element, which whoever parses that finds out: [1,] fails at the bracket.
func (s *Scanner) NextElement(end byte, first bool) (more bool, err *Error) {
	s.SkipSpace()
	switch c := s.peekByte(); {
	case c == end:
		s.pos++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.pos++
		s.SkipSpace()
		return true, nil
	default:
		return false, s.newError("%s where ',' or %q was expected", s.DescribeNext(), rune(end))
	}
}

// End makes sure that nothing but white space is left.
func (s *Scanner) End() *Error {
	s.SkipSpace()
	if s.pos < len(s.data) {
		return s.newError("unexpected %s after the value", s.DescribeNext())
	}
	return nil
}

// Bool parses the boolean that comes next.
func (s *Scanner) Bool() (bool, *Error) {
	s.SkipSpace()
	switch s.peekByte() {
	case 't':
		_, err := s.scanWord("true", nil)
		return true, err
	case 'f':
		_, err := s.scanWord("false", nil)
		return false, err
	default:
		return false, s.newError("%s where true or false was expected", s.DescribeNext())
	}
}

// Text parses the string that comes next.
func (s *Scanner) Text() (string, *Error) {
	raw, plain, err := s.Span()
	if err != nil {
		return "", err
	}
	return s.unquoteText(raw, plain)
}

// Span steps over the string that comes next and returns what is between its
// quotes, and whether that is plain: printable ASCII without escapes.
//
// A plain text is what its bytes are, and need not be unescaped: that is nearly every key, kind
// and id. raw is a part of the scanner's text and must not be kept.
func (s *Scanner) Span() (raw []byte, plain bool, err *Error) {
	if err := s.Expect('"'); err != nil {
		return nil, false, err
	}
	s.pos--
	return s.scanSpan()
}

// Literal steps over the number that comes next and returns its text, and whether
// that is an integer: it has neither a fraction nor an exponent.
//
// It checks the grammar of JSON, which is narrower than that of strconv: no plus sign, no
// leading zero, no bare dot, no hexadecimal digits.
func (s *Scanner) Literal() (literal []byte, integer bool, err *Error) {
	s.SkipSpace()
	start := s.pos
	if s.peekByte() == '-' {
		s.pos++
	}
	first := s.pos
	s.scanDigits()
	if err := s.checkInteger(first); err != nil {
		return nil, false, err
	}
	end := s.pos
	if err := s.scanFraction(); err != nil {
		return nil, false, err
	}
	return s.data[start:s.pos], s.pos == end, nil
}

// scanSpan steps over the string at the position and returns what is between its
// quotes, and whether that is plain: printable ASCII without escapes.
//
// It looks for the closing quote, eight bytes at a time, and refuses control characters; escapes are only stepped over,
// and checked by unquoteText. A backslash takes the byte behind it along, so that \" does not
// end the string.
func (s *Scanner) scanSpan() (raw []byte, plain bool, err *Error) {
	start := s.pos + 1
	plain = true
	for i := start; i < len(s.data); {
		n, ascii := plainPrefix(s.data[i:])
		plain = plain && ascii
		if i += n; i == len(s.data) {
			break
		}
		switch s.data[i] {
		case '"':
			s.pos = i + 1
			return s.data[start:i], plain, nil
		case '\\':
			plain = false
			i += 2
		default:
			s.pos = i
			return nil, false, s.newError("control character %s in a string", s.DescribeNext())
		}
	}
	s.pos = len(s.data)
	return nil, false, s.newError("string without an end")
}

// unquoteText returns the string that raw spells. The position is behind it.
//
// UTF-8 is checked once for the whole, before any of it is copied; what is between two escapes is copied at once. Escapes stand for single
// runes, or, for a surrogate pair, two of them for one.
func (s *Scanner) unquoteText(raw []byte, plain bool) (string, *Error) {
	if plain {
		return string(raw), nil
	}
	if !utf8.Valid(raw) {
		return "", s.textError(raw, 0, "string is not UTF-8")
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), nil
	}
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			n, _ := plainPrefix(raw[i:])
			n = max(n, 1) // though neither a quote nor a control character can stand here
			b.Write(raw[i : i+n])
			i += n
			continue
		}
		r, n, problem := s.unescapeRune(raw[i:])
		if problem != "" {
			return "", s.textError(raw, i, problem)
		}
		s.free = s.free || !isNeeded(r, raw[i:i+n])
		if r < utf8.RuneSelf {
			b.WriteByte(byte(r))
		} else {
			b.WriteRune(r)
		}
		i += n
	}
	return b.String(), nil
}

// isNeeded reports whether an escape of r is the one that Append writes.
func isNeeded(r rune, escape []byte) bool {
	if r >= ' ' && r != '"' && r != '\\' {
		return false
	}
	var buf [6]byte
	return bytes.Equal(appendEscape(buf[:0], byte(r)), escape)
}

// textError has the place of byte i of raw. The position is behind the closing quote already,
// so that it is counted back from there.
func (s *Scanner) textError(raw []byte, i int, problem string) *Error {
	e := newError(CodeString, "%s", problem)
	e.Offset = s.pos - 1 - len(raw) + i
	return e
}

// unescapeRune returns the rune of the escape at the start of raw and its length.
func (s *Scanner) unescapeRune(raw []byte) (r rune, n int, problem string) {
	switch raw[1] { // scanSpan makes sure that a byte follows
	case '"', '\\', '/':
		return rune(raw[1]), 2, ""
	case 'b':
		return '\b', 2, ""
	case 'f':
		return '\f', 2, ""
	case 'n':
		return '\n', 2, ""
	case 'r':
		return '\r', 2, ""
	case 't':
		return '\t', 2, ""
	case 'u':
		return s.unescapeUnicode(raw)
	default:
		return 0, 0, "unknown escape in a string"
	}
}

// unescapeUnicode reads \uXXXX, or two of them that make a pair. Half of a pair has no meaning
// in UTF-8, and encoding/json would put a replacement for it without a word.
func (s *Scanner) unescapeUnicode(raw []byte) (r rune, n int, problem string) {
	r = hexCodeUnit(raw)
	switch {
	case r < 0:
		return 0, 0, "\\u without four hex digits"
	case r == utf8.RuneError && s.marshaled:
		return 0, 0, "string is not UTF-8"
	case !utf16.IsSurrogate(r):
		return r, 6, ""
	}
	if pair := utf16.DecodeRune(r, hexCodeUnit(raw[6:])); pair != utf8.RuneError {
		return pair, 12, ""
	}
	return 0, 0, "half of a surrogate pair"
}

// hexCodeUnit returns the code unit of a \uXXXX at the start of raw, or -1.
//
// It takes a text that is too short, as the second half of a pair may not be there.
func hexCodeUnit(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range raw[2:6] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return -1
		}
	}
	return r
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
