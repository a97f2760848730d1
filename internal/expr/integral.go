package expr

import (
	"math"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// integral are functions of the library that take doubles alone, or values of one type, with what they do to ints. An integral number of the
// JSON model is an int, 2.0 as well: without these, data would decide whether an expression fails. nil leaves the call to the library.
var integral = map[string]func(args []ref.Val) ref.Val{
	"math.ceil":             sameInt,
	"math.floor":            sameInt,
	"math.round":            sameInt,
	"math.trunc":            sameInt,
	"math.isFinite":         isInt(types.True),
	"math.isInf":            isInt(types.False),
	"math.isNaN":            isInt(types.False),
	"sort":                  sortNumbers,
	"@sortByAssociatedKeys": sortNumbers,
}

// sameInt returns an int as it is.
func sameInt(args []ref.Val) ref.Val {
	if n, ok := args[0].(types.Int); ok {
		return n
	}
	return nil
}

// isInt returns a function that answers the same for every int.
func isInt(answer types.Bool) func(args []ref.Val) ref.Val {
	return func(args []ref.Val) ref.Val {
		if _, ok := args[0].(types.Int); ok {
			return answer
		}
		return nil
	}
}

// sortNumbers sorts a list by its elements or, with a second list of the same size, by its keys, where these are ints and doubles. Equal
// ones keep their order.
func sortNumbers(args []ref.Val) ref.Val {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	keys, ok := args[len(args)-1].(traits.Lister)
	if !ok || sizeOf(keys) != sizeOf(list) {
		return nil
	}
	by, mixed := numbersOf(keys)
	if !mixed {
		return nil
	}
	order := make([]int, len(by))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		n, _ := by[i].(traits.Comparer).Compare(by[j]).(types.Int)
		return int(n)
	})
	sorted := make([]ref.Val, len(order))
	for to, from := range order {
		sorted[to] = list.Get(types.Int(from))
	}
	return types.NewRefValList(adapter{}, sorted)
}

// numbersOf returns the elements of a list that has both ints and doubles, and nothing else that could not be put in order.
func numbersOf(list traits.Lister) (numbers []ref.Val, mixed bool) {
	ints, doubles := false, false
	for i := range sizeOf(list) {
		switch v := list.Get(types.Int(i)).(type) {
		case types.Int:
			ints, numbers = true, append(numbers, v)
		case types.Double:
			if math.IsNaN(float64(v)) {
				return nil, false
			}
			doubles, numbers = true, append(numbers, v)
		default:
			return nil, false
		}
	}
	return numbers, ints && doubles
}
