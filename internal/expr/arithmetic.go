package expr

import (
	"math"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// evalAdd evaluates a + b of numbers, strings, bytes, lists, timestamps and durations.
//
// The operators of the library do not work across int and double, since CEL keeps them apart;
// in JSON 1 and 1.5 are both numbers, and which of them is an int depends on the data. The
// calls here take care of doubles, mixed or not, and leave the rest to the library, which
// reports an overflow of ints as an error.
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
//
// The library would make a list that looks into both, and a chain of a thousand such sums would
// be searched through at each access. A copy costs its length, which is charged before it is
// made. Only the list that a macro such as map is building is known to nobody else, and may
// grow.
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

// evalSubtract evaluates a - b of numbers, timestamps and durations.
func evalSubtract(_ meter, a, b ref.Val) ref.Val {
	if x, y, ok := bothDoubles(a, b); ok {
		return newDouble(x - y)
	}
	if x, ok := a.(traits.Subtractor); ok {
		return x.Subtract(b)
	}
	return noOverload
}

// evalMultiply evaluates a * b of numbers.
func evalMultiply(_ meter, a, b ref.Val) ref.Val {
	if x, y, ok := bothDoubles(a, b); ok {
		return newDouble(x * y)
	}
	if x, ok := a.(traits.Multiplier); ok {
		return x.Multiply(b)
	}
	return noOverload
}

// evalDivide evaluates a / b. For ints it is the integral part, 7 / 2 is 3; dividing a double by
// zero gives an infinity, which may be compared but cannot be a result.
func evalDivide(_ meter, a, b ref.Val) ref.Val {
	if x, y, ok := bothDoubles(a, b); ok {
		return newDouble(x / y)
	}
	if x, ok := a.(traits.Divider); ok {
		return x.Divide(b)
	}
	return noOverload
}

// evalModulo evaluates a % b; of doubles it is what is left, with the sign of a.
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

// evalNegate evaluates -a. The library negates zero to a negative zero for doubles.
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
//
// Two ints are not for doubles: their sum stays exact, and an overflow is an error.
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

// newDouble never returns negative zero, which the model does not have: adding zero makes
// it zero.
func newDouble(f float64) ref.Val { return types.Double(f + 0) }
