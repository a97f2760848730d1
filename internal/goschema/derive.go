package goschema

import (
	"cmp"
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

// Of returns the schema of a type, as encoding/json writes its values. Its error is an [UnsupportedError].
func Of(t reflect.Type) (*Schema, error) { return deriveSchema(t, writing) }

// deriveSchema returns the schema of a type for a direction.
func deriveSchema(t reflect.Type, by direction) (*Schema, error) {
	d := &deriver{by: by, within: map[reflect.Type]*Schema{}, lists: map[reflect.Type]*Schema{}, defs: map[string]*Schema{}, named: map[string]reflect.Type{}}
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

// A direction says whether encoding/json reads values of a type, as the input of a handler, or writes them: a type may have a method for one
// of both alone.
type direction int

const (
	reading          direction = iota
	writing                    // nobody knows whether it can take the address of a value
	writingByAddress           // behind a pointer and in a slice it can, and finds the methods of a pointer
)

// byAddress returns the direction for a value that has an address.
func (by direction) byAddress() direction {
	if by == writing {
		return writingByAddress
	}
	return by
}

// A deriver walks one type.
type deriver struct {
	by     direction                // reading or writing
	within map[reflect.Type]*Schema // the structs that the walk is in
	lists  map[reflect.Type]*Schema // the slices, arrays and maps that it is in, below the innermost of these structs
	defs   map[string]*Schema       // the types that were met within themselves
	named  map[string]reflect.Type  // by their names in defs
	parts  int
}

func (d *deriver) schemaOf(t reflect.Type, place string) (*Schema, error) {
	return d.schemaOfPart(t, d.by, place)
}

func (d *deriver) schemaOfPart(t reflect.Type, by direction, place string) (*Schema, error) {
	s, err := d.schemaOfType(t, by, place)
	if err == nil && slices.Contains(nilKinds, t.Kind()) {
		nullable := *s // s itself may be one of the root's Defs
		nullable.Nullable = true
		s = &nullable
	}
	return s, err
}

// nilKinds are the kinds of types whose nil is null.
var nilKinds = []reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface}

// schemaOfType is schemaOfPart, but for null.
func (d *deriver) schemaOfType(t reflect.Type, by direction, place string) (*Schema, error) {
	if d.parts++; d.parts > maxParts {
		return nil, &UnsupportedError{place, fmt.Sprintf("the type has more than %d parts", maxParts)}
	}
	for ; t.Kind() == reflect.Pointer && !saysItsJSON(t); d.parts++ {
		if d.parts > maxParts {
			return nil, &UnsupportedError{place, fmt.Sprintf("%s points to itself", t)}
		}
		t, by = t.Elem(), by.byAddress()
	}
	if s := scalarOf(t, by); s != nil {
		return s, nil
	}
	if s := cmp.Or(d.within[t], d.lists[t]); s != nil {
		return d.referTo(t, s), nil
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

// referTo returns a schema that refers to that of a type within which the type is met again. The root's Defs have it by the type's name,
// with a number if another type is called so.
func (d *deriver) referTo(t reflect.Type, s *Schema) *Schema {
	name := t.String()
	for n := 2; d.named[name] != nil && d.named[name] != t; n++ {
		name = t.String() + strconv.Itoa(n)
	}
	d.defs[name], d.named[name] = s, t
	return &Schema{Ref: "#/$defs/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name), target: s}
}

// scalarOf returns the schema of a type without parts, or nil. A type that says its own JSON may be anything, unless it
// says a text in this direction.
func scalarOf(t reflect.Type, by direction) *Schema {
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
	case by == reading && p.Implements(textUnmarshaler), by == writing && t.Implements(textMarshaler), by == writingByAddress && p.Implements(textMarshaler):
		return &Schema{Type: "string", Go: t.String()}
	case by != reading && saysItsJSON(t): // a text only where encoding/json can take the address, or whatever its kind is
		return &Schema{Go: t.String()}
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
	s := &Schema{Type: "array", Go: t.String()}
	by := d.by.byAddress()
	if t.Kind() == reflect.Array {
		s.Length, by = new(t.Len()), d.by
	}
	d.lists[t] = s
	defer delete(d.lists, t)
	items, err := d.schemaOfPart(t.Elem(), by, place)
	s.Items = items
	return s, err
}

func (d *deriver) mapOf(t reflect.Type, place string) (*Schema, error) {
	if !d.isKey(t.Key()) {
		return nil, &UnsupportedError{place, fmt.Sprintf("%s has no JSON form: its keys are no texts", t)}
	}
	s := &Schema{Type: "object", Go: t.String()}
	d.lists[t] = s
	defer delete(d.lists, t)
	values, err := d.schemaOf(t.Elem(), place)
	s.Additional = values
	return s, err
}

// isKey says whether encoding/json knows the keys of a map as texts.
func (d *deriver) isKey(t reflect.Type) bool {
	says := t.Implements(textMarshaler)
	if d.by == reading {
		says = reflect.PointerTo(t).Implements(textUnmarshaler)
	}
	k := t.Kind()
	return says || k == reflect.String || k >= reflect.Int && k <= reflect.Uintptr
}

// structOf returns the schema of a struct.
func (d *deriver) structOf(t reflect.Type) (*Schema, error) {
	s := &Schema{Type: "object", Properties: map[string]*Schema{}, Additional: false, Go: t.String()}
	lists := d.lists
	d.within[t], d.lists = s, map[reflect.Type]*Schema{}
	defer func() { delete(d.within, t); d.lists = lists }()
	for _, f := range fieldsOf(t) {
		if d.by == reading && f.unset != "" {
			return nil, &UnsupportedError{f.unset, "encoding/json cannot set a pointer to an embedded unexported struct: embed the struct itself, or export it"}
		}
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
