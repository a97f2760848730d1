package expr

import (
	"math"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// evalAdd evaluates a + b of numbers, strings, bytes, lists, timestamps and durations.
func evalAdd(m meter, a, b ref.Val) ref.Val {
	if x, y, ok := bothDoubles(a, b); ok {
		return newDouble(x + y)
	}
	if x, ok := a.(traits.Lister); ok {
		return m.addLists(x, b)
	}
	if x, ok := a.(traits.Adder); ok {
		return x.Add(b)
	}
	return noOverload
}

// addLists copies. The list under construction in a macro grows in place.
func (m meter) addLists(a traits.Lister, b ref.Val) ref.Val {
	other, ok := b.(traits.Lister)
	if !ok {
		return noOverload
	}
	if growing, ok := a.(traits.MutableLister); ok {
		m.chargeUnits(sizeOf(other))
		return growing.Add(other)
	}
	n := sizeOf(a) + sizeOf(other)
	m.chargeUnits(n)
	sum := make([]ref.Val, 0, n)
	for _, part := range []traits.Lister{a, other} {
		for i := range sizeOf(part) {
			sum = append(sum, part.Get(types.Int(i)))
		}
	}
	return types.NewRefValList(adapter{}, sum)
}

func evalSubtract(_ meter, a, b ref.Val) ref.Val {
	if x, y, ok := bothDoubles(a, b); ok {
		return newDouble(x - y)
	}
	if x, ok := a.(traits.Subtractor); ok {
		return x.Subtract(b)
	}
	return noOverload
}

func evalMultiply(_ meter, a, b ref.Val) ref.Val {
	if x, y, ok := bothDoubles(a, b); ok {
		return newDouble(x * y)
	}
	if x, ok := a.(traits.Multiplier); ok {
		return x.Multiply(b)
	}
	return noOverload
}

func evalDivide(_ meter, a, b ref.Val) ref.Val {
	if x, y, ok := bothDoubles(a, b); ok {
		return newDouble(x / y)
	}
	if x, ok := a.(traits.Divider); ok {
		return x.Divide(b)
	}
	return noOverload
}

func evalModulo(_ meter, a, b ref.Val) ref.Val {
	if x, y, ok := bothDoubles(a, b); ok {
		if y == 0 {
			return types.NewErr("modulus by zero")
		}
		return newDouble(math.Mod(x, y))
	}
	if x, ok := a.(traits.Modder); ok {
		return x.Modulo(b)
	}
	return noOverload
}

func evalNegate(_ meter, a ref.Val) ref.Val {
	switch a := a.(type) {
	case types.Double:
		return newDouble(-float64(a))
	case types.Int:
		return a.Negate()
	default:
		return noOverload
	}
}

// bothDoubles returns both numbers if one of them is a double and the other too, or
// an int.
func bothDoubles(a, b ref.Val) (x, y float64, ok bool) {
	switch a := a.(type) {
	case types.Double:
		switch b := b.(type) {
		case types.Double:
			return float64(a), float64(b), true
		case types.Int:
			return float64(a), float64(b), true
		}
	case types.Int:
		if b, isDouble := b.(types.Double); isDouble {
			return float64(a), float64(b), true
		}
	}
	return 0, 0, false
}

// newDouble never returns negative zero, which the model refuses: adding zero makes
// it zero.
func newDouble(f float64) ref.Val { return types.Double(f + 0) }
