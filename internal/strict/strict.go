// Package strict reads messages of programs that speak to each other: one JSON object, with the
// fields that are known and no others.
package strict

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
)

// ErrEmpty says that there is nothing to read.
var ErrEmpty = errors.New("it is empty")

// DecodeObject reads one JSON object with no more than the fields of the struct that v points to,
// each in the case of its tag and no more than once: two programs that read it differently, such as
// a proxy that checks it and the one behind, would not see the same message.
func DecodeObject(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	err := d.Decode(v)
	if errors.Is(err, io.EOF) {
		return ErrEmpty
	}
	wrong := (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		path := PathOf(text, func(_ json.Token, end int64) bool { return end >= wrong.Offset })
		return fmt.Errorf("the field %q cannot be of type %s: %s is needed", path, wrong.Value, nameOf(wrong.Type))
	case bytes.TrimLeft(text, " \t\r\n")[0] != '{':
		return errors.New("it is no JSON object")
	}
	if err == nil { // so it is JSON, and not too deep
		err = checkFields(json.NewDecoder(bytes.NewReader(text)), reflect.TypeOf(v).Elem())
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: ") + placeOf(text, err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the JSON object: send one object per request")
	}
	return nil
}

// PathOf returns the path of the first value of JSON that found chooses by its first token and the offset behind that, such as
// list[0].name; "" if it chooses none, or all of the text. The text is one that encoding/json has read.
func PathOf(text []byte, found func(token json.Token, end int64) bool) string {
	var p path
	if !p.findBelow(json.NewDecoder(bytes.NewReader(text)), found) {
		return ""
	}
	var b strings.Builder
	for _, s := range p {
		if s.member {
			b.WriteString("." + s.name)
		} else {
			fmt.Fprintf(&b, "[%d]", s.index)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// A path leads from the whole text to a value.
type path []pathStep

// A pathStep leads to a member of an object, or to an element of a list.
type pathStep struct {
	member bool
	name   string
	index  int
}

// findBelow looks for a value in the next one, to which the path leads. If it finds it, the path leads there. The path is written only then:
// a hostile text has millions of values, each at a long path.
func (p *path) findBelow(d *json.Decoder, found func(json.Token, int64) bool) bool {
	token, err := d.Token()
	if err != nil || found(token, d.InputOffset()) {
		return true
	}
	if token != json.Delim('{') && token != json.Delim('[') {
		return false
	}
	depth := len(*p)
	for i := 0; d.More(); i++ {
		s := pathStep{index: i}
		if token == json.Delim('{') {
			name, _ := d.Token()
			s.name, s.member = name.(string)
		}
		*p = append((*p)[:depth], s)
		if p.findBelow(d, found) {
			return true
		}
	}
	*p = (*p)[:depth]
	_, err = d.Token()
	return err != nil
}

// nameOf names what JSON has for a type.
func nameOf(t reflect.Type) string {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

// CheckTexts refuses a text or a key, anywhere in JSON that DecodeObject has read, that is no UTF-8 or has half of a surrogate pair.
// encoding/json replaces both by U+FFFD, so that two ids would become one. The error has the byte.
func CheckTexts(text []byte) error {
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '"') // there is no quote outside of the texts
		if n < 0 {
			return nil
		}
		at += n
		span := value.NewScanner(text[at:], 0)
		_, plain, err := span.Span()
		if err == nil && !plain {
			scan := value.NewScanner(text[at:], 0)
			_, err = scan.Text()
		}
		if err != nil {
			err.Path, err.Offset = "", err.Offset+at
			return err
		}
		at += span.Offset()
	}
}

// placeOf returns where a text is no JSON: the byte, from 0, and in a text of several lines the line and the column, from 1; "" of
// another error.
func placeOf(text []byte, err error) string {
	at := len(text)
	if bad := (*json.SyntaxError)(nil); errors.As(err, &bad) {
		at = min(max(int(bad.Offset)-1, 0), at)
	} else if !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	line := bytes.Count(text[:at], []byte("\n"))
	if line == 0 {
		return fmt.Sprintf(" at byte %d", at)
	}
	return fmt.Sprintf(" at byte %d, line %d column %d", at, line+1, at-bytes.LastIndexByte(text[:at], '\n'))
}

// rawMessage is of what is not read here.
var rawMessage = reflect.TypeFor[json.RawMessage]()

// checkFields reads a value that was decoded as a t, and checks the names of its fields.
func checkFields(d *json.Decoder, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		return checkFields(d, t.Elem())
	}
	if t == rawMessage {
		var raw json.RawMessage
		return d.Decode(&raw)
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return checkMembers(d, t)
	case json.Delim('['):
		for d.More() {
			if err := checkFields(d, t.Elem()); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}

// checkMembers checks the rest of an object.
func checkMembers(d *json.Decoder, t reflect.Type) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if seen[name] {
			return fmt.Errorf("the field %q is there twice", name)
		}
		seen[name] = true
		member, known := memberType(t, name)
		if !known {
			return fmt.Errorf("unknown field %q", name)
		}
		if err := checkFields(d, member); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// memberType returns the type of a member of an object that was decoded as a t.
func memberType(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && f.Tag == "" { // its fields are those of the message
			if member, known := memberType(f.Type, name); known {
				return member, true
			}
		}
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}
