package value

import (
	"strconv"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/pace"
)

// Decode parses one JSON text (RFC 8259) strictly. Beyond the grammar it
// refuses: an object with a key twice, text that is not UTF-8, half of a
// surrogate pair, anything but white space after the value, and numbers which
// the model cannot hold exactly. These are an integer literal outside +-2^53
// which is no float64, a literal too large for a float64 or so small that it
// would become 0, and -0 in every spelling. A literal with a fraction or an
// exponent is the nearest float64.
//
// Errors are of type *Error. The stack grows with Limits.Depth only.
func Decode(data []byte, lim Limits) (any, error) {
	if n := lim.bytes(); len(data) > n {
		return nil, exceeded(LimitBytes, n, len(data))
	}
	s := scanner{data: data, limit: lim.depth()}
	v, err := s.document(0)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// A scanner walks over one JSON text. It recurses once per container.
type scanner struct {
	data      []byte
	pos       int
	limit     int               // of the depth
	marshaled bool              // the text is by encoding/json, where \ufffd stands for bytes that are not UTF-8
	keys      map[string]string // keys seen, so that they are allocated once
	pacer     pace.Pacer
}

// maxKeys bounds the keys that a scanner remembers.
const maxKeys = 256

// document parses the whole text, which is inside depth containers.
func (s *scanner) document(depth int) (any, *Error) {
	s.space()
	v, err := s.value(depth)
	if err != nil {
		return nil, err
	}
	s.space()
	if s.pos < len(s.data) {
		return nil, s.failf("unexpected %s after the value", s.next())
	}
	return v, nil
}

func (s *scanner) failf(format string, args ...any) *Error {
	e := failf(CodeJSON, format, args...)
	e.Offset = s.pos
	return e
}

// next describes the byte at the position, for an error.
func (s *scanner) next() string {
	if s.pos >= len(s.data) {
		return "end of text"
	}
	if c := s.data[s.pos]; c < utf8.RuneSelf {
		return strconv.QuoteRune(rune(c))
	}
	return "byte 0x" + strconv.FormatUint(uint64(s.data[s.pos]), 16)
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the byte at the position, or 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// value parses the value at the position; depth containers are open around it.
func (s *scanner) value(depth int) (any, *Error) {
	s.pacer.Spend(1)
	switch c := s.peek(); c {
	case '{':
		return s.container(depth, s.object)
	case '[':
		return s.container(depth, s.list)
	case '"':
		return box(s.text())
	case 't':
		return s.word("true", true)
	case 'f':
		return s.word("false", false)
	case 'n':
		return s.word("null", nil)
	default:
		if c == '-' || isDigit(c) {
			return s.number()
		}
		return nil, s.failf("unexpected %s", s.next())
	}
}

func box(text string, err *Error) (any, *Error) {
	if err != nil {
		return nil, err
	}
	return text, nil
}

func (s *scanner) word(word string, v any) (any, *Error) {
	for i := range len(word) {
		if s.peek() != word[i] {
			return nil, s.failf("unexpected %s in %s", s.next(), word)
		}
		s.pos++
	}
	return v, nil
}

// container steps over the opening bracket and parses what follows one deeper.
func (s *scanner) container(depth int, parse func(depth int) (any, *Error)) (any, *Error) {
	if depth >= s.limit {
		err := exceeded(LimitDepth, s.limit, depth+1)
		err.Offset = s.pos
		return nil, err
	}
	s.pos++
	s.space()
	return parse(depth + 1)
}

func (s *scanner) list(depth int) (any, *Error) {
	list := []any{}
	if s.peek() == ']' {
		s.pos++
		return list, nil
	}
	for {
		v, err := s.value(depth)
		if err != nil {
			return nil, err.under(len(list))
		}
		list = append(list, v)
		if more, err := s.separator(']'); err != nil || !more {
			return list, err
		}
	}
}

func (s *scanner) object(depth int) (any, *Error) {
	m := map[string]any{}
	if s.peek() == '}' {
		s.pos++
		return m, nil
	}
	for {
		key, err := s.key()
		if err != nil {
			return nil, err
		}
		if _, twice := m[key]; twice {
			return nil, s.failf("key twice in one object").below(key)
		}
		v, err := s.value(depth)
		if err != nil {
			return nil, err.below(key)
		}
		m[key] = v
		if more, err := s.separator('}'); err != nil || !more {
			return m, err
		}
	}
}

// separator steps over a comma or the closing bracket, and says which it was.
func (s *scanner) separator(end byte) (more bool, err *Error) {
	s.space()
	switch s.peek() {
	case ',':
		s.pos++
		s.space()
		return true, nil
	case end:
		s.pos++
		return false, nil
	default:
		return false, s.failf("%s where ',' or %q was expected", s.next(), rune(end))
	}
}

// key parses a key and the colon after it.
func (s *scanner) key() (string, *Error) {
	if s.peek() != '"' {
		return "", s.failf("%s where a key was expected", s.next())
	}
	raw, plain, err := s.span()
	if err != nil {
		return "", err
	}
	key, known := s.keys[string(raw)]
	if !known {
		if key, err = s.unquote(raw, plain); err != nil {
			return "", err
		}
		s.remember(raw, key)
	}
	s.space()
	if s.peek() != ':' {
		return "", s.failf("%s where ':' was expected", s.next())
	}
	s.pos++
	s.space()
	return key, nil
}

func (s *scanner) remember(raw []byte, key string) {
	switch {
	case len(raw) != len(key): // escaped: the raw text would need a copy of its own
	case s.keys == nil:
		s.keys = map[string]string{key: key}
	case len(s.keys) < maxKeys:
		s.keys[key] = key
	}
}
