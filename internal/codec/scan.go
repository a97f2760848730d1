package codec

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// space steps over white space.
func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// next describes the byte at the position, for an error.
func (d *decoder) next() string {
	if d.pos >= len(d.data) {
		return "end of text"
	}
	if c := d.data[d.pos]; c < utf8.RuneSelf {
		return strconv.QuoteRune(rune(c))
	}
	return "byte 0x" + strconv.FormatUint(uint64(d.data[d.pos]), 16)
}

// expect steps over white space and the byte c.
func (d *decoder) expect(c byte) *Error {
	d.space()
	if d.pos >= len(d.data) || d.data[d.pos] != c {
		return d.failf("%s, want %q", d.next(), rune(c))
	}
	d.pos++
	return nil
}

// end makes sure that nothing but white space is left.
func (d *decoder) end() *Error {
	d.space()
	if d.pos < len(d.data) {
		return d.failf("%s after the end", d.next())
	}
	return nil
}

// step goes to the next element of an array or object: over a comma unless it
// is the first one. It reports whether there was the closing byte instead.
func (d *decoder) step(end byte, first bool) (done bool, err *Error) {
	d.space()
	switch {
	case d.pos >= len(d.data):
		return false, d.failf("end of text, want %q", rune(end))
	case d.data[d.pos] == end:
		d.pos++
		return true, nil
	case first:
		return false, nil
	case d.data[d.pos] == ',':
		d.pos++
		return false, nil
	default:
		return false, d.failf("%s, want ',' or %q", d.next(), rune(end))
	}
}

// key reads the name of a field and the colon after it.
func (d *decoder) key() ([]byte, *Error) {
	name, plain, err := d.quoted()
	if err != nil {
		return nil, err
	}
	if !plain {
		return nil, d.failf("unknown field %.40q", name)
	}
	return name, d.expect(':')
}

// quoted steps over a string and returns what is between its quotes, and
// whether that is plain: printable ASCII without escapes.
func (d *decoder) quoted() (raw []byte, plain bool, err *Error) {
	if err := d.expect('"'); err != nil {
		return nil, false, err
	}
	start := d.pos
	plain = true
	for i := start; i < len(d.data); i++ {
		switch c := d.data[i]; {
		case c == '"':
			d.pos = i + 1
			return d.data[start:i], plain, nil
		case c == '\\':
			plain = false
			i++
		case c < ' ' || c >= utf8.RuneSelf:
			plain = false
		}
	}
	d.pos = len(d.data)
	return nil, false, d.failf("end of text within a string")
}

// raw steps over one JSON value of any kind and returns it. It finds where the
// value ends and leaves it to others to find whether it is one.
func (d *decoder) raw() ([]byte, *Error) {
	d.space()
	start := d.pos
	var err *Error
	switch {
	case d.pos >= len(d.data):
		return nil, d.failf("end of text, want a value")
	case d.data[d.pos] == '"':
		_, _, err = d.quoted()
	case d.data[d.pos] == '{' || d.data[d.pos] == '[':
		err = d.brackets()
	default:
		d.scalar()
	}
	return d.data[start:d.pos], err
}

// brackets steps over an object or array: to where as many brackets are closed
// as were opened outside of strings.
func (d *decoder) brackets() *Error {
	for depth := 0; d.pos < len(d.data); {
		switch d.data[d.pos] {
		case '"':
			if _, _, err := d.quoted(); err != nil {
				return err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				d.pos++
				return nil
			}
		}
		d.pos++
	}
	return d.failf("end of text within a value")
}

// scalar steps over everything up to white space, a comma or a closing bracket.
func (d *decoder) scalar() {
	for ; d.pos < len(d.data); d.pos++ {
		switch d.data[d.pos] {
		case '}', ']', ',', ' ', '\t', '\n', '\r':
			return
		}
	}
}

// word steps over w if it is next.
func (d *decoder) word(w string) bool {
	if len(d.data)-d.pos < len(w) || string(d.data[d.pos:d.pos+len(w)]) != w {
		return false
	}
	d.pos += len(w)
	return true
}

// minus steps over white space and a minus sign, and reports whether there was
// one.
func (d *decoder) minus() bool {
	d.space()
	if d.pos < len(d.data) && d.data[d.pos] == '-' {
		d.pos++
		return true
	}
	return false
}

// digits reads an integer without a sign.
func (d *decoder) digits() (uint64, *Error) {
	start := d.pos
	var n uint64
	for ; d.pos < len(d.data) && isDigit(d.data[d.pos]); d.pos++ {
		digit := uint64(d.data[d.pos] - '0')
		if n > (math.MaxUint64-digit)/10 {
			return 0, d.failf("the number is out of range")
		}
		n = n*10 + digit
	}
	switch {
	case d.pos == start:
		return 0, d.failf("%s, want a digit", d.next())
	case d.data[start] == '0' && d.pos > start+1:
		return 0, d.failf("number with a leading zero")
	default:
		return n, nil
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isNumber reports whether raw is a JSON number, by the grammar of RFC 8259.
func isNumber(raw []byte) bool {
	raw = bytes.TrimPrefix(raw, []byte("-"))
	whole := countDigits(raw)
	if whole == 0 || raw[0] == '0' && whole > 1 {
		return false
	}
	raw = raw[whole:]
	if len(raw) > 0 && raw[0] == '.' {
		n := countDigits(raw[1:])
		if n == 0 {
			return false
		}
		raw = raw[1+n:]
	}
	if len(raw) == 0 {
		return true
	}
	if raw[0] != 'e' && raw[0] != 'E' {
		return false
	}
	raw = raw[1:]
	if len(raw) > 0 && (raw[0] == '+' || raw[0] == '-') {
		raw = raw[1:]
	}
	return len(raw) > 0 && countDigits(raw) == len(raw)
}

func countDigits(text []byte) int {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

func isHash(text []byte) bool {
	if len(text) != hashLen {
		return false
	}
	for _, c := range text {
		if !isDigit(c) && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
