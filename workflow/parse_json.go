package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/value"
)

// A syntaxError says where a text is not JSON or YAML at all.
type syntaxError struct {
	line, column int
	message      string
	cause        error
}

func (e *syntaxError) Error() string { return e.message }

func (e *syntaxError) Unwrap() error { return e.cause }

// readJSON reads one JSON text into elements. The error is a *syntaxError.
func readJSON(data []byte) (*element, error) {
	r := &jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), line: 1, column: 1}
	r.decoder.UseNumber()
	if !utf8.Valid(data) {
		r.moveTo(len(data) - len(bytes.TrimLeftFunc(data, func(c rune) bool { return c != utf8.RuneError })))
		return nil, r.fail(errors.New("the text is not UTF-8"))
	}
	e, err := r.element()
	if err != nil {
		return nil, r.fail(err)
	}
	if _, err := r.token(); !errors.Is(err, io.EOF) {
		return nil, r.fail(errors.New("the text goes on after the definition"))
	}
	return e, nil
}

// A jsonReader knows the place of the token it has read last.
type jsonReader struct {
	data         []byte
	decoder      *json.Decoder
	depth        depth
	start        int // of the last token
	line, column int // of start
}

// token returns the next token, and moves to where it starts.
func (r *jsonReader) token() (json.Token, error) {
	from := int(r.decoder.InputOffset())
	rest := bytes.TrimLeft(r.data[from:], " \t\r\n,:")
	r.moveTo(len(r.data) - len(rest))
	return r.decoder.Token()
}

// moveTo counts the lines and the code points up to offset.
func (r *jsonReader) moveTo(offset int) {
	if offset <= r.start {
		return
	}
	passed := r.data[r.start:min(offset, len(r.data))]
	if n := bytes.Count(passed, []byte{'\n'}); n > 0 {
		r.line, r.column = r.line+n, 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	r.column += utf8.RuneCount(passed)
	r.start = offset
}

// fail moves to where an error of the decoder is, and returns it with its place.
func (r *jsonReader) fail(err error) error {
	var bad *json.SyntaxError
	switch {
	case errors.As(err, &bad):
		r.moveTo(int(bad.Offset) - 1)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		r.moveTo(len(r.data))
		err = errors.New("the text ends too early")
	}
	return &syntaxError{r.line, r.column, err.Error(), err}
}

// element reads the next value.
func (r *jsonReader) element() (*element, error) {
	token, err := r.token()
	if err != nil {
		return nil, err
	}
	return r.elementOf(token)
}

func (r *jsonReader) elementOf(token json.Token) (*element, error) {
	e := &element{line: r.line, column: r.column}
	switch t := token.(type) {
	case nil:
		e.kind = nullElement
	case bool:
		e.kind, e.text = boolElement, fmt.Sprint(t)
	case json.Number:
		e.kind, e.text = numberElement, t.String()
	case string:
		r.string(e, t)
	case json.Delim:
		return e, r.container(e, t)
	}
	return e, nil
}

// string takes a string. The decoder replaces half of a surrogate pair, which
// package value refuses.
func (r *jsonReader) string(e *element, text string) {
	e.kind, e.text = stringElement, text
	if strings.ContainsRune(text, utf8.RuneError) {
		if _, err := value.Decode(r.data[r.start:r.decoder.InputOffset()], value.Limits{}); err != nil {
			e.kind, e.text = invalidElement, "a string with half of a surrogate pair"
		}
	}
}

func (r *jsonReader) container(e *element, open json.Delim) error {
	if err := r.depth.open(); err != nil {
		return err
	}
	read, end := r.item, json.Delim(']')
	e.kind = listElement
	if open == '{' {
		e.kind, read, end = objectElement, r.member, '}'
	}
	for {
		token, err := r.token()
		if err != nil {
			return err
		}
		if token == end {
			r.depth--
			return nil
		}
		if err := read(e, token); err != nil {
			return err
		}
	}
}

func (r *jsonReader) item(list *element, token json.Token) error {
	e, err := r.elementOf(token)
	list.items = append(list.items, e)
	return err
}

func (r *jsonReader) member(object *element, token json.Token) error {
	key := element{}
	text, _ := token.(string) // the decoder takes no other key
	r.string(&key, text)
	m := member{key: text, line: r.line, column: r.column}
	if key.kind == invalidElement {
		m.wrong = key.text
	}
	var err error
	m.value, err = r.element()
	object.members = append(object.members, m)
	return err
}
