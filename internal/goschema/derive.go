package goschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxParts bounds the parts of one type, whose properties are spelled out wherever it is used.
const maxParts = 10_000

var (
	timeType        = reflect.TypeFor[time.Time]()
	durationType    = reflect.TypeFor[time.Duration]()
	numberType      = reflect.TypeFor[json.Number]()
	marshaler       = reflect.TypeFor[json.Marshaler]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	reader          = reflect.TypeFor[io.Reader]()
)

// Of returns the schema of a type. Its error is an [UnsupportedError].
func Of(t reflect.Type) (*Schema, error) {
	d := &deriver{within: map[reflect.Type]*Schema{}, defs: map[string]*Schema{}}
	s, err := d.schemaOf(t, t.String())
	if err != nil {
		return nil, err
	}
	if len(d.defs) > 0 {
		if s.target == nil {
			root := *s
			s = &root
		}
		s.Defs = d.defs
	}
	return s, nil
}

// A deriver walks one type.
type deriver struct {
	within map[reflect.Type]*Schema // the structs that the walk is in
	defs   map[string]*Schema       // the structs that were met within themselves
	parts  int
}

func (d *deriver) schemaOf(t reflect.Type, place string) (*Schema, error) {
	s, err := d.schemaOfType(t, place)
	if err == nil && slices.Contains(nilKinds, t.Kind()) {
		nullable := *s // s itself may be one of the root's Defs
		nullable.Nullable = true
		s = &nullable
	}
	return s, err
}

// nilKinds are the kinds of types whose nil is null.
var nilKinds = []reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface}

// schemaOfType is schemaOf, but for null.
func (d *deriver) schemaOfType(t reflect.Type, place string) (*Schema, error) {
	if d.parts++; d.parts > maxParts {
		return nil, &UnsupportedError{place, fmt.Sprintf("the type has more than %d parts", maxParts)}
	}
	for t.Kind() == reflect.Pointer && !saysItsJSON(t) {
		t = t.Elem()
	}
	if s := scalarOf(t); s != nil {
		return s, nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.structOf(t)
	case reflect.Map:
		return d.mapOf(t, place)
	case reflect.Slice, reflect.Array:
		return d.listOf(t, place)
	default:
		return nil, &UnsupportedError{place, fmt.Sprintf("%s has no JSON form", t)}
	}
}

// saysItsJSON says whether encoding/json asks the type, or a pointer to it, for its form.
func saysItsJSON(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshaler) || p.Implements(unmarshaler) || p.Implements(textMarshaler) || p.Implements(textUnmarshaler)
}

// scalarOf returns the schema of a type without parts, or nil. A type that says its own JSON may be anything, unless it
// says a text.
func scalarOf(t reflect.Type) *Schema {
	p := reflect.PointerTo(t)
	switch {
	case t == timeType:
		return &Schema{Type: "string", Format: "date-time", Go: t.String()}
	case t == durationType:
		return &Schema{Type: "integer", Description: "nanoseconds", Go: t.String()}
	case t == numberType:
		return &Schema{Type: "number", Go: t.String()}
	case p.Implements(marshaler) || p.Implements(unmarshaler):
		return &Schema{Go: t.String()}
	case p.Implements(textMarshaler) || p.Implements(textUnmarshaler):
		return &Schema{Type: "string", Go: t.String()}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &Schema{Type: "boolean", Go: t.String()}
	case reflect.String:
		return &Schema{Type: "string", Go: t.String()}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return &Schema{Type: "integer", Go: t.String()}
	case reflect.Float32, reflect.Float64:
		return &Schema{Type: "number", Go: t.String()}
	case reflect.Interface:
		return &Schema{Go: t.String()}
	default:
		return nil
	}
}

func (d *deriver) listOf(t reflect.Type, place string) (*Schema, error) {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !saysItsJSON(t.Elem()) {
		return &Schema{Type: "string", Encoding: "base64", Go: t.String()}, nil
	}
	items, err := d.schemaOf(t.Elem(), place)
	s := &Schema{Type: "array", Items: items, Go: t.String()}
	if t.Kind() == reflect.Array {
		s.Length = new(t.Len())
	}
	return s, err
}

func (d *deriver) mapOf(t reflect.Type, place string) (*Schema, error) {
	key := t.Key()
	if k := key.Kind(); k != reflect.String && (k < reflect.Int || k > reflect.Uintptr) && !key.Implements(textMarshaler) {
		return nil, &UnsupportedError{place, fmt.Sprintf("%s has no JSON form: its keys are no texts", t)}
	}
	values, err := d.schemaOf(t.Elem(), place)
	return &Schema{Type: "object", Additional: values, Go: t.String()}, err
}

// structOf returns the schema of a struct. A struct within itself is one of the root's Defs, which the second meeting
// refers to.
func (d *deriver) structOf(t reflect.Type) (*Schema, error) {
	if s := d.within[t]; s != nil {
		name := t.String()
		d.defs[name] = s
		return &Schema{Ref: "#/$defs/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name), target: s}, nil
	}
	s := &Schema{Type: "object", Properties: map[string]*Schema{}, Additional: false, Go: t.String()}
	d.within[t] = s
	defer delete(d.within, t)
	for _, f := range fieldsOf(t) {
		p, err := d.schemaOf(f.Type, f.place)
		if err != nil {
			return nil, err
		}
		if p, err = f.addTags(p); err != nil {
			return nil, err
		}
		s.Properties[f.name] = p
		if !f.optional {
			s.Required = append(s.Required, f.name)
		}
	}
	slices.Sort(s.Required)
	s.foldNames()
	return s, nil
}

// addTags returns the schema of the field's type with the field's name and tags.
func (f *field) addTags(s *Schema) (*Schema, error) {
	described := *s
	described.Go = f.place
	if doc := f.Tag.Get("doc"); doc != "" {
		described.Description = doc
	}
	if f.quoted {
		described = Schema{Type: "string", Description: described.Description, Go: f.place, Nullable: described.Nullable}
	}
	values, ok := f.Tag.Lookup("enum")
	if !ok {
		return &described, nil
	}
	for text := range strings.SplitSeq(values, ",") {
		v, err := enumValue(described.Type, text)
		if err != nil {
			return nil, &UnsupportedError{f.place, err.Error()}
		}
		described.Enum = append(described.Enum, v)
	}
	return &described, nil
}

// enumValue returns a value of an enum tag, of the JSON model.
func enumValue(kind, text string) (any, error) {
	switch kind {
	case "string":
		return text, nil
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("enum %q is no integer", text)
		}
		return n, nil
	default:
		return nil, fmt.Errorf("enum is for texts and integers")
	}
}
