package expr_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/expr"
)

// A program has the type that its value has whatever the variables are, and none where the checker only guesses it: by the default
// of an optional value, or by what stands beside the element of a list.
func TestTypesHold(t *testing.T) {
	for source, want := range map[string]string{
		`state.m[?"a"].orValue(0)`:                         "",
		`state.l.first().orValue(0)`:                       "",
		`state.l.last().orValue({})`:                       "",
		`state.l[?0].or(optional.of(1)).value()`:           "",
		`cel.bind(x, state.l.first(), x.orValue(1))`:       "",
		`state.l.reverse()[0] + 1`:                         "",
		`state.l[?0].orValue(1) + 1`:                       "",
		`[state.l.first().orValue(1)][0]`:                  "",
		`{"a": state.l.first().orValue(1)}.a`:              "",
		`state.t ? 1 : state.x`:                            "",
		`state.t ? state.l.reverse()[0] : 1`:               "",
		`state.t ? null : duration("1h")`:                  "",
		`math.greatest([state.l.first().orValue(1)])`:      "",
		`state.?x.orValue(0)`:                              "",
		`state.l.first().orValue(0) + "x"`:                 "string",
		`state.l.first().orValue(0) == 1`:                  "boolean",
		`[state.l.first().orValue(0)]`:                     "array",
		`state.l.distinct()`:                               "array",
		`state.l.map(x, x.first().orValue(0)) + [1]`:       "array",
		`state.t ? state.l.slice(0, 1) : [1]`:              "array",
		`{"a": state.l.first().orValue(1)}`:                "object",
		`state.l.first().orValue([]).size()`:               "integer",
		`cel.bind(x, state.l, x.size())`:                   "integer",
		`[1, 2][0] + 1`:                                    "integer",
		`{"a": 1}.a`:                                       "integer",
		`[1].first().orValue(0)`:                           "integer",
		`state.n * 1.5`:                                    "number",
		`state.x.split(",")[0]`:                            "string",
		`state.x.split(",").reverse().first().orValue("")`: "string",
		`state.t ? "a" : state.x + "b"`:                    "string",
		`has(state.x)`:                                     "boolean",
		`state.l.exists(x, x == 1) && state.t`:             "boolean",
		`state.x in ["a"] || !state.t`:                     "boolean",
	} {
		p, err := expr.Compile(source, names, expr.Limits{})
		if assert.NoError(t, err, source) {
			assert.Equal(t, want, p.Type(), source)
		}
	}
}

// A value that is optional whatever the variables are is no result.
func TestOptionalResults(t *testing.T) {
	for source, want := range map[string]bool{
		`state.?n`: true, `state.?m.a`: true, `state.l[?0]`: true, `state.l.first()`: true, `optional.none()`: true, `[state.m].first().b`: true, `state.?l[0]`: true, `state[?"m"].b`: true,
		`state.m.?b.c`: true, `state.z.?b`: true,
		`state.t ? state.?n : optional.of(1)`: true, `cel.bind(x, 1, state.?n)`: true, `state.?n.or(state.?m)`: true,
		`state.?n.orValue(1)`: false, `state.?n.hasValue()`: false, `[?state.?n]`: false, `has(state.?n.x)`: false,
		`state.t ? state.?n : state.n`: false, `[state.?n][0]`: false, `cel.bind(x, state.?n, x)`: false, `state.n`: false,
	} {
		p, err := expr.Compile(source, names, expr.Limits{})
		if assert.NoError(t, err, source) {
			assert.Equal(t, want, p.IsOptional(), source)
			_, err := p.Eval(vars())
			assert.False(t, want && err == nil, source)
		}
	}
}

// The value of an optional need not have the type of its default, and one branch may be an int and the other a double.
func TestTypesThatDiffer(t *testing.T) {
	for source, want := range map[string]any{
		`state.l[?2].orValue(0) + "x"`:                                                  "bx",
		`[state.m].first().orValue(null).b`:                                             int64(1),
		`state.l[?0].orValue(null).q == 1 || true`:                                      true,
		`state.l.last().or(optional.of(1)).value()`:                                     "b",
		`(state.t ? state.l[?2].value() : 1) + "x"`:                                     "bx",
		`[1].map(state, .state.l.last().orValue(0))`:                                    []any{"b"},
		`state.t ? 1 : 2.5`:                                                             int64(1),
		`!state.t ? size(state.l) : 2.5`:                                                2.5,
		`(state.n > 3 ? 0 : state.n * 1.5) + 1`:                                         5.5,
		`[state.t ? "a" : "b", state.t ? 1 : 0.5]`:                                      []any{"a", int64(1)},
		`string(state.t ? (state.t ? 0.5 : 1) : 2)`:                                     "0.5",
		`state.t ? state.l[?2].orValue(0) + "x" : null`:                                 "bx",
		`[1].map(state, .state.l.last().orValue(0) + "x" + .state.l.last().orValue(0))`: []any{"bxb"},
	} {
		got, err := eval(t, source)
		if assert.NoError(t, err, source) {
			assert.Equal(t, want, got, source)
		}
	}
	for _, source := range []string{`state.t ? 1 : "a"`, `state.t ? 2.5 : [1]`, `1 + (state.t ? 1 : 2.5) + "a" - 1`, `state.l[?0].orValue(0) + foo`, `state.l[?0].orValue(0) + 1 + ("a" - 1)`} {
		_, err := expr.Compile(source, names, expr.Limits{})
		require.Error(t, err, source)
	}
}

// An expression that the checker lets through costs what it has always cost.
func TestCostOfDefaults(t *testing.T) {
	v := expr.Map{"l": []any{int64(1)}, "m": map[string]any{"a": int64(1)}}
	for source, want := range map[string]int{`l.first().orValue(0) == 1`: 4, `m[?"a"].orValue(0) + 1 == 2`: 5, `l.first().value() == 1`: 5} {
		assert.Equal(t, want, threshold(t, source, v), source)
	}
}
