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
var operations = map[string]operation{
	operators.Add:       {two: add},
	operators.Subtract:  {two: subtract},
	operators.Multiply:  {two: multiply},
	operators.Divide:    {two: divide},
	operators.Modulo:    {two: modulo},
	operators.Negate:    {one: negate},
	operators.Equals:    {two: equals},
	operators.NotEquals: {two: notEquals},
	operators.In:        {two: in},
	operators.OldIn:     {two: in},
	"in":                {two: in},
	"hasValue":          {one: isPresent, two: hasValue},
	"distinct":          {one: distinct},
	"sets.contains":     lists(containsAll),
	"sets.equivalent":   lists(equivalent),
	"sets.intersects":   lists(intersects),
	orderedFunction:     {one: ordered},
	keyFunction:         {one: key},
	anyFunction:         {one: same},
}

// same is for the sake of the checker.
func same(_ meter, a ref.Val) ref.Val { return a }

// key lets only keys pass: the library hashes them, and bytes would panic.
func key(_ meter, a ref.Val) ref.Val {
	if !isKey(a) {
		return types.NewErr("%s cannot be a key", typeName(a))
	}
	return a
}

// isKey reports whether v can be found again under itself in a map.
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

// isPresent is optional.hasValue().
func isPresent(_ meter, a ref.Val) ref.Val {
	optional, ok := a.(*types.Optional)
	if !ok {
		return noOverload
	}
	return types.Bool(optional.HasValue())
}

// surcharges are the prices of functions of the library beyond the length of
// their strings, which every call is charged for.
var surcharges = map[string]func(m meter, args []ref.Val){
	"split":                 pieces,
	"replace":               replacement,
	"join":                  joined,
	"format":                formatted,
	"indexOf":               product,
	"lastIndexOf":           product,
	"contains":              product,
	"lists.range":           number,
	"slice":                 elements,
	"reverse":               elements,
	"sort":                  sorted,
	"@sortByAssociatedKeys": sorted,
	"flatten":               flattened,
	"optional.unwrap":       elements,
	"unwrapOpt":             elements,
	"math.@min":             elements,
	"math.@max":             elements,
	"cel.@mapInsert":        inserted,
}

// elements charges for the elements of lists.
func elements(m meter, args []ref.Val) {
	for _, a := range args {
		if _, ok := a.(traits.Lister); ok {
			m.charge(size(a))
		}
	}
}

// inserted charges for the entries of a map that goes into another.
func inserted(m meter, args []ref.Val) {
	if len(args) == 2 {
		m.charge(size(args[1]))
	}
}

// number charges for as many elements as the first argument says.
func number(m meter, args []ref.Val) {
	if n, ok := args[0].(types.Int); ok && n > 0 {
		m.charge(int(n))
	}
}

func text(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

// product charges for a search which compares at every place.
func product(m meter, args []ref.Val) {
	if len(args) > 1 {
		m.charge(len(text(args[0])) * (len(text(args[1]))/bytesPerUnit + 1) / bytesPerUnit)
	}
}

// pieces charges for the list that split makes.
func pieces(m meter, args []ref.Val) {
	if len(args) > 1 {
		m.charge(strings.Count(text(args[0]), text(args[1])))
	}
}

// replacement charges for the string that replace makes.
func replacement(m meter, args []ref.Val) {
	if len(args) > 2 {
		count := strings.Count(text(args[0]), text(args[1]))
		m.charge(count)
		m.charge(count * len(text(args[2])) / bytesPerUnit)
	}
}

// joined charges for the string that join makes.
func joined(m meter, args []ref.Val) {
	from, ok := args[0].(traits.Lister)
	if !ok {
		return
	}
	n := size(from)
	m.charge(n)
	if len(args) > 1 {
		m.charge(n * len(text(args[1])) / bytesPerUnit)
	}
	for i := range n {
		m.text(from.Get(types.Int(i)))
	}
}

// formatted charges for every value inside of the arguments.
func formatted(m meter, args []ref.Val) {
	for _, a := range args[1:] {
		m.walk(a)
	}
}

// walk charges for everything in v.
func (m meter) walk(v ref.Val) {
	m.charge(1)
	m.text(v)
	switch v := v.(type) {
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			m.walk(key)
			e, _ := v.Find(key)
			m.walk(e)
		}
	case traits.Lister:
		for i := range size(v) {
			m.walk(v.Get(types.Int(i)))
		}
	}
}

// sorted charges n log n comparisons of the elements of the last list.
func sorted(m meter, args []ref.Val) {
	by, ok := args[len(args)-1].(traits.Lister)
	if !ok {
		return
	}
	n := size(by)
	rounds := bits.Len(uint(n))
	m.charge(n * rounds)
	for i := range n {
		m.charge(len(text(by.Get(types.Int(i)))) * rounds / bytesPerUnit)
	}
}

// flattened charges for the elements that flatten visits.
func flattened(m meter, args []ref.Val) {
	depth := 1
	if len(args) > 1 {
		if n, ok := args[1].(types.Int); ok {
			depth = int(n)
		}
	}
	m.flatten(args[0], depth)
}

func (m meter) flatten(v ref.Val, depth int) {
	from, ok := v.(traits.Lister)
	if !ok {
		return
	}
	m.charge(size(from))
	if depth <= 0 {
		return
	}
	for i := range size(from) {
		m.flatten(from.Get(types.Int(i)), depth-1)
	}
}
