// Package value is the data model of a run: JSON values with exact numbers.
//
// A model value is nil, bool, int64, float64, string, []any or map[string]any,
// and holds nothing but model values. It is immutable by convention: whoever
// holds one may share it, nobody changes it.
//
// Numbers follow one rule, so that a value which is written to a file and read
// again is the same value: a number with an integral value within +-2^53 is an
// int64, any other a float64. Negative zero is 0. NaN and infinities are refused.
//
// The package is pure: no clock, no I/O, no randomness.
package value

import (
	"maps"
	"math"
	"slices"

	"github.com/pawl-run/pawl/internal/pace"
)

// MaxInteger is the largest magnitude of an int64 in the model: 2^53, up to
// which every integer is also a float64 and so survives any JSON reader.
const MaxInteger = 1 << 53

// An Object is a lazy view of a map. Its values are model values or views.
//
// The data of a branch is such a view: its own on top of what is around it, which no expression
// needs as a whole. Expressions read views as they are; Materialize makes them plain where they leave,
// for example before a schema checks them.
type Object interface {
	// Get returns the value under key, and whether there is one.
	Get(key string) (any, bool)
	// Keys returns all keys in ascending order; the caller does not change it.
	Keys() []string
	// Len returns the number of keys.
	Len() int
}

// A List is a lazy view of a list. Its values are model values or views.
type List interface {
	// Len returns the number of elements.
	Len() int
	// At returns element i, which counts from 0; it panics outside 0..Len()-1.
	At(i int) any
}

// Materialize turns an Object or List into a plain map or slice, and what they
// hold as well. Any other value is returned as it is, shared, in constant time:
// a plain map or slice holds plain values only.
//
// Immutability is what lets the state of a run, its journal and its forks share values without
// copies, and lets a planner plan on them while others read.
func Materialize(v any) any {
	switch v := v.(type) {
	case Object:
		m := make(map[string]any, v.Len())
		for _, k := range v.Keys() {
			if e, ok := v.Get(k); ok {
				m[k] = Materialize(e)
			}
		}
		return m
	case List:
		list := make([]any, v.Len())
		for i := range list {
			pace.Each(i)
			list[i] = Materialize(v.At(i))
		}
		return list
	default:
		return v
	}
}

// Equal reports whether two model values are the same value. It is false for
// anything outside the model.
//
// Since each number has one form an int64 never equals a float64 here: 1 and 1.0 are the same
// int64 already when they come in.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case int64:
		b, ok := b.(int64)
		return ok && a == b
	case float64:
		b, ok := b.(float64)
		return ok && a == b
	case string:
		b, ok := b.(string)
		return ok && a == b
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, Equal)
	default:
		return false
	}
}

// Float returns f as the model holds it: an int64 if it is integral and within
// +-2^53, else a float64; negative zero is 0. NaN and infinities are an error.
func Float(f float64) (any, error) {
	v, err := modelFloat(f)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Int returns n as the model holds it: an int64 within +-2^53, a float64 where
// that is exact, and an error for any other.
func Int(n int64) (any, error) {
	v, err := modelInt(n)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// modelFloat and modelInt are Float and Int for this package, which adds places to errors.
func modelFloat(f float64) (any, *Error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil, newError(CodeNumber, "%v is not a JSON number", f)
	case isIntegral(f):
		return int64(f), nil
	default:
		return f, nil
	}
}

// Above 2^53 an integer is held as a double if that is exact, as 2^60 is. The comparison with
// 1<<63 comes first, since the conversion of a larger double to an int64 has no defined result.
func modelInt(n int64) (any, *Error) {
	if -MaxInteger <= n && n <= MaxInteger {
		return n, nil
	}
	if f := float64(n); f < 1<<63 && int64(f) == n {
		return f, nil
	}
	return nil, newError(CodeNumber, "integer %d is outside +-2^53 and not exact as a double", n)
}

// modelUint is modelInt for unsigned integers, which may be larger than any int64.
func modelUint(n uint64) (any, *Error) {
	if n <= MaxInteger {
		return int64(n), nil
	}
	if f := float64(n); f < 1<<64 && uint64(f) == n {
		return f, nil
	}
	return nil, newError(CodeNumber, "integer %d is outside +-2^53 and not exact as a double", n)
}

// isIntegral reports whether the model holds f as an int64.
func isIntegral(f float64) bool {
	return f >= -MaxInteger && f <= MaxInteger && f == math.Trunc(f)
}
