package codec

import (
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-run/pawl/internal/value"
)

// A decoder reads one text from the left to the right.
//
// It is as strict as a journal needs: a record that was written by a newer version, or by a
// broken disk, must not be read as something that is nearly it. Each error has the byte where
// it stopped. depth counts the structs that are open, so that no text can use up the stack;
// values inside of fields have a bound of their own in the scanner.
type decoder struct {
	scan   value.Scanner
	depth  int
	lookup Lookup // nil if the text refers to no values outside
}

func newDecoder(data []byte, lookup Lookup) *decoder {
	return &decoder{scan: value.NewScanner(data, valueDepth), lookup: lookup}
}

// fromScanner returns what the scanner found, nil if that is nothing.
//
// The scanner's errors know a byte but no field; what surrounds them adds the field on the way
// out.
func fromScanner(err *value.Error) *Error {
	if err == nil {
		return nil
	}
	return newError(err.Offset, "%s", err.Message)
}

// expectByte steps over white space and c.
func (d *decoder) expectByte(c byte) *Error { return fromScanner(d.scan.Expect(c)) }

// expectEnd makes sure that nothing but white space is left.
func (d *decoder) expectEnd() *Error { return fromScanner(d.scan.End()) }

// nextElement goes to the next element of an array or an object, if there is one.
func (d *decoder) nextElement(end byte, first bool) (more bool, err *Error) {
	more, cause := d.scan.NextElement(end, first)
	return more, fromScanner(cause)
}

// readSpan steps over a string; see [value.Scanner.Span].
func (d *decoder) readSpan() (raw []byte, plain bool, err *Error) {
	raw, plain, cause := d.scan.Span()
	return raw, plain, fromScanner(cause)
}

// readKind reads the start of a variant, up to and with the name of its kind.
//
// The kind must be the first member: by it the decoder knows which type the others belong to,
// and reads them straight into that, without looking at the text twice.
func (d *decoder) readKind() ([]byte, *Error) {
	if err := d.expectByte('{'); err != nil {
		return nil, err
	}
	name, err := d.readKey()
	if err != nil {
		return nil, err
	}
	if string(name) != "kind" {
		return nil, d.newError("the first member is %.40q, not kind", name)
	}
	kind, plain, err := d.readSpan()
	if err == nil && !plain {
		err = d.newError("unknown kind %.40q", kind)
	}
	return kind, err
}

// readKey reads the name of a field and the colon after it.
//
// Names of fields are plain ASCII, which planOf sees to; one with an escape can be no field.
func (d *decoder) readKey() ([]byte, *Error) {
	name, plain, err := d.readSpan()
	if err != nil {
		return nil, err
	}
	if !plain {
		return nil, d.newError("unknown field %.40q", name)
	}
	return name, d.expectByte(':')
}

// readMembers reads the members of an object into a struct, up to and with the
// closing brace. first says that no member came before.
//
// A field may come in any place, though the encoder has one order: each is looked for from
// behind the last one on, which finds it at once in a text that the encoder has written. seen
// has a bit for each field, since a field that comes twice means that the text is damaged.
func (d *decoder) readMembers(p *plan, v reflect.Value, first bool) *Error {
	if d.depth++; d.depth > maxDepth {
		return d.newError("more than %d objects in each other", maxDepth)
	}
	var seen uint64
	for next := 0; ; first = false {
		if more, err := d.nextElement('}', first); err != nil || !more {
			// The depth is given back only on success: after an error nobody reads on.
			d.depth--
			return err
		}
		name, err := d.readKey()
		if err != nil {
			return err
		}
		i, ref := d.findField(p, name, next)
		if i < 0 {
			return d.newError("unknown field %.40q", name)
		}
		f := &p.fields[i]
		if seen&(1<<i) != 0 {
			return d.newError("the field comes twice").inField(f.name)
		}
		seen |= 1 << i
		next = i + 1
		if err := d.readField(f, ref, v.Field(f.index)); err != nil {
			return err.inField(f.name)
		}
	}
}

// findField returns the field that name names, and whether it refers to a value
// that is kept outside.
//
// A name with @ at its end is that of a field which holds a value, and only such a field can
// have it.
func (d *decoder) findField(p *plan, name []byte, next int) (i int, ref bool) {
	if n := len(name) - 1; n >= 0 && name[n] == '@' {
		i := p.findField(name[:n], next)
		if i >= 0 && !p.fields[i].shape.class.isValue() {
			return -1, false
		}
		return i, true
	}
	return p.findField(name, next), false
}

// readField reads what is behind the colon.
func (d *decoder) readField(f *field, ref bool, v reflect.Value) *Error {
	if ref {
		return d.readReference(v)
	}
	return d.decodeInto(f.shape, v)
}

// readReference reads the hash of a value that is kept outside.
//
// The value itself is in a table of the run's file, or beside the record in the log: lookup
// knows where. It may hand out one value many times, as values are never changed.
func (d *decoder) readReference(v reflect.Value) *Error {
	hash, plain, err := d.readSpan()
	if err != nil {
		return err
	}
	// The hash is checked for its form before it is looked up: it may become part of a query,
	// and an error quotes it.
	if !plain || !isHash(hash) {
		return d.newError("%.80q is not a SHA-256", hash)
	}
	if d.lookup == nil {
		return d.newError("no lookup for the value %s", hash)
	}
	x, cause := d.lookup(string(hash))
	if cause != nil {
		return d.wrapError(cause, "value %s", hash)
	}
	return d.setValue(v, x)
}

// decodeInto reads what s says into v.
//
// s is the shape of v's type, as planOf has found it out once; nothing is asked of reflection
// here that does not depend on the text. On an error v may be filled in part, and is thrown
// away.
func (d *decoder) decodeInto(s *shape, v reflect.Value) *Error {
	switch s.class {
	case classString:
		text, err := d.readText()
		v.SetString(text)
		return err
	case classInt:
		n, err := d.readInt(s.typ)
		v.SetInt(n)
		return err
	case classUint:
		n, err := d.readUint(s.typ)
		v.SetUint(n)
		return err
	case classBool:
		b, err := d.readBool()
		v.SetBool(b)
		return err
	case classFloat:
		f, err := d.readFloat()
		v.SetFloat(f)
		return err
	// A time that is zero is left out by the encoder, and thus never comes here; the Unix epoch
	// itself does, as 0.
	case classTime:
		ms, err := d.readInt(int64Type)
		*v.Addr().Interface().(*time.Time) = time.UnixMilli(ms).UTC()
		return err
	case classStruct, classPointer, classSlice, classMap:
		return d.readContainer(s, v)
	case classValue, classValueMap, classValueList:
		return d.readValue(v)
	default:
		panic(fmt.Sprintf("codec: unknown class %d", s.class))
	}
}

var int64Type = reflect.TypeFor[int64]()

// readContainer reads what is made of other shapes.
func (d *decoder) readContainer(s *shape, v reflect.Value) *Error {
	switch s.class {
	case classStruct:
		if err := d.expectByte('{'); err != nil {
			return err
		}
		return d.readMembers(s.plan, v, true)
	// A pointer that is not nil is written as what it points to; one that is nil is left out.
	case classPointer:
		v.Set(reflect.New(s.elem.typ))
		return d.decodeInto(s.elem, v.Elem())
	case classSlice:
		return d.readSlice(s, v)
	default:
		return d.readMap(s, v)
	}
}

// readSlice makes a list that is not nil even if it is empty, for the two differ when they are
// encoded again. It grows in place: an element is decoded where it will stay.
func (d *decoder) readSlice(s *shape, v reflect.Value) *Error {
	v.Set(reflect.MakeSlice(s.typ, 0, 0))
	n := 0
	return d.eachElement(func() *Error {
		v.Grow(1)
		v.SetLen(n + 1)
		n++
		if err := d.decodeInto(s.elem, v.Index(n-1)); err != nil {
			return err.inElement(n - 1)
		}
		return nil
	})
}

// eachElement calls element at every element of an array.
//
// Both lists in fields and the list of all decisions of a record are read so.
func (d *decoder) eachElement(element func() *Error) *Error {
	if err := d.expectByte('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := d.nextElement(']', first); err != nil || !more {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

// readMap reads a map, which is not nil even if it is empty.
func (d *decoder) readMap(s *shape, v reflect.Value) *Error {
	if err := d.expectByte('{'); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(s.typ))
	for first := true; ; first = false {
		if more, err := d.nextElement('}', first); err != nil || !more {
			return err
		}
		if err := d.readEntry(s, v); err != nil {
			return err
		}
	}
}

// readEntry reads one entry. The element is made first and put in last, as a map's elements
// have no address.
func (d *decoder) readEntry(s *shape, v reflect.Value) *Error {
	name, err := d.readText()
	if err != nil {
		return err
	}
	if err := d.expectByte(':'); err != nil {
		return err
	}
	elem := reflect.New(s.elem.typ).Elem()
	if err := d.decodeInto(s.elem, elem); err != nil {
		return err.inField(name)
	}
	key := reflect.ValueOf(name).Convert(s.typ.Key())
	// A key that comes twice would hide its first value.
	if v.MapIndex(key).IsValid() {
		return d.newError("the key comes twice").inField(name)
	}
	v.SetMapIndex(key, elem)
	return nil
}

// readValue reads a value of the engine.
//
// An error has the place of the value in the text, and in Err the place within the value.
func (d *decoder) readValue(v reflect.Value) *Error {
	d.scan.SkipSpace()
	start := d.scan.Offset()
	x, cause := d.scan.Value()
	if cause != nil {
		err := newError(start, "invalid value")
		err.Err = cause
		return err
	}
	return d.setValue(v, x)
}

// setValue stores a value of the engine in a field.
//
// The type of the field says what it may hold. A list in a field for an object means that the
// text is of something else.
func (d *decoder) setValue(v reflect.Value, x any) *Error {
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
		return d.newError("the value is %T, want %s", x, want)
	}
	return nil
}
