package expr

import (
	"math"
	"math/bits"
	"strings"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// operations are the functions that the package does itself: those that the
// library lacks, and those that compare values without end.
//
// They may be called with arguments of any type, since variables are dyn, and refuse with
// noOverload those that they are not for.
var operations = map[string]operation{
	operators.Add:       {two: evalAdd},
	operators.Subtract:  {two: evalSubtract},
	operators.Multiply:  {two: evalMultiply},
	operators.Divide:    {two: evalDivide},
	operators.Modulo:    {two: evalModulo},
	operators.Negate:    {one: evalNegate},
	operators.Equals:    {two: evalEquals},
	operators.NotEquals: {two: evalNotEquals},
	operators.In:        {two: evalIn},
	operators.OldIn:     {two: evalIn},
	"in":                {two: evalIn},
	"hasValue":          {one: isPresent, two: evalHasValue},
	"distinct":          {one: evalDistinct},
	"sets.contains":     onLists(containsAll),
	"sets.equivalent":   onLists(equivalentLists),
	"sets.intersects":   onLists(intersectingLists),
	orderedFunction:     {one: evalOrdered},
	keyFunction:         {one: evalKey},
	anyFunction:         {one: evalSame},
	branchFunction:      {one: evalSame},
}

// evalSame returns its argument: the function is there for the type checker.
func evalSame(_ meter, a ref.Val) ref.Val { return a }

// evalKey refuses what cannot be a key: the library hashes keys, and would panic
// at bytes.
func evalKey(_ meter, a ref.Val) ref.Val {
	if !isKey(a) {
		return types.NewErr("%s cannot be a key", typeName(a))
	}
	return a
}

// isKey reports whether v can be found again under itself in a map.
//
// NaN is not equal to itself, so that it could be put into a map and never be found. Nothing
// but scalars can be hashed.
func isKey(v ref.Val) bool {
	switch v := v.(type) {
	case types.String, types.Int, types.Uint, types.Bool:
		return true
	case types.Double:
		return !math.IsNaN(float64(v))
	default:
		return false
	}
}

// isPresent evaluates optional.hasValue().
func isPresent(_ meter, a ref.Val) ref.Val {
	optional, ok := a.(*types.Optional)
	if !ok {
		return noOverload
	}
	return types.Bool(optional.HasValue())
}

// surcharges are the prices of functions of the library beyond the length of
// their strings, which every call is charged for.
//
// They are charged before the call, from the sizes of the arguments. A price need not be exact;
// it must not be far below the work, for any arguments.
var surcharges = map[string]func(m meter, args []ref.Val){
	"split":                 chargeSplit,
	"replace":               chargeReplace,
	"join":                  chargeJoin,
	"format":                chargeFormat,
	"indexOf":               chargeSearch,
	"lastIndexOf":           chargeSearch,
	"contains":              chargeSearch,
	"lists.range":           chargeCount,
	"slice":                 chargeElements,
	"reverse":               chargeElements,
	"sort":                  chargeSort,
	"@sortByAssociatedKeys": chargeSort,
	"flatten":               chargeFlatten,
	"optional.unwrap":       chargeElements,
	"unwrapOpt":             chargeElements,
	"math.@min":             chargeElements,
	"math.@max":             chargeElements,
	"cel.@mapInsert":        chargeInsert,
}

// chargeElements charges for the elements of lists.
func chargeElements(m meter, args []ref.Val) {
	for _, a := range args {
		if _, ok := a.(traits.Lister); ok {
			m.chargeUnits(sizeOf(a))
		}
	}
}

// chargeInsert charges for the entries of a map that goes into another.
func chargeInsert(m meter, args []ref.Val) {
	if len(args) == 2 {
		m.chargeUnits(sizeOf(args[1]))
	}
}

// chargeCount charges for as many elements as the first argument says.
func chargeCount(m meter, args []ref.Val) {
	if n, ok := args[0].(types.Int); ok && n > 0 {
		m.chargeUnits(int(n))
	}
}

func textOf(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

// chargeSearch charges for a search which compares at every place.
//
// At worst the text that is sought is compared at each place of the other, as in a search for
// aaab in aaaa and so on.
func chargeSearch(m meter, args []ref.Val) {
	if len(args) > 1 {
		m.chargeUnits(len(textOf(args[0])) * (len(textOf(args[1]))/bytesPerUnit + 1) / bytesPerUnit)
	}
}

// chargeSplit charges for the list that split makes.
func chargeSplit(m meter, args []ref.Val) {
	if len(args) > 1 {
		m.chargeUnits(strings.Count(textOf(args[0]), textOf(args[1])))
	}
}

// chargeReplace charges for the string that replace makes.
//
// An empty text is found between all characters, so that the result may be much larger than the
// arguments: it is charged for by the count.
func chargeReplace(m meter, args []ref.Val) {
	if len(args) > 2 {
		count := strings.Count(textOf(args[0]), textOf(args[1]))
		m.chargeUnits(count)
		m.chargeUnits(count * len(textOf(args[2])) / bytesPerUnit)
	}
}

// chargeJoin charges for the string that join makes.
//
// The separator comes once for each element, and the elements once each.
func chargeJoin(m meter, args []ref.Val) {
	from, ok := args[0].(traits.Lister)
	if !ok {
		return
	}
	n := sizeOf(from)
	m.chargeUnits(n)
	if len(args) > 1 {
		m.chargeUnits(n * len(textOf(args[1])) / bytesPerUnit)
	}
	for i := range n {
		m.chargeText(from.Get(types.Int(i)))
	}
}

// chargeFormat charges for every value inside of the arguments.
//
// The first argument is the format; a list in one of the others is written out whole.
func chargeFormat(m meter, args []ref.Val) {
	for _, a := range args[1:] {
		m.chargeDeep(a)
	}
}

// chargeDeep charges for everything in v.
//
// It goes into containers as deep as they are. A part that is shared many times is charged each
// time, as it is written each time; the limit ends it.
func (m meter) chargeDeep(v ref.Val) {
	m.chargeUnits(1)
	m.chargeText(v)
	switch v := v.(type) {
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			m.chargeDeep(key)
			e, _ := v.Find(key)
			m.chargeDeep(e)
		}
	case traits.Lister:
		for i := range sizeOf(v) {
			m.chargeDeep(v.Get(types.Int(i)))
		}
	}
}

// chargeSort charges n log n comparisons of the elements of the last list.
//
// A sort by keys has the keys in its last argument; a sort without has the list alone. Texts
// are compared as well, so that they are charged by their length in each round.
func chargeSort(m meter, args []ref.Val) {
	by, ok := args[len(args)-1].(traits.Lister)
	if !ok {
		return
	}
	n := sizeOf(by)
	rounds := bits.Len(uint(n))
	m.chargeUnits(n * rounds)
	for i := range n {
		m.chargeUnits(len(textOf(by.Get(types.Int(i)))) * rounds / bytesPerUnit)
	}
}

// chargeFlatten charges for the elements that flatten visits.
//
// The depth is that of the call, 1 if it has none: only so many levels are visited.
func chargeFlatten(m meter, args []ref.Val) {
	depth := 1
	if len(args) > 1 {
		if n, ok := args[1].(types.Int); ok {
			depth = int(n)
		}
	}
	m.chargeLevels(args[0], depth)
}

// chargeLevels charges for v and for depth levels of lists in it.
func (m meter) chargeLevels(v ref.Val, depth int) {
	from, ok := v.(traits.Lister)
	if !ok {
		return
	}
	m.chargeUnits(sizeOf(from))
	if depth <= 0 {
		return
	}
	for i := range sizeOf(from) {
		m.chargeLevels(from.Get(types.Int(i)), depth-1)
	}
}
