package codec

import (
	"fmt"
	"reflect"
	"slices"
)

// A Union encodes and decodes the variants of a sealed interface T. It is
// immutable and may be used from many goroutines.
//
// The two maps have the same variants: by type for encoding, by kind for decoding. There is a union of decisions, one of messages,
// and small ones for rows of a run's file; what is not in the list given to New can be neither
// written nor read.
type Union[T any] struct {
	zeros  []T // in the order given to New
	byType map[reflect.Type]*variant
	byKind map[string]*variant
}

// A variant is one struct type of a union.
//
// Its kind is the name of the type, which therefore must not change.
type variant struct {
	kind  string
	start string // {"kind":"..."
	plan  *plan
}

// New returns the union of the types of variants, which are zero values of
// structs. It panics if one of them is not a named struct, if two have one
// name, or if a field cannot be encoded: that is an error in the program.
func New[T any](variants ...T) *Union[T] {
	u := &Union[T]{
		zeros:  slices.Clone(variants),
		byType: make(map[reflect.Type]*variant, len(variants)),
		byKind: make(map[string]*variant, len(variants)),
	}
	plans := planner{}
	for _, zero := range variants {
		typ := reflect.TypeOf(zero)
		if typ == nil || typ.Kind() != reflect.Struct || typ.Name() == "" {
			panic(fmt.Sprintf("codec: variant %T is not a named struct", zero))
		}
		kind := typ.Name()
		if u.byKind[kind] != nil {
			panic(fmt.Sprintf("codec: two variants are named %s", kind))
		}
		v := &variant{kind: kind, start: `{"kind":"` + kind + `"`, plan: plans.planOf(typ)}
		u.byType[typ], u.byKind[kind] = v, v
	}
	return u
}

// Variants returns the zero values that New was given.
func (u *Union[T]) Variants() []T { return slices.Clone(u.zeros) }

// Kind returns the name of v's type, or "" if v is not a variant of u.
func (u *Union[T]) Kind(v T) string {
	if found := u.byType[reflect.TypeOf(v)]; found != nil {
		return found.kind
	}
	return ""
}

// Append appends the text of v to dst. Values above [InlineLimit] go to
// values; if that is nil they are inlined. The error is an *[Error]: v is not a
// variant, or a field holds what JSON cannot (text that is not UTF-8, NaN, a
// value outside the engine's model). Then dst is returned as it was.
//
// After an error values keeps all that it has collected; a caller whose record cannot be
// encoded gives up both.
func (u *Union[T]) Append(dst []byte, v T, values *Values) ([]byte, error) {
	mark := len(dst)
	e := encoder{values: values}
	dst, err := u.appendVariant(dst, v, &e)
	if err != nil {
		return dst[:mark], err
	}
	return dst, nil
}

// AppendAll appends the texts of vs to dst as one JSON array; see Append.
//
// All variants of one call share the large values: an output that several decisions of a record
// have is kept once.
func (u *Union[T]) AppendAll(dst []byte, vs []T, values *Values) ([]byte, error) {
	mark := len(dst)
	e := encoder{values: values}
	dst = append(dst, '[')
	for i, v := range vs {
		e.pacer.Spend(10)
		dst = withRoom(dst, mark, i, len(vs))
		if i > 0 {
			dst = append(dst, ',')
		}
		var err *Error
		if dst, err = u.appendVariant(dst, v, &e); err != nil {
			return dst[:mark], err
		}
	}
	return append(dst, ']'), nil
}

// appendVariant appends one variant: the kind, then the fields, each with its comma.
func (u *Union[T]) appendVariant(dst []byte, v T, e *encoder) ([]byte, *Error) {
	found := u.byType[reflect.TypeOf(v)]
	if found == nil {
		return dst, newError(-1, "%T is not a variant", v)
	}
	dst = append(dst, found.start...)
	dst, err := e.appendFields(dst, found.plan, reflect.ValueOf(v))
	if err != nil {
		err.Kind = found.kind
		return dst, err
	}
	return append(dst, '}'), nil
}

// Decode returns the variant whose text data is, white space around and within
// it allowed. It asks values, which may be nil, for values that are kept
// outside. It never panics; the error is an *[Error].
//
// A value that is decoded is not changed by whoever gets it: it may be shared with others.
func (u *Union[T]) Decode(data []byte, values Lookup) (T, error) {
	d := newDecoder(data, values)
	v, err := u.decodeVariant(d)
	if err == nil {
		err = d.expectEnd()
	}
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// DecodeAll returns the variants of a JSON array, nil if it is empty; see
// Decode.
//
// A single bad variant fails the whole: half of a record's decisions are not a record.
func (u *Union[T]) DecodeAll(data []byte, values Lookup) ([]T, error) {
	d := newDecoder(data, values)
	var all []T
	err := d.eachElement(func() *Error {
		v, err := u.decodeVariant(d)
		all = append(all, v)
		return err
	})
	if err == nil {
		err = d.expectEnd()
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// decodeVariant reads one variant, from its opening brace to its closing one.
func (u *Union[T]) decodeVariant(d *decoder) (v T, err *Error) {
	kind, err := d.readKind()
	if err != nil {
		return v, err
	}
	found := u.byKind[string(kind)]
	if found == nil {
		return v, d.newError("unknown kind %.40q", kind)
	}
	out := reflect.New(found.plan.typ).Elem()
	if err := d.readMembers(found.plan, out, false); err != nil {
		err.Kind = found.kind
		return v, err
	}
	return out.Interface().(T), nil
}
