package pawltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/value"
)

// A FileError says why a file cannot be read as scenarios, and where.
type FileError struct {
	File    string
	Line    int // from 1; 0 if unknown
	Column  int // from 1; 0 if unknown
	Message string
	Err     error // the cause, if there is one
}

// Error returns the place and the message in one line.
func (e *FileError) Error() string {
	switch {
	case e.Line > 0 && e.Column > 0:
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	case e.Line > 0:
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.File, e.Message)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

func errorAt(e *document.Element, format string, args ...any) error {
	return &FileError{Line: e.Line, Column: e.Column, Message: fmt.Sprintf(format, args...)}
}

// An elementReader reads itself from an element.
type elementReader interface {
	readElement(e *document.Element) error
}

// An optional is a JSON value that may be absent.
type optional struct {
	set   bool
	value any
}

func (o *optional) readElement(e *document.Element) (err error) {
	o.set = true
	if o.value, err = jsonOf(e); err != nil {
		return err
	}
	if o.value, err = value.Normalize(o.value, value.Limits{}); err != nil {
		return errorAt(e, "%v", err)
	}
	return nil
}

// orElse returns the value, or another one without it.
func (o optional) orElse(other any) any {
	if o.set {
		return o.value
	}
	return other
}

// decodeElement reads an element into what a pointer points to. Fields of structs
// are named by their tag; a field that is not known, or there twice, is an error.
func decodeElement(e *document.Element, into any) error {
	return decodeValue(e, reflect.ValueOf(into).Elem())
}

func decodeValue(e *document.Element, v reflect.Value) error {
	if v.CanAddr() {
		switch into := v.Addr().Interface().(type) {
		case elementReader:
			return into.readElement(e)
		case *time.Duration:
			return decodeDuration(e, into)
		case **document.Element:
			*into = e
			return nil
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(e, v.Elem())
	case reflect.Struct:
		return decodeStruct(e, v)
	case reflect.Map:
		return decodeMap(e, v)
	case reflect.Slice:
		return decodeSlice(e, v)
	default:
		return decodeScalar(e, v)
	}
}

func decodeStruct(e *document.Element, v reflect.Value) error {
	fields := map[string]int{}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = i
		}
	}
	return eachMember(e, func(m *document.Member) error {
		i, ok := fields[m.Key]
		if !ok {
			return errorAtKey(m, "unknown field %q; there are: %s", m.Key, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		return inField(m.Key, decodeValue(m.Value, v.Field(i)))
	})
}

func errorAtKey(m *document.Member, format string, args ...any) error {
	return errorAt(&document.Element{Line: m.Line, Column: m.Column}, format, args...)
}

// inField names the field that an error is in.
func inField(field string, err error) error {
	var at *FileError
	if errors.As(err, &at) && !strings.HasPrefix(at.Message, "unknown field") {
		at.Message = field + ": " + at.Message
	}
	return err
}

func decodeMap(e *document.Element, v reflect.Value) error {
	v.Set(reflect.MakeMap(v.Type()))
	return eachMember(e, func(m *document.Member) error {
		entry := reflect.New(v.Type().Elem()).Elem()
		err := decodeValue(m.Value, entry)
		v.SetMapIndex(reflect.ValueOf(m.Key).Convert(v.Type().Key()), entry)
		return inField(m.Key, err)
	})
}

// eachMember calls f with the members of an object, whose keys are different
// strings.
func eachMember(e *document.Element, f func(*document.Member) error) error {
	if e.Kind != document.Object {
		return errorAt(e, "%s, not a mapping", describeKind(e))
	}
	seen := map[string]bool{}
	for i := range e.Members {
		m := &e.Members[i]
		switch {
		case m.Wrong != "":
			return errorAtKey(m, "a key that is %s: put it in quotes", m.Wrong)
		case seen[m.Key]:
			return errorAtKey(m, "%q is there twice", m.Key)
		}
		seen[m.Key] = true
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

func decodeSlice(e *document.Element, v reflect.Value) error {
	if e.Kind != document.List {
		return errorAt(e, "%s, not a list", describeKind(e))
	}
	v.Set(reflect.MakeSlice(v.Type(), len(e.Items), len(e.Items)))
	for i, item := range e.Items {
		if err := decodeValue(item, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

var scalarKinds = map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Int: "an integer", reflect.Int64: "an integer"}

func decodeScalar(e *document.Element, v reflect.Value) error {
	n, isInteger := integerOf(e)
	switch {
	case v.Kind() == reflect.String && e.Kind == document.String:
		v.SetString(e.Text)
	case v.Kind() == reflect.Bool && e.Kind == document.Bool:
		v.SetBool(e.Text == "true")
	case v.CanInt() && isInteger:
		v.SetInt(n)
	default:
		return errorAt(e, "%s, not %s", describeKind(e), scalarKinds[v.Kind()])
	}
	return nil
}

// describeKind says what an element is in the words of YAML.
func describeKind(e *document.Element) string {
	_, isInteger := integerOf(e)
	switch {
	case isInteger:
		return "an integer"
	case e.Kind == document.Bool:
		return "true or false"
	case e.Kind == document.Object:
		return "a mapping"
	case e.Kind == document.Invalid:
		return e.Text
	}
	return e.Kind.String()
}

func decodeDuration(e *document.Element, into *time.Duration) error {
	d, err := time.ParseDuration(e.Text)
	if e.Kind != document.String || err != nil {
		return errorAt(e, "not a duration such as 30s or 1h30m")
	}
	if d < 0 || d%time.Millisecond != 0 {
		return errorAt(e, "a duration is not negative, and whole milliseconds")
	}
	*into = d
	return nil
}

// jsonOf returns an element as a value of the JSON model.
func jsonOf(e *document.Element) (any, error) {
	switch e.Kind {
	case document.Null:
		return nil, nil
	case document.Bool:
		return e.Text == "true", nil
	case document.Number:
		return numberOf(e)
	case document.String:
		return e.Text, nil
	case document.List:
		list := make([]any, len(e.Items))
		for i, item := range e.Items {
			var err error
			if list[i], err = jsonOf(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	case document.Object:
		object := make(map[string]any, len(e.Members))
		err := eachMember(e, func(m *document.Member) (err error) {
			object[m.Key], err = jsonOf(m.Value)
			return err
		})
		return object, err
	case document.Invalid:
	}
	return nil, errorAt(e, "%s, not JSON", e.Text)
}

// numberOf returns a number, which a scenario may write in any way of YAML.
func numberOf(e *document.Element) (any, error) {
	n, err := e.Number()
	if err == nil {
		return n, nil
	}
	if json.Valid([]byte(e.Text)) { // it is one of JSON, and the engine does not hold it
		return nil, errorAt(e, "%v", err)
	}
	if err = yaml.Unmarshal([]byte(e.Text), &n); err == nil {
		n, err = value.Normalize(n, value.Limits{})
	}
	switch n.(type) {
	case int64, float64:
		return n, nil
	}
	return nil, errorAt(e, "%s is not a number of JSON: %v", e.Text, err)
}

func integerOf(e *document.Element) (n int64, ok bool) {
	if e.Kind == document.Number {
		v, _ := numberOf(e)
		n, ok = v.(int64)
	}
	return n, ok
}
