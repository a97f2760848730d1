package codec

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// A class says how a type is written.
//
// Reflection is asked once for each type, when a union is made; encoding and decoding then
// branch on the class. The last three, which hold values of the engine, must stay last: isValue
// compares.
type class uint8

const (
	classString class = iota
	classInt
	classUint
	classBool
	classFloat
	classTime
	classStruct
	classPointer
	classSlice
	classMap       // from a string kind to an integer kind
	classValue     // any
	classValueMap  // map[string]any
	classValueList // []any
)

// isValue reports whether c holds a value of the engine.
func (c class) isValue() bool { return c >= classValue }

// A shape is what the codec knows about a type.
//
// It is made by shapeOf and never changed. Each class has the fields that the comments name;
// the others are nil.
type shape struct {
	class class
	typ   reflect.Type
	elem  *shape // of classPointer, classSlice and classMap
	plan  *plan  // of classStruct
}

// A plan lists the fields of a struct type in their order.
//
// The order is that of the type's declaration, and thus of the text. Moving a field in its type
// changes what is written, and not what can be read.
type plan struct {
	typ    reflect.Type
	fields []field
}

// maxFields is how many fields a struct may have: decoding keeps a bit of each.
const maxFields = 64

// A field has the texts that stand before its value ready, so that encoding a field needs no
// quoting.
type field struct {
	name   string
	inline string // ,"name":
	ref    string // ,"name@":"
	index  int    // in the struct
	shape  *shape
}

// findField returns the position of the field with this name; at is the likely one.
//
// The encoder writes fields in their order, so that the next one is nearly always at or shortly
// behind at. Only then are those before it looked at, which is for texts that others have
// written.
func (p *plan) findField(name []byte, at int) int {
	for i := at; i < len(p.fields); i++ {
		if p.fields[i].name == string(name) {
			return i
		}
	}
	for i := range min(at, len(p.fields)) {
		if p.fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// A planner makes plans, each type's once: types may refer to themselves.
//
// The plan is entered before its fields are looked at: a struct that holds a pointer to its own
// type finds the plan that is being made.
type planner map[reflect.Type]*plan

// planOf returns the plan of a struct type. It panics if the type cannot be stored: that is an
// error in the program, and shows when the program starts, as unions are made in variables of
// packages.
func (ps planner) planOf(typ reflect.Type) *plan {
	if known := ps[typ]; known != nil {
		return known
	}
	p := &plan{typ: typ}
	ps[typ] = p
	// A field named kind could not be told from the kind of the variant.
	seen := map[string]bool{"kind": true}
	for i := range typ.NumField() {
		name, ok := fieldName(typ, i)
		if !ok {
			continue
		}
		if seen[name] {
			panic(fmt.Sprintf("codec: %v: the name %q is taken", typ, name))
		}
		seen[name] = true
		p.fields = append(p.fields, field{
			name: name, inline: `,"` + name + `":`, ref: `,"` + name + `@":"`,
			index: i, shape: ps.shapeOfField(typ, i),
		})
	}
	if len(p.fields) > maxFields {
		panic(fmt.Sprintf("codec: %v has %d fields, at most %d", typ, len(p.fields), maxFields))
	}
	return p
}

// fieldName returns the name in the json tag of field i; false for a field
// that is not stored.
//
// A tag is demanded: without one, renaming a field in Go would change the format of files, and
// nobody would notice.
func fieldName(typ reflect.Type, i int) (string, bool) {
	f := typ.Field(i)
	tag := f.Tag.Get("json")
	if tag == "-" {
		return "", false
	}
	if !f.IsExported() {
		panic(fmt.Sprintf("codec: %v.%s is not exported; tag it json:\"-\" if it is not to be stored", typ, f.Name))
	}
	name, _, _ := strings.Cut(tag, ",")
	if name == "" || strings.ContainsFunc(name, notInName) {
		panic(fmt.Sprintf("codec: %v.%s needs a json tag with a plain name", typ, f.Name))
	}
	return name, true
}

// notInName reports whether a name with that character would need escapes, or could be taken
// for a reference with its @.
func notInName(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// shapeOfField returns the shape of field i, and panics if it has none.
func (ps planner) shapeOfField(typ reflect.Type, i int) *shape {
	f := typ.Field(i)
	s := ps.shapeOf(f.Type)
	if s == nil {
		panic(fmt.Sprintf("codec: %v.%s: cannot encode %v", typ, f.Name, f.Type))
	}
	return s
}

var (
	timeType      = reflect.TypeFor[time.Time]()
	valueType     = reflect.TypeFor[any]()
	valueMapType  = reflect.TypeFor[map[string]any]()
	valueListType = reflect.TypeFor[[]any]()
)

// shapeOf returns the shape of typ, or nil if the codec does not support it.
//
// The three types of values are compared first, as their kinds would give other classes. Maps
// are from texts to integers or texts: others have not been needed, and each class more is one
// more format.
func (ps planner) shapeOf(typ reflect.Type) *shape {
	switch typ {
	case valueType:
		return &shape{class: classValue, typ: typ}
	case valueMapType:
		return &shape{class: classValueMap, typ: typ}
	case valueListType:
		return &shape{class: classValueList, typ: typ}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return ps.shapeOfHolder(classPointer, typ)
	case reflect.Slice:
		return ps.shapeOfHolder(classSlice, typ)
	case reflect.Map:
		elem := ps.shapeOfElement(typ.Elem())
		if typ.Key().Kind() != reflect.String || elem == nil || elem.class != classInt && elem.class != classString {
			return nil
		}
		return &shape{class: classMap, typ: typ, elem: elem}
	default:
		return ps.shapeOfElement(typ)
	}
}

// shapeOfHolder returns the shape of a pointer or slice; its elements are scalars or
// structs, so that none of them can be nil.
//
// A list of lists or of pointers would need a form for nil elements, which the format does not
// have.
func (ps planner) shapeOfHolder(c class, typ reflect.Type) *shape {
	elem := ps.shapeOfElement(typ.Elem())
	if elem == nil {
		return nil
	}
	return &shape{class: c, typ: typ, elem: elem}
}

// shapeOfElement returns the shape of a scalar or struct, nil for any other type.
//
// A type with a basic kind is of that class whatever its name is: an id is a text, a status
// with a number is a number.
func (ps planner) shapeOfElement(typ reflect.Type) *shape {
	s := &shape{typ: typ}
	switch typ.Kind() {
	case reflect.String:
		s.class = classString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.class = classInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.class = classUint
	case reflect.Bool:
		s.class = classBool
	case reflect.Float64:
		s.class = classFloat
	case reflect.Struct:
		if typ == timeType {
			s.class = classTime
		} else {
			s.class, s.plan = classStruct, ps.planOf(typ)
		}
	default:
		return nil
	}
	return s
}
