// Package amount sums numbers that attempts report, such as what a call of a model has cost, by name.
//
// A sum must not depend on the order in which results come, or a replay on another machine and the run itself would
// differ in the last digits, and a bound be met in one and not in the other. So a number counts as the decimal that its
// handler has written, 0.1 as one tenth and not as the float64 next to it, rounded to a billionth; sums are integers of
// billionths, which any order gives alike. Readers are given the float64 that is nearest to a sum.
//
// The package is pure.
package amount

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
)

// MaxNames is how many names one list of sums has at most, besides those that a limit bounds. Further ones are not summed:
// those that come first in the journal stay, and those of one report come in the order of their names. A name that a limit
// bounds is always summed, or a report of many names would hide it.
const MaxNames = 32

// MaxName is how many bytes a name has at most; a longer one is not summed.
const MaxName = 128

// A Sum is a number with a name: a whole part, and billionths of one. It is not negative.
type Sum struct {
	Name  string `json:"name"`
	Whole int64  `json:"whole,omitzero"`
	Nano  int64  `json:"nano,omitzero"` // 0 to 999,999,999
}

const (
	billion  = 1_000_000_000
	maxWhole = 1 << 61 // what would be more is this much
)

// Sums are sums sorted by name, each name once. They are shared and never modified.
type Sums []Sum

// Of returns the numbers of metadata that can be summed: those at the top with a short name, from 0 to 2^53.
// A negative number would give back what others have spent, and is passed over as a text is. Limits say which names are
// bounded.
func Of(metadata map[string]any, limits ...Sum) (out Sums) {
	if len(metadata) == 0 {
		return nil
	}
	others := 0
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		s, ok := sumOf(name, metadata[name])
		if _, limited := Sums(limits).Named(name); ok && !limited {
			others++
			ok = len(name) <= MaxName && name != "" && others <= MaxNames
		}
		if ok {
			out = append(out, s)
		}
	}
	return out
}

// FromFloats returns numbers by name as sums. All of them are from 0 to 2^53.
func FromFloats(of map[string]float64) (out Sums) {
	if len(of) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if s, ok := sumOf(name, of[name]); ok {
			out = append(out, s)
		}
	}
	return out
}

// Floats returns the sums by name, nil if there are none.
func (s Sums) Floats() map[string]float64 {
	if len(s) == 0 {
		return nil
	}
	out := make(map[string]float64, len(s))
	for _, x := range s {
		out[x.Name] = x.Float()
	}
	return out
}

// Values returns the sums by name as an object of the JSON model.
func (s Sums) Values() map[string]any {
	out := make(map[string]any, len(s))
	for _, x := range s {
		if out[x.Name] = x.Float(); x.Nano == 0 && x.Whole <= value.MaxInteger {
			out[x.Name] = x.Whole
		}
	}
	return out
}

// sumOf returns a value of the JSON model as a sum, false if it is none.
func sumOf(name string, v any) (Sum, bool) {
	switch v := v.(type) {
	case int64:
		return Sum{Name: name, Whole: v}, v >= 0 && v <= value.MaxInteger
	case float64:
		if !(v >= 0 && v <= value.MaxInteger) {
			return Sum{}, false
		}
		return parseSum(name, strconv.FormatFloat(v, 'f', -1, 64)), true
	default:
		return Sum{}, false
	}
}

// parseSum reads a decimal, whose digits behind the ninth are rounded, half of one up.
func parseSum(name, decimal string) Sum {
	whole, rest, _ := strings.Cut(decimal, ".")
	up := len(rest) > 9 && rest[9] >= '5'
	rest = (rest + "000000000")[:9]
	s := Sum{Name: name}
	s.Whole, _ = strconv.ParseInt(whole, 10, 64)
	s.Nano, _ = strconv.ParseInt(rest, 10, 64)
	if up {
		s.Nano++
	}
	return s.withCarry()
}

// withCarry moves billionths that make a whole, or a missing whole, from one part to the other.
func (s Sum) withCarry() Sum {
	switch {
	case s.Nano >= billion:
		s.Whole, s.Nano = s.Whole+1, s.Nano-billion
	case s.Nano < 0:
		s.Whole, s.Nano = s.Whole-1, s.Nano+billion
	}
	if s.Whole >= maxWhole {
		s.Whole, s.Nano = maxWhole, 0
	}
	return s
}

// String returns the sum as a decimal without its name, e.g. 4.75.
func (s Sum) String() string {
	text := strconv.FormatInt(s.Whole, 10)
	if s.Nano == 0 {
		return text
	}
	nano := strconv.FormatInt(billion+s.Nano, 10)[1:]
	return text + "." + strings.TrimRight(nano, "0")
}

// Float returns the float64 that is nearest to the sum.
func (s Sum) Float() float64 {
	f, err := strconv.ParseFloat(s.String(), 64)
	if err != nil {
		return math.NaN() // no sum
	}
	return f
}

// IsZero reports whether the number is 0.
func (s Sum) IsZero() bool { return s.Whole == 0 && s.Nano == 0 }

// Plus returns a number with another one added to it.
func (s Sum) Plus(x Sum) Sum {
	return Sum{s.Name, s.Whole + x.Whole, s.Nano + x.Nano}.withCarry()
}

// Minus returns a number less another one, which is not larger.
func (s Sum) Minus(x Sum) Sum { return Sum{s.Name, s.Whole - x.Whole, s.Nano - x.Nano}.withCarry() }

// Compare returns -1, 0 or 1 as a number is less than, equal to or more than another one. Names do not count.
func (s Sum) Compare(x Sum) int {
	return cmp.Or(cmp.Compare(s.Whole, x.Whole), cmp.Compare(s.Nano, x.Nano))
}

// findSum returns the place of a name, and whether it is there.
func (s Sums) findSum(name string) (int, bool) {
	return slices.BinarySearchFunc(s, name, func(x Sum, name string) int { return cmp.Compare(x.Name, name) })
}

// Named returns the sum of a name, and whether there is one; its number is 0 if not.
func (s Sums) Named(name string) (Sum, bool) {
	if i, ok := s.findSum(name); ok {
		return s[i], true
	}
	return Sum{Name: name}, false
}

// Count returns sums with a report added, as new ones, up to MaxNames names and those that limits bound.
func (s Sums) Count(report Sums, limits ...Sum) Sums {
	fits := make(Sums, 0, len(report))
	others := 0
	for _, x := range s {
		if _, limited := Sums(limits).Named(x.Name); !limited {
			others++
		}
	}
	for _, x := range report {
		_, there := s.Named(x.Name)
		_, limited := Sums(limits).Named(x.Name)
		if !there && !limited {
			if others++; others > MaxNames {
				continue
			}
		}
		fits = append(fits, x)
	}
	return s.Plus(fits)
}

// Plus returns sums with others added, as new ones.
func (s Sums) Plus(more Sums) Sums {
	if len(more) == 0 {
		return s
	}
	out := slices.Clone(s)
	for _, x := range more {
		if i, ok := out.findSum(x.Name); ok {
			out[i] = out[i].Plus(x)
		} else {
			out = slices.Insert(out, i, x)
		}
	}
	return out
}

// Minus returns sums less others, each of which is among them and not larger, as new ones; a name whose number is 0
// then is gone.
func (s Sums) Minus(less Sums) Sums {
	if len(less) == 0 {
		return s
	}
	out := slices.Clone(s)
	for _, x := range less {
		i, ok := out.findSum(x.Name)
		if !ok {
			continue
		}
		if out[i] = out[i].Minus(x); out[i].IsZero() {
			out = slices.Delete(out, i, i+1)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// With returns sums in which those of others stand in place of their own, as new ones.
func (s Sums) With(others Sums) Sums {
	out := slices.Clone(s)
	for _, x := range others {
		i, ok := out.findSum(x.Name)
		if ok {
			out[i] = x
		} else {
			out = slices.Insert(out, i, x)
		}
	}
	return out
}
