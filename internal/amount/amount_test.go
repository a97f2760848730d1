package amount

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A number counts as the decimal that was written, and what is no number of a sum is passed over.
func TestOf(t *testing.T) {
	got := Of(map[string]any{
		"cost": 0.1, "tokens": int64(1200), "tiny": 0.0000000004, "half": 0.0000000005, "model": "m", "delta": int64(-1), "minus": -0.5, "nan": math.NaN(),
		"huge": 1e300, "all": true, "": int64(1), "nested": map[string]any{"cost": 1.0}, "none": nil,
	})
	require.Equal(t, Sums{{"cost", 0, 100_000_000}, {"half", 0, 1}, {Name: "tiny"}, {"tokens", 1200, 0}}, got)
	require.Equal(t, map[string]float64{"cost": 0.1, "half": 1e-9, "tiny": 0, "tokens": 1200}, got.Floats())
	require.Nil(t, Sums(nil).Floats())
}

// Ten tenths are one.
func TestTenths(t *testing.T) {
	var s Sums
	for range 10 {
		s = s.Plus(Of(map[string]any{"cost": 0.1}))
	}
	require.Equal(t, Sums{{"cost", 1, 0}}, s)
	require.Equal(t, "1", s[0].String())
	require.Equal(t, "4.75", Sum{Whole: 4, Nano: 750_000_000}.String())
}

// A list has MaxNames names, and stops at the largest number instead of beginning anew.
func TestBounds(t *testing.T) {
	many := map[string]any{}
	for i := range MaxNames + 5 {
		many[string(rune('A'+i))] = int64(i)
	}
	s := Of(many)
	require.Len(t, s, MaxNames)
	require.Equal(t, s, s.Count(Of(map[string]any{"zz": int64(1)})))
	require.Len(t, s.Plus(Of(map[string]any{"zz": int64(1)})), MaxNames+1)
	limit := Sum{Name: "zz", Whole: 5}
	require.Len(t, s.Count(Of(map[string]any{"zz": int64(1), "zzz": int64(1)}), limit), MaxNames+1)
	many["zz"] = int64(7)
	counted := Of(many, limit)
	require.Len(t, counted, MaxNames+1)
	require.Equal(t, counted, Sums(nil).Count(counted, limit))
	most := Sum{Name: "n", Whole: maxWhole}
	require.Equal(t, most, most.Plus(most))
}

// drawReports draws reports of some names.
func drawReports(t *rapid.T) (out []Sums) {
	for range rapid.IntRange(0, 20).Draw(t, "reports") {
		m := map[string]any{}
		for _, name := range []string{"a", "b", "c"} {
			switch rapid.IntRange(0, 2).Draw(t, name) {
			case 0:
				m[name] = rapid.Float64Range(0, 1e12).Draw(t, "float")
			case 1:
				m[name] = rapid.Int64Range(0, 1<<53).Draw(t, "int")
			}
		}
		out = append(out, Of(m))
	}
	return out
}

// The sum is the same in any order, equals that of big integers, and what was added can be taken off.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reports := drawReports(t)
		shuffled := rapid.Permutation(reports).Draw(t, "order")
		var one, other Sums
		exact := map[string]*big.Int{}
		for i := range reports {
			one, other = one.Plus(reports[i]), other.Plus(shuffled[i])
			for _, x := range reports[i] {
				if exact[x.Name] == nil {
					exact[x.Name] = new(big.Int)
				}
				exact[x.Name].Add(exact[x.Name], nanos(x))
			}
		}
		require.Equal(t, one, other)
		require.Len(t, one, len(exact))
		for _, x := range one {
			require.Zero(t, exact[x.Name].Cmp(nanos(x)), x)
		}
		for _, r := range shuffled {
			one = one.Minus(r)
		}
		for _, x := range one {
			require.True(t, x.IsZero(), x)
		}
	})
}

func nanos(s Sum) *big.Int {
	n := new(big.Int).Mul(big.NewInt(s.Whole), big.NewInt(billion))
	return n.Add(n, big.NewInt(s.Nano))
}
