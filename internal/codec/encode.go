package codec

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/value"
)

// maxDepth bounds how deep structs may be nested. Only a type that refers to
// itself can come near it.
const maxDepth = 64

// An encoder writes one or several variants.
//
// values collects what is too large to stand inline. An encoder belongs to one call of Append
// or AppendAll; the texts and values that it has made are the caller's.
type encoder struct { // nil if everything is to be inline
	values *Values // structs that are open
	depth  int
	pacer  pace.Pacer
}

// appendFields appends the fields of a struct that are not zero, each with a comma
// before it.
//
// The comma stands before each field, also before the first, as the kind comes before it in a
// variant; appendObject puts the brace in its place where there is no kind.
func (e *encoder) appendFields(dst []byte, p *plan, v reflect.Value) ([]byte, *Error) {
	if e.depth >= maxDepth {
		return dst, newError(-1, "more than %d structs in each other", maxDepth)
	}
	// After an error the depth is not given back: the encoder is not used again.
	e.depth++
	for i := range p.fields {
		f := &p.fields[i]
		var err *Error
		if dst, err = e.appendField(dst, f, v.Field(f.index)); err != nil {
			return dst, err.inField(f.name)
		}
	}
	e.depth--
	return dst, nil
}

// appendField appends a field with its name, unless it is zero.
func (e *encoder) appendField(dst []byte, f *field, v reflect.Value) ([]byte, *Error) {
	if isZero(f.shape.class, v) {
		return dst, nil
	}
	mark := len(dst)
	if e.values != nil && f.shape.class.isValue() {
		if hash := e.values.hashOf(v); hash != "" {
			return append(append(append(dst, f.ref...), hash...), '"'), nil
		}
	}
	dst = append(dst, f.inline...)
	body, room := len(dst), cap(dst)
	dst, err := e.appendShape(dst, f.shape, v)
	switch {
	case err != nil:
		return dst, err
	// A struct that has written no field is zero, and so is left out. Writing it to find that
	// out is cheaper than comparing it.
	case f.shape.class == classStruct && len(dst) == body+len("{}"):
		return dst[:mark], nil
	// The value was written inline first, since its size is known only then. It is cut off
	// again, and its hash takes its place.
	case f.shape.class.isValue() && len(dst)-body > InlineLimit && e.values != nil:
		hash, kept := e.values.addObject(v, dst[body:], cap(dst) != room && isWorthKeeping(dst, body))
		if kept {
			dst = append(make([]byte, 0, mark+256), dst[:mark]...)
		}
		dst = append(dst[:mark], f.ref...)
		dst = append(dst, hash...)
		return append(dst, '"'), nil
	default:
		return dst, nil
	}
}

// isWorthKeeping reports whether a value from body on is kept in the memory that was made for it, where it is most of what that has. To copy
// it would cost more than to copy what comes before it.
func isWorthKeeping(dst []byte, body int) bool {
	size := len(dst) - body
	return size >= largeValue && body < size/4 && cap(dst)-len(dst) <= size/4
}

// largeValue is how many bytes a value has at least that is worth it.
const largeValue = 64 << 10

// isZero reports whether a field is left out. A struct is known to be zero only
// when none of its fields was written.
//
// Time is zero by IsZero, for a time of the Unix epoch is an instant like any other. Empty
// lists and maps that are not nil are kept: they are values, as [] and {} in a text.
func isZero(c class, v reflect.Value) bool {
	switch c {
	case classString:
		return v.Len() == 0
	case classInt:
		return v.Int() == 0
	case classUint:
		return v.Uint() == 0
	case classBool:
		return !v.Bool()
	case classFloat:
		return math.Float64bits(v.Float()) == 0 // -0 is not left out
	case classTime:
		return v.Interface().(time.Time).IsZero()
	case classStruct:
		return false
	case classPointer, classSlice, classMap, classValue, classValueMap, classValueList:
		return v.IsNil()
	default:
		panic(fmt.Sprintf("codec: unknown class %d", c))
	}
}

// appendShape appends v without a name. It is the opposite of decodeInto, case by case: a class
// that is added to one must be added to the other.
func (e *encoder) appendShape(dst []byte, s *shape, v reflect.Value) ([]byte, *Error) {
	switch s.class {
	case classString:
		return appendString(dst, v.String())
	case classInt:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case classUint:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case classBool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case classFloat:
		return appendFloat(dst, v.Float())
	case classTime:
		return strconv.AppendInt(dst, v.Interface().(time.Time).UnixMilli(), 10), nil
	case classStruct:
		return e.appendObject(dst, s.plan, v)
	case classPointer:
		return e.appendShape(dst, s.elem, v.Elem())
	case classSlice:
		return e.appendSlice(dst, s.elem, v)
	case classMap:
		return e.appendMap(dst, s.elem, v)
	case classValue, classValueMap, classValueList:
		return appendValue(dst, v.Interface())
	default:
		panic(fmt.Sprintf("codec: unknown class %d", s.class))
	}
}

// appendObject appends a struct that has no kind of its own.
func (e *encoder) appendObject(dst []byte, p *plan, v reflect.Value) ([]byte, *Error) {
	mark := len(dst)
	dst, err := e.appendFields(dst, p, v)
	if err != nil {
		return dst, err
	}
	if len(dst) == mark {
		return append(dst, "{}"...), nil
	}
	dst[mark] = '{' // in place of the first comma
	return append(dst, '}'), nil
}

// appendSlice appends a list. Room is made for each element as it comes, and the pacer counts
// elements, because a record may have a hundred thousand decisions with a list each.
func (e *encoder) appendSlice(dst []byte, elem *shape, v reflect.Value) ([]byte, *Error) {
	begun := len(dst)
	dst = append(dst, '[')
	for i := range v.Len() {
		e.pacer.Spend(10)
		dst = withRoom(dst, begun, i, v.Len())
		if i > 0 {
			dst = append(dst, ',')
		}
		var err *Error
		if dst, err = e.appendShape(dst, elem, v.Index(i)); err != nil {
			return dst, err.inElement(i)
		}
	}
	return append(dst, ']'), nil
}

// withRoom returns dst with room for the next of many elements; done of them stand behind the first begun bytes already.
//
// The slice would otherwise be doubled in one copy of megabytes; see package pace. Once there are some elements, the
// others are likely to be as long: a fan-out makes thousands of decisions that are.
func withRoom(dst []byte, begun, done, many int) []byte {
	const most = 4 << 10 // of an element without values, nearly always
	if cap(dst)-len(dst) >= most || len(dst) <= most {
		return dst
	}
	length := len(dst) - begun
	others := length / max(done, 1) * (many - done)
	return pace.Grow(dst, most+min(others+others/8, 3*length))
}

// appendMap appends a map, sorted by key.
//
// Maps have no order, but texts must be the same each time: checksums and comparisons of a
// repair go by their bytes.
func (e *encoder) appendMap(dst []byte, elem *shape, v reflect.Value) ([]byte, *Error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err *Error
		if dst, err = appendString(dst, key.String()); err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = e.appendShape(dst, elem, v.MapIndex(key)); err != nil {
			return dst, err.inField(key.String())
		}
	}
	return append(dst, '}'), nil
}

// appendString appends a text. Ids, names and statuses, which are most of them, need no escape
// and are copied as they are.
func appendString(dst []byte, s string) ([]byte, *Error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendHardString(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), nil
}

// appendHardString appends a text that needs escapes or has characters beyond ASCII, by the
// rules of package value.
func appendHardString(dst []byte, s string) ([]byte, *Error) {
	if !utf8.ValidString(s) {
		return dst, newError(-1, "the text %.40q is not UTF-8", s)
	}
	return value.Append(dst, s), nil
}

// appendFloat appends the shortest digits that give the same double.
func appendFloat(dst []byte, f float64) ([]byte, *Error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, newError(-1, "%v is not a JSON number", f)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64), nil
}

// appendValue appends a value of the engine. One outside the model makes
// value.Append panic; that is recovered here because it concerns one run only,
// while what encodes may be serving many.
func appendValue(dst []byte, v any) (out []byte, err *Error) {
	defer func() {
		if cause := recover(); cause != nil {
			out, err = dst, newError(-1, "%v", cause)
		}
	}()
	return value.Append(dst, v), nil
}
