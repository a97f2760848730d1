package document

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

// ReadJSON reads one JSON text. The error is a *SyntaxError.
func (r Reader) ReadJSON(data []byte) (*Element, error) {
	s := &jsonReader{cursor: cursor{Reader: r, line: 1, column: 1}, data: data, decoder: json.NewDecoder(bytes.NewReader(data))}
	s.decoder.UseNumber()
	if !utf8.Valid(data) {
		s.moveTo(len(data) - len(bytes.TrimLeftFunc(data, func(c rune) bool { return c != utf8.RuneError })))
		return nil, s.syntaxError("the text is not UTF-8", nil)
	}
	e, err := s.readElement()
	if err != nil {
		return nil, s.placeError(err)
	}
	if _, err := s.nextToken(); !errors.Is(err, io.EOF) {
		return nil, s.syntaxError("the text goes on after the "+r.Noun, nil)
	}
	return e, nil
}

// A jsonReader knows the place of the token it has read last.
type jsonReader struct {
	cursor
	data    []byte
	decoder *json.Decoder
	start   int // of the last token; the cursor is there
}

// nextToken returns the next token, and moves to where it starts.
func (r *jsonReader) nextToken() (json.Token, error) {
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

// placeError returns an error of the decoder with its place.
func (r *jsonReader) placeError(err error) error {
	var bad *json.SyntaxError
	var placed *SyntaxError
	switch {
	case errors.As(err, &placed):
		return err
	case errors.As(err, &bad):
		r.moveTo(int(bad.Offset) - 1)
		if begin := bytes.TrimLeft(r.data, " \t\r\n"); !bytes.HasPrefix(begin, []byte("{")) && !bytes.HasPrefix(begin, []byte("[")) {
			err = fmt.Errorf("the text is read as JSON, and not as YAML: %w", err)
		}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		r.moveTo(len(r.data))
		err = errors.New("the text ends too early")
	}
	return r.syntaxError(err.Error(), err)
}

// readElement reads the next value.
func (r *jsonReader) readElement() (*Element, error) {
	token, err := r.nextToken()
	if err != nil {
		return nil, err
	}
	return r.elementOf(token)
}

func (r *jsonReader) elementOf(token json.Token) (*Element, error) {
	e := &Element{Line: r.line, Column: r.column}
	switch t := token.(type) {
	case nil:
		e.Kind = Null
	case bool:
		e.Kind, e.Text = Bool, fmt.Sprint(t)
	case json.Number:
		e.Kind, e.Text = Number, t.String()
	case string:
		r.setString(e, t)
	case json.Delim:
		return e, r.readContainer(e, t)
	}
	return e, nil
}

// setString makes e a string. The decoder replaces half of a surrogate pair,
// which package value refuses.
func (r *jsonReader) setString(e *Element, text string) {
	e.Kind, e.Text = String, text
	if strings.ContainsRune(text, utf8.RuneError) {
		if _, err := value.Decode(r.data[r.start:r.decoder.InputOffset()], value.Limits{}); err != nil {
			e.Kind, e.Text = Invalid, "a string with half of a surrogate pair"
		}
	}
}

func (r *jsonReader) readContainer(e *Element, open json.Delim) error {
	if err := r.enterContainer(); err != nil {
		return err
	}
	read, end := r.readItem, json.Delim(']')
	e.Kind = List
	if open == '{' {
		e.Kind, read, end = Object, r.readMember, '}'
	}
	for {
		token, err := r.nextToken()
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

func (r *jsonReader) readItem(list *Element, token json.Token) error {
	e, err := r.elementOf(token)
	list.Items = append(list.Items, e)
	return err
}

func (r *jsonReader) readMember(object *Element, token json.Token) error {
	key := Element{}
	text, _ := token.(string) // the decoder takes no other key
	r.setString(&key, text)
	m := Member{Key: text, Line: r.line, Column: r.column}
	if key.Kind == Invalid {
		m.Wrong = key.Text
	}
	var err error
	m.Value, err = r.readElement()
	object.Members = append(object.Members, m)
	return err
}
