package value

import (
	"encoding"
	"encoding/json"
	"io"
	"math"
	"reflect"
)

// The interfaces by which a type says its own JSON.
var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	reader        = reflect.TypeFor[io.Reader]()
)

// saysItsJSON reports whether encoding/json asks values of a type for their form.
func saysItsJSON(t reflect.Type) bool { return t.Implements(marshaler) || t.Implements(textMarshaler) }

// isReader reports whether v reads something, by itself or where it lies, and does not say its own JSON. A pointer to nothing is null, whatever
// methods it has.
func isReader(v reflect.Value) bool {
	t := v.Type()
	if saysItsJSON(t) || v.Kind() == reflect.Pointer && v.IsNil() {
		return false
	}
	return t.Implements(reader) || v.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(reader)
}

// copyReflected copies a value whose type is not one of the common ones.
//
// A type that says its own JSON is asked, whatever its kind is: a struct may be a text, such as
// time.Time. Scalars of named types, such as type Status string, follow the rule of their kind.
// Structs go through encoding/json, which knows about tags.
func (n *normalizer) copyReflected(v reflect.Value, depth int) (any, *Error) {
	if saysItsJSON(v.Type()) {
		return n.copyMarshaled(v, depth)
	}
	if isReader(v) {
		return nil, newError(CodeUnsupported, "%s is a reader: give what it reads", v.Type()) // encoding/json would write {}
	}
	switch v.Kind() {
	case reflect.Bool:
		return n.copyValue(v.Bool(), depth)
	case reflect.String:
		return n.copyText(v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return n.copyNumber(modelInt(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return n.copyNumber(modelUint(v.Uint()))
	case reflect.Float32:
		return n.copyFloat32(v)
	case reflect.Float64:
		return n.copyNumber(modelFloat(v.Float()))
	case reflect.Pointer:
		return n.copyPointer(v, depth)
	case reflect.Map:
		return n.copyTypedMap(v, depth)
	case reflect.Slice:
		return n.copySlice(v, depth)
	case reflect.Array:
		return n.copyElements(v, depth)
	case reflect.Struct:
		return n.copyMarshaled(v, depth)
	default:
		return nil, newError(CodeUnsupported, "%s has no JSON form", v.Type())
	}
}

// copyFloat32 takes a float32 by its shortest decimal form, as encoding/json does:
// float32(0.1) is 0.1.
//
// As a float64 it would be 0.10000000149011612, which is exact and nobody's intention.
func (n *normalizer) copyFloat32(v reflect.Value) (any, *Error) {
	if f := v.Float(); isIntegral(f) || math.IsNaN(f) || math.IsInf(f, 0) {
		return n.copyNumber(modelFloat(f))
	}
	return n.copyMarshaled(v, 0)
}

// copyPointer follows v, at most as many hops as containers may be nested, so that
// a pointer to itself ends.
//
// A method with a pointer receiver is found only by the pointer: that is why a struct behind a
// pointer is marshaled by its address. A pointer to an interface counts as one level of depth,
// or else a cycle of such pointers would never end.
func (n *normalizer) copyPointer(v reflect.Value, depth int) (any, *Error) {
	for hops := 0; v.Kind() == reflect.Pointer; hops++ {
		if v.IsNil() {
			return nil, n.countBytes(len("null"))
		}
		if hops > n.depth {
			return nil, limitError(LimitDepth, n.depth, hops)
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Interface && v.IsNil() {
		return nil, n.countBytes(len("null"))
	}
	if v.Kind() == reflect.Interface {
		if depth >= n.depth {
			return nil, limitError(LimitDepth, n.depth, depth+1)
		}
		return n.copyValue(v.Interface(), depth+1)
	}
	if v.Kind() == reflect.Struct && v.CanAddr() {
		return n.copyMarshaled(v.Addr(), depth) // finds the methods of the pointer
	}
	if v.Kind() == reflect.Array && !saysItsJSON(v.Type()) {
		return n.copyElements(v, depth)
	}
	return n.copyValue(v.Interface(), depth)
}

// copyElements copies the elements of a slice or an array. As encoding/json does, it finds the methods of a pointer to an
// element where it has an address: in a slice always, in an array behind a pointer.
func (n *normalizer) copyElements(v reflect.Value, depth int) (any, *Error) {
	of := v.Type().Elem()
	byAddress := of.Kind() == reflect.Struct || of.Kind() == reflect.Array || saysItsJSON(reflect.PointerTo(of))
	return n.copyList(v.Len(), func(i int) any {
		if e := v.Index(i); byAddress && e.CanAddr() && !isReader(e) {
			return e.Addr().Interface()
		}
		return v.Index(i).Interface()
	}, depth)
}

// copyTypedMap takes a map of any type; keys that are not strings are spelled by
// encoding/json.
//
// Its entries are put into a plain map, which copyMap then takes; the keys are texts of any
// named type. Where the key says its own text, or is a number, encoding/json knows how.
func (n *normalizer) copyTypedMap(v reflect.Value, depth int) (any, *Error) {
	if v.IsNil() {
		return nil, n.countBytes(len("null"))
	}
	if key := v.Type().Key(); key.Kind() != reflect.String || key.Implements(textMarshaler) {
		return n.copyMarshaled(v, depth)
	}
	m := make(map[string]any, v.Len())
	for it := v.MapRange(); it.Next(); {
		m[it.Key().String()] = it.Value().Interface()
	}
	return n.copyMap(m, depth)
}

// copySlice copies a slice of any type; bytes are base64, as encoding/json writes them.
func (n *normalizer) copySlice(v reflect.Value, depth int) (any, *Error) {
	if v.IsNil() {
		return nil, n.countBytes(len("null"))
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return n.copyMarshaled(v, depth) // base64
	}
	return n.copyElements(v, depth)
}

// copyMarshaled takes the way through encoding/json.
//
// Its text is parsed by the scanner of this package, so that the rules for numbers and texts
// hold inside of structs as well.
func (n *normalizer) copyMarshaled(v reflect.Value, depth int) (any, *Error) {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, newError(CodeUnsupported, "%v", err)
	}
	return n.decodeRaw(text, depth, true)
}
