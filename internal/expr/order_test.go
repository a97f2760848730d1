package expr_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/value"
)

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func wideMap() map[string]any {
	m := map[string]any{}
	for i := range 50 {
		m[fmt.Sprintf("k%02d", (i*37)%50)] = int64(i)
	}
	return m
}

func wideLiteral() string {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, ", 'k%02d': %d", (i*37)%50, i)
	}
	return "{" + b.String()[2:] + "}"
}

// Every macro that visits a map does so in key order. An error ends a visit, so
// that its message shows which entry came first. M stands for the map, # for Map.
var macros = []string{
	"M.map(k, k)",
	"M.map(k, M[k] > 10, M[k])",
	"M.filter(k, M[k] % 2 == 0)",
	"M.all(k, M[k] < 40 || M[k] / 0 > 0)",
	"M.exists(k, M[k] == 90 / (M[k] - 17))",
	"M.exists_one(k, M[k] / (M[k] - 17) == 99)",
	"M.all(k, v, v < 40 || v / 0 > 0)",
	"M.exists(k, v, v == 90 / (v - 17))",
	"M.existsOne(k, v, v / (v - 17) == 99)",
	"M.transformList(k, v, [k, v])",
	"M.transformList(k, v, v > 9, k)",
	"M.transform#(k, v, v + 1).map(k, k)",
	"M.transform#Entry(k, v, {k: v}).map(k, k)",
	"M.transform#Entry(k, v, {string(v / 10): k})",
	"M.map(k, M[k]).sort()",
	"[M, M].map(m, m.map(k, k))",
	"cel.bind(m, M, m.map(k, k))",
	"optional.of(M).opt#(m, m.map(k, k)).value()",
	"'%s'.format([M])",
	"M.transform#(k, v, {'a': v, 'b': k})",
}

func TestMapsIterateInKeyOrder(t *testing.T) {
	v := expr.Map{"plain": wideMap(), "view": object{wideMap()}}
	forms := []string{"plain", "view", wideLiteral(), "plain.transformMap(k, v, v)", "[view][0]"}
	for _, macro := range macros {
		seen := map[string]bool{}
		for _, form := range forms {
			source := "cel.bind(w, " + form + ", " + strings.NewReplacer("M", "w", "#", "Map").Replace(macro) + ")"
			p, err := expr.Compile(source, []string{"plain", "view"}, expr.Limits{})
			require.NoError(t, err, macro)
			for range harness.Figure(20, 100, 100) {
				seen[outcome(p, v)] = true
			}
		}
		assert.Len(t, seen, 1, "%s: %v", macro, seen)
	}
}

// outcome is the result or the error of an evaluation, without places.
func outcome(p *expr.Program, v expr.Vars) string {
	got, err := p.Eval(v)
	if err != nil {
		_, message, _ := strings.Cut(err.Error(), " ")
		return "error: " + message
	}
	return string(value.Encode(got))
}

func TestKeysOfEveryTypeHaveAnOrder(t *testing.T) {
	p, err := expr.Compile(`{"b": 1, 2: 1, true: 1, 1.5: 1, "a": 1, 1u: 1, false: 1, -3: 1}.map(k, string(k))`, nil, expr.Limits{})
	require.NoError(t, err)
	for range 100 {
		got, err := p.Eval(expr.Map{})
		require.NoError(t, err)
		require.Equal(t, []any{"false", "true", "-3", "1", "1.5", "2", "a", "b"}, got)
	}
}

// The cost of an evaluation depends on the values alone, neither on how they are
// represented nor on the random order of the library's maps.
func TestCostIsDeterministic(t *testing.T) {
	plain := expr.Map{"m": wideMap(), "l": []any{wideMap(), wideMap()}}
	lazy := expr.Map{"m": object{wideMap()}, "l": list{[]any{wideMap(), wideMap()}}}
	for _, source := range []string{
		"m.map(k, m[k])", "l[0] == l[1]", "m == " + wideLiteral(), "{'a': l, 'b': m} == {'a': m, 'b': l}",
		"l.map(x, x.transformList(k, v, v))", "m in l", "'%s'.format([l])", "l.distinct()", "m.exists(k, k == 'k30')",
	} {
		want := threshold(t, source, plain)
		for range 3 {
			require.Equal(t, want, threshold(t, source, plain), source)
			require.Equal(t, want, threshold(t, source, lazy), source)
		}
	}
}

// threshold returns the least cost limit under which the expression ends well.
func threshold(t *testing.T, source string, v expr.Vars) int {
	low, high := 0, 1<<14
	for low+1 < high {
		middle := (low + high) / 2
		p, err := expr.Compile(source, []string{"m", "l"}, expr.Limits{Cost: uint64(middle)})
		require.NoError(t, err)
		if _, err := p.EvalBool(v); err == nil || !strings.Contains(err.Error(), expr.LimitCost) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}
