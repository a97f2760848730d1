package pawltest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

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

func wrong(n *yaml.Node, format string, args ...any) error {
	return &FileError{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)}
}

// A reader reads itself from a node.
type reader interface{ read(n *yaml.Node) error }

// An optional is a JSON value that may be absent.
type optional struct {
	set   bool
	value any
}

func (o *optional) read(n *yaml.Node) (err error) {
	o.set = true
	o.value, err = jsonOf(n)
	return err
}

// or returns the value, or another one if there is none.
func (o optional) or(other any) any {
	if o.set {
		return o.value
	}
	return other
}

// decode reads a node into what a pointer points to. Fields of structs are named
// by their tag; a field that is not known, or there twice, is an error.
func decode(n *yaml.Node, into any) error { return decodeValue(n, reflect.ValueOf(into).Elem()) }

func decodeValue(n *yaml.Node, v reflect.Value) error {
	if v.CanAddr() {
		switch into := v.Addr().Interface().(type) {
		case reader:
			return into.read(n)
		case *time.Duration:
			return decodeDuration(n, into)
		case **yaml.Node:
			*into = n
			return nil
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(n, v.Elem())
	case reflect.Struct:
		return decodeStruct(n, v)
	case reflect.Map:
		return decodeMap(n, v)
	case reflect.Slice:
		return decodeSlice(n, v)
	default:
		return decodeScalar(n, v)
	}
}

func decodeStruct(n *yaml.Node, v reflect.Value) error {
	fields := map[string]int{}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = i
		}
	}
	return eachMember(n, func(key, item *yaml.Node) error {
		i, ok := fields[key.Value]
		if !ok {
			return wrong(key, "unknown field %q; there are: %s", key.Value, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if err := decodeValue(item, v.Field(i)); err != nil {
			return within(key.Value, err)
		}
		return nil
	})
}

// within names the field that an error is in.
func within(field string, err error) error {
	var at *FileError
	if errors.As(err, &at) && !strings.HasPrefix(at.Message, "unknown field") {
		at.Message = field + ": " + at.Message
	}
	return err
}

func decodeMap(n *yaml.Node, v reflect.Value) error {
	v.Set(reflect.MakeMap(v.Type()))
	return eachMember(n, func(key, item *yaml.Node) error {
		element := reflect.New(v.Type().Elem()).Elem()
		if err := decodeValue(item, element); err != nil {
			return within(key.Value, err)
		}
		v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), element)
		return nil
	})
}

// eachMember calls f with the members of a mapping, whose keys are different
// strings.
func eachMember(n *yaml.Node, f func(key, item *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return wrong(n, "%s, not a mapping", describe(n))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			return wrong(key, "a key that is %s: put it in quotes", describe(key))
		case seen[key.Value]:
			return wrong(key, "%q is there twice", key.Value)
		}
		seen[key.Value] = true
		if err := f(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func decodeSlice(n *yaml.Node, v reflect.Value) error {
	if n.Kind != yaml.SequenceNode {
		return wrong(n, "%s, not a list", describe(n))
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if err := decodeValue(item, list.Index(i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

var scalarTags = map[reflect.Kind]string{reflect.String: "!!str", reflect.Bool: "!!bool", reflect.Int: "!!int"}

func decodeScalar(n *yaml.Node, v reflect.Value) error {
	want := scalarTags[v.Kind()]
	if want == "" {
		panic(fmt.Sprintf("pawltest: cannot decode into %v", v.Type()))
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != want {
		return wrong(n, "%s, not %s", describe(n), kinds[want])
	}
	if err := n.Decode(v.Addr().Interface()); err != nil {
		return wrong(n, "%v", err)
	}
	return nil
}

var kinds = map[string]string{
	"!!str": "a string", "!!bool": "true or false", "!!int": "an integer", "!!float": "a number", "!!null": "null",
	"!!map": "a mapping", "!!seq": "a list", "!!timestamp": "a string",
}

func describe(n *yaml.Node) string {
	if text := kinds[n.ShortTag()]; text != "" {
		return text
	}
	return "a value with the tag " + n.ShortTag()
}

func decodeDuration(n *yaml.Node, into *time.Duration) error {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || err != nil {
		return wrong(n, "not a duration such as 30s or 1h30m")
	}
	if d < 0 || d%time.Millisecond != 0 {
		return wrong(n, "a duration is not negative, and whole milliseconds")
	}
	*into = d
	return nil
}

// jsonOf returns a node as a value of the JSON model.
func jsonOf(n *yaml.Node) (any, error) {
	plain, err := plainOf(n)
	if err != nil {
		return nil, err
	}
	v, err := value.Normalize(plain, value.Limits{})
	if err != nil {
		return nil, wrong(n, "%v", err)
	}
	return v, nil
}

func plainOf(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		err := eachMember(n, func(key, item *yaml.Node) (err error) {
			object[key.Value], err = plainOf(item)
			return err
		})
		return object, err
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			var err error
			if list[i], err = plainOf(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, wrong(n, "%v", err)
		}
		return v, nil
	}
	return nil, wrong(n, "%s, not JSON", describe(n))
}
