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
//
// encoding/json would be too kind: of two equal keys it takes the last, it replaces what is not
// UTF-8, and it makes a float64 of each number, so that 9007199254740993 would come back as
// another. A run that is replayed from such a text would decide by data that nobody sent. The
// journal is read by the same scanner, through package codec.
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
//
// A list of objects has the same keys again and again; each is allocated once. The bound keeps
// a map with a million different keys from being remembered a second time.
const maxKeys = 256

// scanDocument parses the whole text, which is inside depth containers.
//
// A value inside of another may be parsed on its own, as json.RawMessage is by Normalize: depth
// then says how many containers are around it, so that the limit holds for the whole.
func (s *Scanner) scanDocument(depth int) (any, *Error) {
	s.SkipSpace()
	v, err := s.scanValue(depth)
	if err != nil {
		return nil, err
	}
	return v, s.End()
}

// Value parses the value that comes next; see [Decode].
//
// It counts the depth from 0 at this value, and stops behind it: the text may go on, as a field
// of a struct does in package codec.
func (s *Scanner) Value() (any, *Error) {
	s.SkipSpace()
	return s.scanValue(0)
}

// scanValue parses the value at the position; depth containers are open around
// it.
//
// Every value that is parsed is counted by the pacer, so that a text of megabytes does not keep
// a processor from the steps of other runs.
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

// boxText puts a text into an interface, unless there is an error: an interface that holds ""
// would not be nil.
func boxText(text string, err *Error) (any, *Error) {
	if err != nil {
		return nil, err
	}
	return text, nil
}

// scanWord steps over a word of the grammar, byte by byte, so that an error names the byte at
// which the text stops being that word.
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
//
// This is the only place where the depth grows, and therefore where it is bounded: the parser
// calls itself once for each container, and a text of a million brackets must not become a
// stack of that size.
func (s *Scanner) scanContainer(depth int, parse func(depth int) (any, *Error)) (any, *Error) {
	if depth >= s.limit {
		err := limitError(LimitDepth, s.limit, depth+1)
		err.Offset = s.pos
		return nil, err
	}
	s.pos++
	s.deepest = max(s.deepest, depth+1)
	return parse(depth + 1)
}

// scanList parses the elements and the closing bracket. An empty list is [] and not nil, which
// would be null.
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

// scanObject parses the entries and the closing brace. As m has each key that came, it also
// tells whether one comes twice.
func (s *Scanner) scanObject(depth int) (any, *Error) {
	m, last := map[string]any{}, ""
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
		s.free = s.free || key < last
		m[key], last = v, key
	}
}

// scanKey parses a key and the colon after it.
//
// The raw bytes are looked up among the keys that are known: the compiler makes no string for
// the look-up, so that a known key costs no memory.
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
		s.refs = s.refs || key == RefKey
		s.rememberKey(raw, key)
	}
	if err := s.Expect(':'); err != nil {
		return "", err
	}
	s.SkipSpace()
	return key, nil
}

// rememberKey keeps a key under its own text. A key with escapes is shorter than its raw text,
// and is not kept.
func (s *Scanner) rememberKey(raw []byte, key string) {
	switch {
	case len(raw) != len(key): // escaped: the raw text would need a copy of its own
	case s.keys == nil:
		s.keys = map[string]string{key: key}
	case len(s.keys) < maxKeys:
		s.keys[key] = key
	}
}
