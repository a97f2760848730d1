package expr

import (
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// equalValues compares as the library does, and charges for every pair of values. A
// value may be shared inside itself many times over, so that its size tells
// nothing about how long this takes.
//
// Numbers are equal across types, by the library's own comparison; a value of one type never
// equals one of another otherwise.
func (m meter) equalValues(a, b ref.Val) bool {
	m.chargeUnits(1)
	switch a := a.(type) {
	case types.String:
		b, ok := b.(types.String)
		// The shorter of the two is as much as can be compared.
		m.chargeUnits(min(len(a), len(b)) / bytesPerUnit)
		return ok && a == b
	case traits.Mapper:
		b, ok := b.(traits.Mapper)
		return ok && m.equalMaps(a, b)
	case traits.Lister:
		b, ok := b.(traits.Lister)
		return ok && m.equalLists(a, b)
	// Two optionals are equal if both are empty, or both have equal values.
	case *types.Optional:
		b, ok := b.(*types.Optional)
		if !ok || !a.HasValue() || !b.HasValue() {
			return ok && a.HasValue() == b.HasValue()
		}
		return m.equalValues(a.GetValue(), b.GetValue())
	default:
		return types.Equal(a, b) == types.True
	}
}

// equalLists compares element by element, and stops at the first that differs: the order of a
// list is fixed, and so is what is charged.
func (m meter) equalLists(a, b traits.Lister) bool {
	n := sizeOf(a)
	if n != sizeOf(b) {
		return false
	}
	for i := range n {
		if !m.equalValues(a.Get(types.Int(i)), b.Get(types.Int(i))) {
			return false
		}
	}
	return true
}

// equalMaps looks at all entries, whatever it finds: their order is random, and
// what is charged must not be.
func (m meter) equalMaps(a, b traits.Mapper) bool {
	if sizeOf(a) != sizeOf(b) {
		return false
	}
	same := true
	for it := a.Iterator(); it.HasNext() == types.True; {
		// A key is charged for as it is hashed.
		key := it.Next()
		m.chargeText(key)
		left, _ := a.Find(key)
		right, ok := b.Find(key)
		same = ok && m.equalValues(left, right) && same
	}
	return same
}

// containsValue reports whether an element of the list equals v.
func (m meter) containsValue(in traits.Lister, v ref.Val) bool {
	for i := range sizeOf(in) {
		if m.equalValues(in.Get(types.Int(i)), v) {
			return true
		}
	}
	return false
}

func evalEquals(m meter, a, b ref.Val) ref.Val    { return types.Bool(m.equalValues(a, b)) }
func evalNotEquals(m meter, a, b ref.Val) ref.Val { return types.Bool(!m.equalValues(a, b)) }

// evalIn evaluates v in container.
//
// In a map it is a look-up, in a list a search. The library hashes what it looks up, and would panic at a list: no map has such a key.
func evalIn(m meter, v, container ref.Val) ref.Val {
	switch c := container.(type) {
	case traits.Mapper:
		if !isKey(v) {
			return types.False
		}
		_, ok := c.Find(v)
		return types.Bool(ok)
	case traits.Lister:
		return types.Bool(m.containsValue(c, v))
	default:
		return noOverload
	}
}

// evalHasValue evaluates optional.hasValue(v).
func evalHasValue(m meter, a, v ref.Val) ref.Val {
	optional, ok := a.(*types.Optional)
	if !ok {
		return noOverload
	}
	return types.Bool(optional.HasValue() && m.equalValues(optional.GetValue(), v))
}

// onLists turns a function of two lists into an operation.
//
// The functions of the library for sets compare every element of one list with every element of
// the other, and charge nothing for it.
func onLists(f func(m meter, a, b traits.Lister) bool) operation {
	return operation{two: func(m meter, a, b ref.Val) ref.Val {
		x, ok := a.(traits.Lister)
		y, okay := b.(traits.Lister)
		if !ok || !okay {
			return noOverload
		}
		return types.Bool(f(m, x, y))
	}}
}

// containsAll reports whether every element of b is in a.
func containsAll(m meter, a, b traits.Lister) bool {
	for i := range sizeOf(b) {
		if !m.containsValue(a, b.Get(types.Int(i))) {
			return false
		}
	}
	return true
}

// equivalentLists reports whether each has the elements of the other; how often does not count.
func equivalentLists(m meter, a, b traits.Lister) bool {
	return containsAll(m, a, b) && containsAll(m, b, a)
}

// intersectingLists reports whether any element of b is in a.
func intersectingLists(m meter, a, b traits.Lister) bool {
	for i := range sizeOf(b) {
		if m.containsValue(a, b.Get(types.Int(i))) {
			return true
		}
	}
	return false
}

// evalDistinct keeps the first of equal elements.
//
// It compares each element with all that are kept so far: n^2 comparisons at worst, and each
// is charged.
func evalDistinct(m meter, a ref.Val) ref.Val {
	from, ok := a.(traits.Lister)
	if !ok {
		return noOverload
	}
	var kept []ref.Val
	for i := range sizeOf(from) {
		v := from.Get(types.Int(i))
		if !slices.ContainsFunc(kept, func(k ref.Val) bool { return m.equalValues(k, v) }) {
			kept = append(kept, v)
		}
	}
	return types.NewRefValList(adapter{}, kept)
}
