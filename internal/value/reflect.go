package value

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
)

// The interfaces by which a type says its own JSON.
var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// reflected copies a value whose type is not one of the common ones.
func (n *normalizer) reflected(v reflect.Value, depth int) (any, *Error) {
	if t := v.Type(); t.Implements(marshaler) || t.Implements(textMarshaler) {
		return n.marshaled(v, depth)
	}
	switch v.Kind() {
	case reflect.Bool:
		return n.value(v.Bool(), depth)
	case reflect.String:
		return n.text(v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return n.number(integer(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return n.number(unsigned(v.Uint()))
	case reflect.Float32:
		return n.single(v)
	case reflect.Float64:
		return n.number(float(v.Float()))
	case reflect.Pointer:
		return n.pointer(v, depth)
	case reflect.Map:
		return n.typedMap(v, depth)
	case reflect.Slice:
		return n.slice(v, depth)
	case reflect.Array:
		return n.list(v.Len(), func(i int) any { return v.Index(i).Interface() }, depth)
	case reflect.Struct:
		return n.marshaled(v, depth)
	default:
		return nil, failf(CodeUnsupported, "%s has no JSON form", v.Type())
	}
}

// single takes a float32 by its shortest decimal form, as encoding/json does:
// float32(0.1) is 0.1.
func (n *normalizer) single(v reflect.Value) (any, *Error) {
	if f := v.Float(); integral(f) || math.IsNaN(f) || math.IsInf(f, 0) {
		return n.number(float(f))
	}
	return n.marshaled(v, 0)
}

// pointer follows v, at most as many hops as containers may be nested, so that
// a pointer to itself ends.
func (n *normalizer) pointer(v reflect.Value, depth int) (any, *Error) {
	for hops := 0; v.Kind() == reflect.Pointer; hops++ {
		if v.IsNil() {
			return nil, n.use(len("null"))
		}
		if hops > n.depth {
			return nil, exceeded(LimitDepth, n.depth, hops)
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Interface && v.IsNil() {
		return nil, n.use(len("null"))
	}
	if v.Kind() == reflect.Interface {
		if depth >= n.depth {
			return nil, exceeded(LimitDepth, n.depth, depth+1)
		}
		return n.value(v.Interface(), depth+1)
	}
	if v.Kind() == reflect.Struct && v.CanAddr() {
		return n.marshaled(v.Addr(), depth) // finds the methods of the pointer
	}
	return n.value(v.Interface(), depth)
}

// typedMap takes a map of any type; keys that are not strings are spelled by
// encoding/json.
func (n *normalizer) typedMap(v reflect.Value, depth int) (any, *Error) {
	if v.IsNil() {
		return nil, n.use(len("null"))
	}
	if key := v.Type().Key(); key.Kind() != reflect.String || key.Implements(textMarshaler) {
		return n.marshaled(v, depth)
	}
	m := make(map[string]any, v.Len())
	for it := v.MapRange(); it.Next(); {
		m[it.Key().String()] = it.Value().Interface()
	}
	return n.plainMap(m, depth)
}

func (n *normalizer) slice(v reflect.Value, depth int) (any, *Error) {
	if v.IsNil() {
		return nil, n.use(len("null"))
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return n.marshaled(v, depth) // base64
	}
	return n.list(v.Len(), func(i int) any { return v.Index(i).Interface() }, depth)
}

// marshaled takes the way through encoding/json.
func (n *normalizer) marshaled(v reflect.Value, depth int) (any, *Error) {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, failf(CodeUnsupported, "%v", err)
	}
	return n.raw(text, depth, true)
}
