package codec

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/pawl-run/pawl/internal/value"
)

// A decoder reads one text from the left to the right.
type decoder struct {
	data   []byte
	pos    int
	depth  int
	lookup Lookup
}

// kind reads the start of a variant, up to and with the name of its kind.
func (d *decoder) kind() ([]byte, *Error) {
	if err := d.expect('{'); err != nil {
		return nil, err
	}
	name, err := d.key()
	if err != nil {
		return nil, err
	}
	if string(name) != "kind" {
		return nil, d.failf("the first member is %.40q, not kind", name)
	}
	kind, plain, err := d.quoted()
	if err == nil && !plain {
		err = d.failf("unknown kind %.40q", kind)
	}
	return kind, err
}

// members reads the members of an object into a struct, up to and with the
// closing brace. first says that no member came before.
func (d *decoder) members(p *plan, v reflect.Value, first bool) *Error {
	if d.depth++; d.depth > maxDepth {
		return d.failf("more than %d objects in each other", maxDepth)
	}
	var seen uint64
	for next := 0; ; first = false {
		if done, err := d.step('}', first); done || err != nil {
			d.depth--
			return err
		}
		name, err := d.key()
		if err != nil {
			return err
		}
		i, ref := d.find(p, name, next)
		if i < 0 {
			return d.failf("unknown field %.40q", name)
		}
		f := &p.fields[i]
		if seen&(1<<i) != 0 {
			return d.failf("the field comes twice").under(f.name)
		}
		seen |= 1 << i
		next = i + 1
		if err := d.field(f, ref, v.Field(f.index)); err != nil {
			return err.under(f.name)
		}
	}
}

// find returns the field that name names, and whether it refers to a value
// that is kept outside.
func (d *decoder) find(p *plan, name []byte, next int) (i int, ref bool) {
	if n := len(name) - 1; n >= 0 && name[n] == '@' {
		i := p.find(name[:n], next)
		if i >= 0 && !p.fields[i].shape.class.isValue() {
			return -1, false
		}
		return i, true
	}
	return p.find(name, next), false
}

func (d *decoder) field(f *field, ref bool, v reflect.Value) *Error {
	if ref {
		return d.reference(v)
	}
	return d.into(f.shape, v)
}

// reference reads the hash of a value that is kept outside.
func (d *decoder) reference(v reflect.Value) *Error {
	hash, plain, err := d.quoted()
	if err != nil {
		return err
	}
	if !plain || !isHash(hash) {
		return d.failf("%.80q is not a SHA-256", hash)
	}
	if d.lookup == nil {
		return d.failf("no lookup for the value %s", hash)
	}
	x, cause := d.lookup(string(hash))
	if cause != nil {
		return d.wrap(cause, "value %s", hash)
	}
	return d.set(v, x)
}

// into reads what s says into v.
func (d *decoder) into(s *shape, v reflect.Value) *Error {
	switch s.class {
	case classString:
		text, err := d.text()
		v.SetString(text)
		return err
	case classInt:
		n, err := d.int(s.typ)
		v.SetInt(n)
		return err
	case classUint:
		n, err := d.uint(s.typ)
		v.SetUint(n)
		return err
	case classBool:
		b, err := d.bool()
		v.SetBool(b)
		return err
	case classFloat:
		f, err := d.float()
		v.SetFloat(f)
		return err
	case classTime:
		ms, err := d.int(int64Type)
		*v.Addr().Interface().(*time.Time) = time.UnixMilli(ms).UTC()
		return err
	case classStruct, classPointer, classSlice, classMap:
		return d.container(s, v)
	case classValue, classValueMap, classValueList:
		return d.value(v)
	default:
		panic(fmt.Sprintf("codec: unknown class %d", s.class))
	}
}

var int64Type = reflect.TypeFor[int64]()

func (d *decoder) container(s *shape, v reflect.Value) *Error {
	switch s.class {
	case classStruct:
		if err := d.expect('{'); err != nil {
			return err
		}
		return d.members(s.plan, v, true)
	case classPointer:
		v.Set(reflect.New(s.elem.typ))
		return d.into(s.elem, v.Elem())
	case classSlice:
		return d.slice(s, v)
	default:
		return d.intMap(s, v)
	}
}

func (d *decoder) slice(s *shape, v reflect.Value) *Error {
	v.Set(reflect.MakeSlice(s.typ, 0, 0))
	n := 0
	return d.list(func() *Error {
		v.Grow(1)
		v.SetLen(n + 1)
		n++
		if err := d.into(s.elem, v.Index(n-1)); err != nil {
			return err.at(n - 1)
		}
		return nil
	})
}

// list calls element at every element of an array.
func (d *decoder) list(element func() *Error) *Error {
	if err := d.expect('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		if done, err := d.step(']', first); done || err != nil {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

func (d *decoder) intMap(s *shape, v reflect.Value) *Error {
	if err := d.expect('{'); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(s.typ))
	for first := true; ; first = false {
		if done, err := d.step('}', first); done || err != nil {
			return err
		}
		if err := d.entry(s, v); err != nil {
			return err
		}
	}
}

func (d *decoder) entry(s *shape, v reflect.Value) *Error {
	name, err := d.text()
	if err != nil {
		return err
	}
	if err := d.expect(':'); err != nil {
		return err
	}
	n, err := d.int(s.elem.typ)
	if err != nil {
		return err.under(name)
	}
	key := reflect.ValueOf(name).Convert(s.typ.Key())
	if v.MapIndex(key).IsValid() {
		return d.failf("the key comes twice").under(name)
	}
	v.SetMapIndex(key, reflect.ValueOf(n).Convert(s.elem.typ))
	return nil
}

// value reads a value of the engine.
func (d *decoder) value(v reflect.Value) *Error {
	d.space()
	start := d.pos
	raw, err := d.raw()
	if err != nil {
		return err
	}
	x, cause := DecodeValue(raw)
	if cause != nil {
		d.pos = start
		return d.wrap(cause, "invalid value")
	}
	return d.set(v, x)
}

// set stores a value of the engine in a field.
func (d *decoder) set(v reflect.Value, x any) *Error {
	ok, want := true, ""
	switch p := v.Addr().Interface().(type) {
	case *any:
		*p = x
	case *map[string]any:
		*p, ok = x.(map[string]any)
		want = "an object"
	case *[]any:
		*p, ok = x.([]any)
		want = "a list"
	default:
		panic(fmt.Sprintf("codec: %T holds no value", p))
	}
	if !ok {
		return d.failf("the value is %T, want %s", x, want)
	}
	return nil
}

func (d *decoder) int(typ reflect.Type) (int64, *Error) {
	negative := d.minus()
	n, err := d.digits()
	if err != nil {
		return 0, err
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	signed := int64(n)
	if negative {
		signed = -signed
	}
	if n > limit || typ.OverflowInt(signed) {
		return 0, d.failf("the number is out of range")
	}
	return signed, nil
}

func (d *decoder) uint(typ reflect.Type) (uint64, *Error) {
	d.space()
	n, err := d.digits()
	if err == nil && typ.OverflowUint(n) {
		return 0, d.failf("the number is out of range")
	}
	return n, err
}

func (d *decoder) float() (float64, *Error) {
	d.space()
	start := d.pos
	raw, err := d.raw()
	if err != nil {
		return 0, err
	}
	if !isNumber(raw) {
		d.pos = start
		return 0, d.failf("%.40q is not a number", raw)
	}
	f, cause := strconv.ParseFloat(string(raw), 64)
	if cause != nil {
		d.pos = start
		return 0, d.failf("the number %.40s is out of range", raw)
	}
	return f, nil
}

func (d *decoder) bool() (bool, *Error) {
	d.space()
	switch {
	case d.word("true"):
		return true, nil
	case d.word("false"):
		return false, nil
	default:
		return false, d.failf("%s, want true or false", d.next())
	}
}

// text reads a string. Escapes and what is not ASCII are left to the value
// package, which is strict about them.
func (d *decoder) text() (string, *Error) {
	d.space()
	start := d.pos
	raw, plain, err := d.quoted()
	if err != nil || plain {
		return string(raw), err
	}
	x, cause := value.Decode(d.data[start:d.pos], value.Limits{Bytes: -1})
	if cause != nil {
		d.pos = start
		return "", d.wrap(cause, "invalid text")
	}
	return x.(string), nil
}
