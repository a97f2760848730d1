package expr

import (
	"cmp"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// evalOrdered gives a map the order of its keys, and anything else back as it is.
//
// rewriteTree puts it around the range of each comprehension. A view has its keys sorted
// already, and needs only to be paid for; a map that the expression has made is a Go map, whose
// order is random.
func evalOrdered(m meter, v ref.Val) ref.Val {
	from, ok := v.(traits.Mapper)
	if !ok {
		return v
	}
	m.chargeUnits(2 * sizeOf(from))
	if o, ok := v.(object); ok {
		for _, key := range o.view.Keys() {
			m.chargeUnits(len(key) / bytesPerUnit)
		}
		return v
	}
	keys := make([]ref.Val, 0, sizeOf(from))
	for it := from.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		m.chargeText(key)
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	return orderedMap{from, keys}
}

// compareKeys orders bools before numbers before strings before all else, which
// no map of JSON has.
func compareKeys(a, b ref.Val) int {
	if c := cmp.Compare(keyRank(a), keyRank(b)); c != 0 {
		return c
	}
	if a, ok := a.(types.String); ok {
		return cmp.Compare(a, b.(types.String))
	}
	if c, ok := a.(traits.Comparer); ok {
		if n, ok := c.Compare(b).(types.Int); ok {
			return int(n)
		}
	}
	return 0
}

// keyRank groups the types of keys that can be compared with each other.
func keyRank(v ref.Val) int {
	switch v.(type) {
	case types.Bool:
		return 0
	case types.Int, types.Uint, types.Double:
		return 1
	case types.String:
		return 2
	default:
		return 3
	}
}

// An orderedMap is a map of the library with the order of its keys.
//
// It changes how the map is iterated, and nothing else.
type orderedMap struct {
	traits.Mapper
	keys []ref.Val
}

// Iterator implements traits.Iterable.
func (o orderedMap) Iterator() traits.Iterator {
	return types.NewRefValList(adapter{}, o.keys).Iterator()
}

// Fold implements traits.Foldable.
func (o orderedMap) Fold(f traits.Folder) {
	for _, key := range o.keys {
		if v, _ := o.Find(key); !f.FoldEntry(key, v) {
			return
		}
	}
}
