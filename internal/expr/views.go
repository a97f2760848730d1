package expr

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/pawl-run/pawl/internal/value"
)

// An activation gives the variables to the library. Plain maps and lists go in
// as they are: the library selects from them without any wrapper.
//
// Views are selected from through object and list.
type activation struct{ vars Vars }

// ResolveName implements interpreter.Activation.
func (a activation) ResolveName(name string) (any, bool) { return a.vars.Lookup(name) }

// Parent implements interpreter.Activation.
func (a activation) Parent() interpreter.Activation { return nil }

// An adapter makes values of the library from model values and views, lazily.
//
// A value is wrapped when it is reached, and nothing below it is: an expression that reads
// input.id out of a megabyte touches nothing else.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case ref.Val:
		return v
	case bool:
		return types.Bool(v)
	case int64:
		return types.Int(v)
	case float64:
		return types.Double(v)
	case string:
		return types.String(v)
	case map[string]any:
		return object{plainObject(v)}
	case []any:
		return list{plainList(v)}
	case value.Object:
		return object{v}
	case value.List:
		return list{v}
	case time.Time:
		return types.Timestamp{Time: v}
	default:
		return types.DefaultTypeAdapter.NativeToValue(v)
	}
}

// plainObject and plainList are the views of plain values.
type (
	plainObject map[string]any
	plainList   []any
)

// hasInstant reports whether an entry is an instant.
func (o plainObject) hasInstant() bool {
	for _, v := range o {
		if _, ok := v.(time.Time); ok {
			return true
		}
	}
	return false
}

// Get implements value.Object.
func (o plainObject) Get(key string) (any, bool) {
	v, ok := o[key]
	return v, ok
}

// Keys implements value.Object.
func (o plainObject) Keys() []string { return slices.Sorted(maps.Keys(o)) }

// Len implements value.Object.
func (o plainObject) Len() int { return len(o) }

// At implements value.List.
func (l plainList) At(i int) any { return l[i] }

// Len implements value.List.
func (l plainList) Len() int { return len(l) }

// An object is a view as a map of the library. It iterates in key order.
//
// It is how a view of package value looks to the library. Nothing is copied; what is selected
// is wrapped in turn.
type object struct{ view value.Object }

var (
	_ traits.Mapper   = object{}
	_ traits.Foldable = object{}
	_ traits.Zeroer   = object{}
)

// Find implements traits.Mapper.
func (o object) Find(key ref.Val) (ref.Val, bool) {
	s, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	v, ok := o.view.Get(string(s))
	if !ok {
		return nil, false
	}
	return adapter{}.NativeToValue(v), true
}

// FindStringKey spares the library the detour over values of its own.
func (o object) FindStringKey(key string) (any, bool) { return o.view.Get(key) }

// Get implements traits.Indexer.
func (o object) Get(key ref.Val) ref.Val {
	if v, ok := o.Find(key); ok {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

// Contains implements traits.Container.
func (o object) Contains(key ref.Val) ref.Val {
	_, ok := o.Find(key)
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (o object) Size() ref.Val { return types.Int(o.view.Len()) }

// IsZeroValue implements traits.Zeroer.
func (o object) IsZeroValue() bool { return o.view.Len() == 0 }

// Iterator implements traits.Iterable.
func (o object) Iterator() traits.Iterator {
	return types.NewStringList(adapter{}, o.view.Keys()).Iterator()
}

// Fold implements traits.Foldable.
func (o object) Fold(f traits.Folder) {
	for _, key := range o.view.Keys() {
		if v, _ := o.view.Get(key); !f.FoldEntry(key, v) {
			return
		}
	}
}

// Equal implements ref.Val. Metered calls do not come here.
func (o object) Equal(other ref.Val) ref.Val { return types.Bool(meter{}.equalValues(o, other)) }

// Type implements ref.Val.
func (o object) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (o object) Value() any { return o.view }

// ConvertToType implements ref.Val.
func (o object) ConvertToType(t ref.Type) ref.Val { return convertContainer(o, t) }

// ConvertToNative implements ref.Val; the package converts results itself.
func (o object) ConvertToNative(t reflect.Type) (any, error) { return nil, noNative(t) }

// A list is a view as a list of the library.
//
// Like an object, it copies nothing.
type list struct{ view value.List }

var (
	_ traits.Lister   = list{}
	_ traits.Foldable = list{}
	_ traits.Zeroer   = list{}
)

// Get implements traits.Indexer.
func (l list) Get(index ref.Val) ref.Val {
	i, err := types.GetOrError(index)
	switch {
	case err != nil:
		return types.WrapErr(err)
	case i < 0 || i >= l.view.Len():
		return types.NewErr("index %d out of range in a list of %d", i, l.view.Len())
	default:
		return adapter{}.NativeToValue(l.view.At(i))
	}
}

// Add implements traits.Adder. Metered calls do not come here.
func (l list) Add(other ref.Val) ref.Val {
	return types.NewErr("no such overload: list + %s", typeName(other))
}

// Contains implements traits.Container. Metered calls do not come here.
func (l list) Contains(elem ref.Val) ref.Val { return types.Bool(meter{}.containsValue(l, elem)) }

// Size implements traits.Sizer.
func (l list) Size() ref.Val { return types.Int(l.view.Len()) }

// IsZeroValue implements traits.Zeroer.
func (l list) IsZeroValue() bool { return l.view.Len() == 0 }

// Iterator implements traits.Iterable.
func (l list) Iterator() traits.Iterator { return &iterator{Lister: l} }

// Fold implements traits.Foldable.
func (l list) Fold(f traits.Folder) {
	for i := range l.view.Len() {
		if !f.FoldEntry(int64(i), l.view.At(i)) {
			return
		}
	}
}

// Equal implements ref.Val. Metered calls do not come here.
func (l list) Equal(other ref.Val) ref.Val { return types.Bool(meter{}.equalValues(l, other)) }

// Type implements ref.Val.
func (l list) Type() ref.Type { return types.ListType }

// Value implements ref.Val.
func (l list) Value() any { return l.view }

// ConvertToType implements ref.Val.
func (l list) ConvertToType(t ref.Type) ref.Val { return convertContainer(l, t) }

// ConvertToNative implements ref.Val; the package converts results itself.
func (l list) ConvertToNative(t reflect.Type) (any, error) { return nil, noNative(t) }

// An iterator walks over a list.
type iterator struct {
	traits.Lister
	next int
}

// HasNext implements traits.Iterator.
func (it *iterator) HasNext() ref.Val { return types.Bool(it.next < sizeOf(it.Lister)) }

// Next implements traits.Iterator.
func (it *iterator) Next() ref.Val {
	it.next++
	return it.Get(types.Int(it.next - 1))
}

// convertContainer answers type(x) and a conversion to the type that v has.
func convertContainer(v ref.Val, t ref.Type) ref.Val {
	switch t {
	case v.Type():
		return v
	case types.TypeType:
		return v.Type().(*types.Type)
	default:
		return types.NewErr("type conversion error from %s to %s", typeName(v), t.TypeName())
	}
}

// noNative says that a value cannot be made a Go value by the library.
func noNative(t reflect.Type) error {
	return fmt.Errorf("no conversion to the Go type %v", t)
}

// sizeOf returns the number of elements or entries of v, or 0.
func sizeOf(v ref.Val) int {
	if s, ok := v.(traits.Sizer); ok {
		if n, ok := s.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 0
}
