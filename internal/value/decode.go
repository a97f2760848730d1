package value

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
	if n := lim.maxBytes(); len(data) > n {
		return nil, limitError(LimitBytes, n, len(data))
	}
	s := Scanner{data: data, limit: lim.maxDepth()}
	v, err := s.scanDocument(0)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// maxKeys bounds the keys that a scanner remembers.
const maxKeys = 256

// scanDocument parses the whole text, which is inside depth containers.
func (s *Scanner) scanDocument(depth int) (any, *Error) {
	s.SkipSpace()
	v, err := s.scanValue(depth)
	if err != nil {
		return nil, err
	}
	return v, s.End()
}

// Value parses the value that comes next; see [Decode].
func (s *Scanner) Value() (any, *Error) {
	s.SkipSpace()
	return s.scanValue(0)
}

// scanValue parses the value at the position; depth containers are open around
// it.
func (s *Scanner) scanValue(depth int) (any, *Error) {
	s.pacer.Spend(1)
	switch c := s.peekByte(); c {
	case '{':
		return s.scanContainer(depth, s.scanObject)
	case '[':
		return s.scanContainer(depth, s.scanList)
	case '"':
		return boxText(s.Text())
	case 't':
		return s.scanWord("true", true)
	case 'f':
		return s.scanWord("false", false)
	case 'n':
		return s.scanWord("null", nil)
	default:
		if c == '-' || isDigit(c) {
			return s.scanNumber()
		}
		return nil, s.newError("unexpected %s", s.DescribeNext())
	}
}

func boxText(text string, err *Error) (any, *Error) {
	if err != nil {
		return nil, err
	}
	return text, nil
}

func (s *Scanner) scanWord(word string, v any) (any, *Error) {
	for i := range len(word) {
		if s.peekByte() != word[i] {
			return nil, s.newError("unexpected %s in %s", s.DescribeNext(), word)
		}
		s.pos++
	}
	return v, nil
}

// scanContainer steps over the opening bracket and parses what follows one deeper.
func (s *Scanner) scanContainer(depth int, parse func(depth int) (any, *Error)) (any, *Error) {
	if depth >= s.limit {
		err := limitError(LimitDepth, s.limit, depth+1)
		err.Offset = s.pos
		return nil, err
	}
	s.pos++
	return parse(depth + 1)
}

func (s *Scanner) scanList(depth int) (any, *Error) {
	list := []any{}
	for {
		if more, err := s.NextElement(']', len(list) == 0); err != nil || !more {
			return list, err
		}
		v, err := s.scanValue(depth)
		if err != nil {
			return nil, err.inElement(len(list))
		}
		list = append(list, v)
	}
}

func (s *Scanner) scanObject(depth int) (any, *Error) {
	m := map[string]any{}
	for {
		if more, err := s.NextElement('}', len(m) == 0); err != nil || !more {
			return m, err
		}
		key, err := s.scanKey()
		if err != nil {
			return nil, err
		}
		if _, twice := m[key]; twice {
			return nil, s.newError("key twice in one object").inKey(key)
		}
		v, err := s.scanValue(depth)
		if err != nil {
			return nil, err.inKey(key)
		}
		m[key] = v
	}
}

// scanKey parses a key and the colon after it.
func (s *Scanner) scanKey() (string, *Error) {
	if s.peekByte() != '"' {
		return "", s.newError("%s where a key was expected", s.DescribeNext())
	}
	raw, plain, err := s.scanSpan()
	if err != nil {
		return "", err
	}
	key, known := s.keys[string(raw)]
	if !known {
		if key, err = s.unquoteText(raw, plain); err != nil {
			return "", err
		}
		s.rememberKey(raw, key)
	}
	if err := s.Expect(':'); err != nil {
		return "", err
	}
	s.SkipSpace()
	return key, nil
}

func (s *Scanner) rememberKey(raw []byte, key string) {
	switch {
	case len(raw) != len(key): // escaped: the raw text would need a copy of its own
	case s.keys == nil:
		s.keys = map[string]string{key: key}
	case len(s.keys) < maxKeys:
		s.keys[key] = key
	}
}
