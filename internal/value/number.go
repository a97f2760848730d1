package value

import (
	"math"
	"strconv"
	"strings"
)

// fastDigits is the number of digits that always fit below 2^53.
const fastDigits = 15

// scanNumber parses the number at the position.
//
// Most numbers are small integers: they are read without a detour over floats. -0 is 0 here.
func (s *Scanner) scanNumber() (any, *Error) {
	start := s.pos
	literal, integer, err := s.Literal()
	if err != nil {
		return nil, err
	}
	if integer && len(literal) <= fastDigits {
		n, _ := strconv.ParseInt(string(literal), 10, 64)
		s.free = s.free || n == 0 && len(literal) > 1
		return n, nil
	}
	v, err := parseNumber(string(literal), integer)
	if err != nil {
		err.Offset = start
		return nil, err
	}
	var buf [32]byte
	s.free = s.free || string(Append(buf[:0], v)) != string(literal)
	return v, nil
}

// scanDigits steps over digits, and there may be none.
func (s *Scanner) scanDigits() {
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
}

// checkInteger makes sure that an integer part has a digit, and that it has no zero in front of
// others.
func (s *Scanner) checkInteger(first int) *Error {
	switch {
	case s.pos == first:
		return s.newError("%s where a digit was expected", s.DescribeNext())
	case s.data[first] == '0' && s.pos > first+1:
		s.pos = first
		return s.newError("number with a leading zero")
	default:
		return nil
	}
}

// scanFraction steps over the fraction and the exponent of a number, if any.
func (s *Scanner) scanFraction() *Error {
	if s.peekByte() == '.' {
		s.pos++
		if err := s.scanSomeDigits(); err != nil {
			return err
		}
	}
	if c := s.peekByte(); c != 'e' && c != 'E' {
		return nil
	}
	s.pos++
	if c := s.peekByte(); c == '+' || c == '-' {
		s.pos++
	}
	return s.scanSomeDigits()
}

// scanSomeDigits steps over at least one digit.
func (s *Scanner) scanSomeDigits() *Error {
	first := s.pos
	s.scanDigits()
	if s.pos == first {
		return s.newError("%s where a digit was expected", s.DescribeNext())
	}
	return nil
}

// parseNumber returns the number of a JSON literal; whole says that the literal
// has neither a fraction nor an exponent.
//
// ParseFloat gives the nearest double. For a literal with a fraction or an exponent that is the
// value; for a whole one it must be exact, since whoever writes 9007199254740993 means that
// integer and no neighbour.
func parseNumber(literal string, whole bool) (any, *Error) {
	f, err := strconv.ParseFloat(literal, 64)
	switch {
	case err != nil:
		return nil, newError(CodeNumber, "number %s is out of range", Shorten(literal, maxLiteral))
	case f == 0 && strings.ContainsAny(mantissaOf(literal), "123456789"):
		return nil, newError(CodeNumber, "number %s would become 0", Shorten(literal, maxLiteral))
	case whole && math.Abs(f) >= MaxInteger && !isExactInteger(literal, f):
		return nil, newError(CodeNumber, "integer %s is outside +-2^53 and not exact as a double", Shorten(literal, maxLiteral))
	default:
		return modelFloat(f)
	}
}

// isExactInteger reports whether an integer literal is the very value of f.
//
// All digits of a double are compared with the literal: at most 309 of them, and a sign.
func isExactInteger(literal string, f float64) bool {
	var buf [320]byte
	return string(strconv.AppendFloat(buf[:0], f, 'f', 0, 64)) == literal
}

// mantissaOf returns a literal without its exponent. If it has any digit but 0, and the value
// is 0, it was too small.
func mantissaOf(literal string) string {
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		return literal[:i]
	}
	return literal
}

// maxLiteral bounds, in bytes, what an error quotes of a literal, which may have
// megabytes.
const maxLiteral = 40
