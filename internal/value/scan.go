package value

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text parses the string at the position.
func (s *scanner) text() (string, *Error) {
	raw, plain, err := s.span()
	if err != nil {
		return "", err
	}
	return s.unquote(raw, plain)
}

// span steps over the string at the position and returns what is between its
// quotes, and whether that is plain: printable ASCII without escapes.
func (s *scanner) span() (raw []byte, plain bool, err *Error) {
	start := s.pos + 1
	plain = true
	for i := start; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.data[start:i], plain, nil
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			s.pos = i
			return nil, false, s.failf("control character %s in a string", s.next())
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	s.pos = len(s.data)
	return nil, false, s.failf("string without an end")
}

// unquote returns the string that raw spells. The position is behind it.
func (s *scanner) unquote(raw []byte, plain bool) (string, *Error) {
	if plain {
		return string(raw), nil
	}
	if !utf8.Valid(raw) {
		return "", s.badString(raw, 0, "string is not UTF-8")
	}
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); {
		if c := raw[i]; c != '\\' {
			b.WriteByte(c)
			i++
			continue
		}
		r, n, problem := s.escape(raw[i:])
		if problem != "" {
			return "", s.badString(raw, i, problem)
		}
		b.WriteRune(r)
		i += n
	}
	return b.String(), nil
}

func (s *scanner) badString(raw []byte, i int, problem string) *Error {
	e := failf(CodeString, "%s", problem)
	e.Offset = s.pos - 1 - len(raw) + i
	return e
}

// escape returns the rune of the escape at the start of raw and its length.
func (s *scanner) escape(raw []byte) (r rune, n int, problem string) {
	switch raw[1] { // span makes sure that a byte follows
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
		return s.unicodeEscape(raw)
	default:
		return 0, 0, "unknown escape in a string"
	}
}

func (s *scanner) unicodeEscape(raw []byte) (r rune, n int, problem string) {
	r = hex4(raw)
	switch {
	case r < 0:
		return 0, 0, "\\u without four hex digits"
	case r == utf8.RuneError && s.marshaled:
		return 0, 0, "string is not UTF-8"
	case !utf16.IsSurrogate(r):
		return r, 6, ""
	}
	if pair := utf16.DecodeRune(r, hex4(raw[6:])); pair != utf8.RuneError {
		return pair, 12, ""
	}
	return 0, 0, "half of a surrogate pair"
}

// hex4 returns the code unit of a \uXXXX at the start of raw, or -1.
func hex4(raw []byte) rune {
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

// fastDigits is the number of digits that always fit below 2^53.
const fastDigits = 15

// number parses the number at the position.
func (s *scanner) number() (any, *Error) {
	start := s.pos
	negative := s.peek() == '-'
	if negative {
		s.pos++
	}
	first := s.pos
	n := s.digits()
	if err := s.checkInteger(first); err != nil {
		return nil, err
	}
	if c := s.peek(); c != '.' && c != 'e' && c != 'E' && s.pos-first <= fastDigits && n != 0 {
		if negative {
			n = -n
		}
		return n, nil
	}
	whole := s.pos
	if err := s.fraction(); err != nil {
		return nil, err
	}
	v, err := parseNumber(string(s.data[start:s.pos]), whole == s.pos)
	if err != nil {
		err.Offset = start
	}
	return v, err
}

// digits steps over digits and returns their value, if it fits.
func (s *scanner) digits() int64 {
	var n int64
	for ; s.pos < len(s.data) && isDigit(s.data[s.pos]); s.pos++ {
		n = n*10 + int64(s.data[s.pos]-'0')
	}
	return n
}

func (s *scanner) checkInteger(first int) *Error {
	switch {
	case s.pos == first:
		return s.failf("%s where a digit was expected", s.next())
	case s.data[first] == '0' && s.pos > first+1:
		s.pos = first
		return s.failf("number with a leading zero")
	default:
		return nil
	}
}

// fraction steps over the fraction and the exponent of a number, if any.
func (s *scanner) fraction() *Error {
	if s.peek() == '.' {
		s.pos++
		if err := s.someDigits(); err != nil {
			return err
		}
	}
	if c := s.peek(); c != 'e' && c != 'E' {
		return nil
	}
	s.pos++
	if c := s.peek(); c == '+' || c == '-' {
		s.pos++
	}
	return s.someDigits()
}

func (s *scanner) someDigits() *Error {
	first := s.pos
	s.digits()
	if s.pos == first {
		return s.failf("%s where a digit was expected", s.next())
	}
	return nil
}

// parseNumber returns the number of a JSON literal; whole says that the literal
// has neither a fraction nor an exponent.
func parseNumber(literal string, whole bool) (any, *Error) {
	f, err := strconv.ParseFloat(literal, 64)
	switch {
	case err != nil:
		return nil, failf(CodeNumber, "number %s is out of range", Shorten(literal, maxLiteral))
	case f == 0 && strings.ContainsAny(mantissa(literal), "123456789"):
		return nil, failf(CodeNumber, "number %s would become 0", Shorten(literal, maxLiteral))
	case whole && math.Abs(f) >= MaxInteger && !exact(literal, f):
		return nil, failf(CodeNumber, "integer %s is outside +-2^53 and not exact as a double", Shorten(literal, maxLiteral))
	default:
		return float(f)
	}
}

// exact reports whether an integer literal is the very value of f.
func exact(literal string, f float64) bool {
	var buf [320]byte
	return string(strconv.AppendFloat(buf[:0], f, 'f', 0, 64)) == literal
}

func mantissa(literal string) string {
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		return literal[:i]
	}
	return literal
}

// maxLiteral bounds, in bytes, what an error quotes of a literal, which may have
// megabytes.
const maxLiteral = 40
