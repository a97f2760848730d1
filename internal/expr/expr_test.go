package expr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/value"
)

var names = []string{"input", "state", "now", "view"}

func vars() expr.Map {
	state := map[string]any{
		"n": int64(3), "f": 2.5, "x": "a", "z": nil, "t": true,
		"l": []any{int64(1), 2.5, "b"}, "m": map[string]any{"b": int64(1), "a": int64(2)},
	}
	return expr.Map{
		"input": map[string]any{"n": int64(4), "when": "2026-01-02T03:04:05.678901Z"},
		"state": state,
		"now":   time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.FixedZone("", 3600)),
		"view":  object{state},
	}
}

// object and list are lazy views.
type (
	object struct{ of map[string]any }
	list   struct{ of []any }
)

func lazy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return object{v}
	case []any:
		return list{v}
	default:
		return v
	}
}

func (o object) Get(key string) (any, bool) { v, ok := o.of[key]; return lazy(v), ok }
func (o object) Len() int                   { return len(o.of) }
func (o object) Keys() []string             { return sortedKeys(o.of) }
func (l list) At(i int) any                 { return lazy(l.of[i]) }
func (l list) Len() int                     { return len(l.of) }

func eval(t *testing.T, source string) (any, error) {
	t.Helper()
	p, err := expr.Compile(source, names, expr.Limits{})
	if err != nil {
		return nil, err
	}
	return p.Eval(vars())
}

// evaluations are expressions and their results.
var evaluations = map[string]any{
	`7 / 2`:                         int64(3),
	`7.0 / 2`:                       3.5,
	`7 / 2.0`:                       3.5,
	`-7 / 2`:                        int64(-3),
	`7 % 4`:                         int64(3),
	`-7 % 4`:                        int64(-3),
	`5.5 % 2`:                       1.5,
	`state.n + state.f`:             5.5,
	`state.f + state.f`:             int64(5),
	`state.f * state.n`:             7.5,
	`state.n - 0.5`:                 2.5,
	`-state.n`:                      int64(-3),
	`-state.f`:                      -2.5,
	`-1.5 * 0`:                      int64(0),
	`-(0.0)`:                        int64(0),
	`1 == 1.0`:                      true,
	`state.n == 3.0`:                true,
	`state.n != 3.0`:                false,
	`state.n < 3.5`:                 true,
	`3.5 >= state.n`:                true,
	`2 > 1.5 && 1.5 <= 2`:           true,
	`state.n in [1, 3.0]`:           true,
	`"a" in state.m`:                true,
	`"q" in state.m`:                false,
	`dyn([1]) in {"a": 1}`:          false,
	`dyn(b"a") in {"a": 1}`:         false,
	`state.l in {1: 1}`:             false,
	`state.m in {"a": 1}`:           false,
	`state.l in state.m`:            false,
	`dyn(1.0) in {1: 1}`:            true,
	`1 == "1"`:                      false,
	`state.x + "b"`:                 "ab",
	`[1] + [2.5]`:                   []any{int64(1), 2.5},
	`state.l + [1]`:                 []any{int64(1), 2.5, "b", int64(1)},
	`state.l == [1.0, 2.5, "b"]`:    true,
	`state.m == {"a": 2, "b": 1}`:   true,
	`state.m != {"a": 2, "b": 1.5}`: true,
	`view == state`:                 true,
	`[view.m] == [state.m]`:         true,
	`timestamp("2026-01-02T03:04:05Z") + duration("1h")`:                    "2026-01-02T04:04:05Z",
	`timestamp("2026-01-02T03:04:05Z") - duration("1s")`:                    "2026-01-02T03:04:04Z",
	`timestamp("2026-01-02T03:04:05Z") - timestamp("2026-01-02T00:00:00Z")`: "3h4m5s",
	`duration("90s") + duration("1ms")`:                                     "1m30.001s",
	`now`:                                                                   "2026-01-02T02:04:05.678Z",
	`now < timestamp("2027-01-01T00:00:00Z")`:                               true,
	`now.getHours()`:                                                        int64(2),
	`now.getHours("UTC")`:                                                   int64(2),
	`now.getHours("+02:00")`:                                                int64(4),
	`now.getHours("-01:30")`:                                                int64(0),
	`null`:                                                                  nil,
	`state.z`:                                                               nil,
	`view.z`:                                                                nil,
	`[state.z, null]`:                                                       []any{nil, nil},
	`{"a": state.z}`:                                                        map[string]any{"a": nil},
	`state.z == null`:                                                       true,
	`state.x == null`:                                                       false,
	`null != state.n`:                                                       true,
	`has(state.q)`:                                                          false,
	`has(state.z)`:                                                          true,
	`has(view.m.a) && !has(view.m.q)`:                                       true,
	`state.?q.orValue(5)`:                                                   int64(5),
	`state.?m.?a.orValue(5)`:                                                int64(2),
	`view.?m.?a.orValue(5)`:                                                 int64(2),
	`state.?z.?b.orValue("none")`:                                           "none",
	`state.?z.b.c.orValue("none")`:                                          "none",
	`state.z.?b.c.orValue("none")`:                                          "none",
	`view.?z.?b.orValue("none")`:                                            "none",
	`state.z[?"a" + "b"].orValue("none")`:                                   "none",
	`state[?"z"][?3].orValue("none")`:                                       "none",
	`[dyn(null)][0].?b.orValue("none")`:                                     "none",
	`dyn(null).?b.orValue("none")`:                                          "none",
	`state.?z.optMap(x, x == null).orValue(false)`:                          true,
	`has(state.?z.b)`:                                                       false,
	`cel.bind(a, state.z, a.?b.hasValue())`:                                 false,
	`view[?"m"].?q.orValue("none")`:                                         "none",
	`state.l[?7].orValue(0)`:                                                int64(0),
	`view.l[?0].value()`:                                                    int64(1),
	`state.?n.optMap(x, x + 1).orValue(0)`:                                  int64(4),
	`{?"a": state.?q, ?"b": state.?n}`:                                      map[string]any{"b": int64(3)},
	`state["m"]["a"]`:                                                       int64(2),
	`view["m"]["a"] + view.l[0]`:                                            int64(3),
	`view.l`:                                                                []any{int64(1), 2.5, "b"},
	`view.m`:                                                                map[string]any{"a": int64(2), "b": int64(1)},
	`view.l.size() + size(view.m)`:                                          int64(5),
	`view.l.filter(x, x == "b")`:                                            []any{"b"},
	`cel.bind(x, state.n, x * x)`:                                           int64(9),
	`state.l.existsOne(x, x == 1)`:                                          true,
	`state.m.existsOne(k, k != "q")`:                                        false,
	`state.l.existsOne(i, x, x == i)`:                                       false,
	`lists.range(3)`:                                                        []any{int64(0), int64(1), int64(2)},
	`[3, 1, 2].sort()`:                                                      []any{int64(1), int64(2), int64(3)},
	`[{"a": 2}, {"a": 1}].sortBy(x, x.a)`:                                   []any{map[string]any{"a": int64(1)}, map[string]any{"a": int64(2)}},
	`[3, 2.5, 1].sort()`:                                                    []any{int64(1), 2.5, int64(3)},
	`[2.5, state.n, 1.0].sort()`:                                            []any{int64(1), 2.5, int64(3)},
	`[{"a": 2.5}, {"a": 1, "b": 1}, {"a": 1.0, "b": 2}].sortBy(x, x.a)`:                   []any{map[string]any{"a": int64(1), "b": int64(1)}, map[string]any{"a": int64(1), "b": int64(2)}, map[string]any{"a": 2.5}},
	`[math.ceil(state.n), math.floor(state.n), math.round(state.n), math.trunc(state.n)]`: []any{int64(3), int64(3), int64(3), int64(3)},
	`[math.isNaN(state.n), math.isInf(state.n), math.isFinite(state.n)]`:                  []any{false, false, true},
	`[1, 1.0, 2].distinct()`:                          []any{int64(1), int64(2)},
	`[[1], [2, [3]]].flatten()`:                       []any{int64(1), int64(2), []any{int64(3)}},
	`[1, 2, 3].slice(1, 2)`:                           []any{int64(2)},
	`[1, 2].reverse()`:                                []any{int64(2), int64(1)},
	`sets.contains([1, 2], [1])`:                      true,
	`sets.equivalent(state.l, ["b", 1, 2.5])`:         true,
	`sets.intersects([1], [2])`:                       false,
	`math.greatest(1, 2.5)`:                           2.5,
	`math.greatest(state.n, 2.5, 1)`:                  int64(3),
	`math.least([state.n, 2.5])`:                      2.5,
	`math.ceil(state.f)`:                              int64(3),
	`"a-b".split("-")`:                                []any{"a", "b"},
	`["a", "b"].join("-")`:                            "a-b",
	`"%s %d %s".format(["x", 3, state.m])`:            `x 3 {a: 2, b: 1}`,
	`"abab".replace("a", "c")`:                        "cbcb",
	`state.x.matches("^[a-c]$")`:                      true,
	`"aab".matches(state.x + "+b")`:                   true,
	`string(base64.decode(base64.encode(b"hi")))`:     "hi",
	`optional.of([1]).hasValue(dyn([1.0]))`:           true,
	`state.t ? state.n : state.q`:                     int64(3),
	`state.q == 1 || true`:                            true,
	`type(state.n) == int && type(state.f) == double`: true,
	`9007199254740992`:                                int64(1 << 53),
	`9007199254740992 * 2`:                            float64(1 << 54),
	`uint(3)`:                                         int64(3),
	`"\u00e9" + string(1.5)`:                          "é1.5",
}

func TestEval(t *testing.T) {
	for source, want := range evaluations {
		got, err := eval(t, source)
		if assert.NoError(t, err, source) {
			assert.Equal(t, want, got, source)
		}
	}
}

// signed asks for the rule of earlier versions.
type signed struct{ expr.Map }

func (signed) RefusesNegativeZero() bool { return true }

// Negative zero, which the library has, is 0; by the rule of earlier versions it is an error.
func TestNegativeZero(t *testing.T) {
	for _, source := range []string{"-0.0", "math.ceil(-0.5)", "math.round(-0.4)", "double('-0')"} {
		p, err := expr.Compile(source, nil, expr.Limits{})
		require.NoError(t, err)
		v, err := p.Eval(expr.Map{})
		require.NoError(t, err, source)
		require.Equal(t, int64(0), v, source)
		_, err = p.Eval(signed{})
		require.EqualError(t, err, "result: negative zero is refused", source)
	}
}

func TestEvalFails(t *testing.T) {
	for source, want := range map[string]string{
		`state.q`:                          `1:6: no such key: q`,
		`view.q`:                           `no such key: q`,
		`state.m.a.b`:                      `no such key: b`,
		`has(state.x.y)`:                   `no such key: y`,
		`has(state.z.y)`:                   `no such key: y`,
		`has(view.z.y)`:                    `no such key: y`,
		`state.z.b`:                        `no such key: b`,
		`state.?n.?y`:                      `no such key: y`,
		`state.?x.?y`:                      `no such key: y`,
		`state.l[3]`:                       `index out of bounds: 3`,
		`view.l[-1]`:                       `index out of bounds: -1`,
		`state.x + 1`:                      `1:9: no such overload`,
		`state.n + "1"`:                    `no such overload`,
		`state.l + 1`:                      `no such overload: _+_`,
		`state.n > "1"`:                    `no such overload`,
		`!state.n`:                         `no such overload`,
		`state.n && true`:                  `no such overload`,
		`-state.x`:                         `no such overload: -_`,
		`1 / 0`:                            `1:3: division by zero`,
		`1 % 0`:                            `modulus by zero`,
		`1.5 % 0`:                          `modulus by zero`,
		`9223372036854775807 + 1`:          `integer overflow`,
		`-9223372036854775808 - 1`:         `integer overflow`,
		`9223372036854775807`:              `result: integer 9223372036854775807 is outside`,
		`9007199254740993`:                 `not exact as a double`,
		`1.0 / 0`:                          `result: +Inf is not a JSON number`,
		`0.0 / 0`:                          `result: NaN is not a JSON number`,
		`9007199254740993u`:                `result: uint`,
		`{b"x": 1} == {}`:                  `bytes cannot be a key`,
		`{0.0 / 0.0: 1} == {}`:             `double cannot be a key`,
		`{[1]: 1}.size()`:                  `list cannot be a key`,
		`state[null]`:                      `cannot be a key`,
		`b"x"`:                             `result: bytes has no JSON form`,
		`type(1)`:                          `result: type has no JSON form`,
		`state.?n`:                         `result: optional_type has no JSON form`,
		`[optional.none()]`:                `result: optional_type has no JSON form`,
		`{1: 2}`:                           `result: a key is int, not a string`,
		`state.m.map(k, k)[2]`:             `index out of bounds`,
		`[1, 2].map(x, x / 0)`:             `1:17: division by zero`,
		`state.x.matches("(")`:             `pattern: error parsing regexp`,
		`state.x.matches(state.x + "(")`:   `pattern: error parsing regexp`,
		`now.getHours("Europe/Berlin")`:    `time zone "Europe/Berlin"`,
		`now.getHours("Local")`:            `time zone "Local"`,
		`now.getFullYear("../etc/passwd")`: `time zone`,
		`now.getHours("+99:00")`:           `99`,
		`timestamp("2026-01-02")`:          `invalid RFC 3339`,
	} {
		got, err := eval(t, source)
		var e *expr.Error
		if assert.ErrorAs(t, err, &e, "%s: %v", source, got) {
			assert.Equal(t, expr.CodeExpression, e.Code, source)
			assert.Contains(t, err.Error(), want, source)
		}
	}
	_, err := eval(t, "1 +\n state.q")
	assert.EqualError(t, err, "2:7: no such key: q")
}

func TestCompileFails(t *testing.T) {
	for source, want := range map[string]expr.Error{
		`1 +`:                      {Code: expr.CodeSyntax, Line: 1, Column: 4},
		``:                         {Code: expr.CodeSyntax, Line: 1, Column: 1},
		"1 ==\n\n 2 = 3":           {Code: expr.CodeSyntax, Line: 3, Column: 4},
		`foo`:                      {Code: expr.CodeUnknownVariable, Name: "foo", Line: 1, Column: 1},
		`state.n + foo.x`:          {Code: expr.CodeUnknownVariable, Name: "foo", Line: 1, Column: 11},
		`[1].map(x, y)`:            {Code: expr.CodeUnknownVariable, Name: "y", Line: 1, Column: 12},
		`[1].map(x, x) + x`:        {Code: expr.CodeUnknownVariable, Name: "x", Line: 1, Column: 17},
		`now()`:                    {Code: expr.CodeType, Line: 1, Column: 4},
		`random()`:                 {Code: expr.CodeType, Line: 1, Column: 7},
		`state.n.foo()`:            {Code: expr.CodeType, Line: 1, Column: 12},
		`1 + "a"`:                  {Code: expr.CodeType, Line: 1, Column: 3},
		`1 < "a"`:                  {Code: expr.CodeType, Line: 1, Column: 3},
		`google.protobuf.Struct{}`: {Code: expr.CodeType, Line: 1, Column: 23},
		`@ordered(1)`:              {Code: expr.CodeSyntax, Line: 1, Column: 1},
	} {
		_, err := expr.Compile(source, names, expr.Limits{})
		var e *expr.Error
		if assert.ErrorAs(t, err, &e, source) {
			got := *e
			got.Message = ""
			assert.Equal(t, want, got, "%s: %v", source, err)
		}
	}
}

func TestEvalBool(t *testing.T) {
	for source, want := range map[string]bool{"state.n == 3": true, "state.n > 3": false, "state.t": true} {
		p, err := expr.Compile(source, names, expr.Limits{})
		require.NoError(t, err)
		got, err := p.EvalBool(vars())
		require.NoError(t, err)
		assert.Equal(t, want, got, source)
	}
	for _, source := range []string{`state.n`, `"true"`, `null`, `state.q`, `state.z`, `[]`, `state.?t`} {
		p, err := expr.Compile(source, names, expr.Limits{})
		require.NoError(t, err)
		_, err = p.EvalBool(vars())
		var e *expr.Error
		require.ErrorAs(t, err, &e, source)
		assert.Equal(t, expr.CodeExpression, e.Code)
	}
}

func TestEvalTime(t *testing.T) {
	for source, want := range map[string]string{
		`now`:                         "2026-01-02T02:04:05.678Z",
		`now + duration("1h")`:        "2026-01-02T03:04:05.678Z",
		`input.when`:                  "2026-01-02T03:04:05.678Z",
		`"2026-01-02T03:04:05+02:00"`: "2026-01-02T01:04:05Z",
	} {
		p, err := expr.Compile(source, names, expr.Limits{})
		require.NoError(t, err)
		got, err := p.EvalTime(vars())
		require.NoError(t, err, source)
		assert.Equal(t, want, got.Format(time.RFC3339Nano), source)
		assert.Equal(t, time.UTC, got.Location())
	}
	for _, source := range []string{`1`, `"yesterday"`, `null`, `state.q`, `duration("1h")`, `"2026-01-02T03:04:05,5Z"`} {
		p, err := expr.Compile(source, names, expr.Limits{})
		require.NoError(t, err)
		_, err = p.EvalTime(vars())
		assert.Error(t, err, source)
	}
}

func TestReferences(t *testing.T) {
	for source, want := range map[string]string{
		`1`:                                     ``,
		`state`:                                 `state`,
		`state.a.b + state.a.b`:                 `state.a.b`,
		`has(state.a.b)`:                        `state.a.b`,
		`state.?a[?"b"].orValue(input["c"].d)`:  `input.c.d state.a.b`,
		`state[input.k].x`:                      `input.k state`,
		`state.l[0].x`:                          `state.l`,
		`state.l.map(x, x.y + input.n)`:         `input.n state.l`,
		`state.l.map(input, input.y)`:           `state.l`,
		`state.l.map(input, input.y) + input.q`: `input.q state.l`,
		`cel.bind(x, state.a, x.b)`:             `state.a`,
		`cel.bind(state, state.a, state.b)`:     `state.a`,
		`{"k": state.v, input.k: [now]}`:        `input.k now state.v`,
		`state.a.size() + size(state.b)`:        `state.a state.b`,
		`[1].exists(k, v, k == state.n)`:        `state.n`,
		`state.?a.optMap(v, v.c + input.d)`:     `input.d state.a`,
	} {
		p, err := expr.Compile(source, names, expr.Limits{})
		require.NoError(t, err, source)
		var got []string
		for _, chain := range p.References() {
			got = append(got, strings.Join(chain, "."))
		}
		assert.Equal(t, want, strings.Join(got, " "), source)
		assert.Equal(t, source, p.Source())
	}
}

func TestVariableWithoutValue(t *testing.T) {
	p, err := expr.Compile("input.n", []string{"input", "input"}, expr.Limits{})
	require.NoError(t, err)
	_, err = p.Eval(expr.Map{})
	assert.ErrorContains(t, err, "no such attribute")
}

func TestPlainResultsAreShared(t *testing.T) {
	v := vars()
	p, err := expr.Compile("state", names, expr.Limits{})
	require.NoError(t, err)
	got, err := p.Eval(v)
	require.NoError(t, err)
	assert.True(t, value.Equal(v["state"], got))

	small, err := expr.Compile("state", names, expr.Limits{Bytes: value.Size(got) - 1})
	require.NoError(t, err)
	_, err = small.Eval(v)
	assert.ErrorContains(t, err, "celBytes")
	exact, err := expr.Compile("state", names, expr.Limits{Bytes: value.Size(got)})
	require.NoError(t, err)
	_, err = exact.Eval(v)
	assert.NoError(t, err)
}

// An object of the variables that holds instants, as run does, is made plain wherever an expression returns it whole: a plan with an
// instant in it panicked, and the run was set aside.
func TestObjectsWithInstants(t *testing.T) {
	vars := expr.Map{"run": map[string]any{"id": "r", "startedAt": time.Unix(0, 0)}}
	plain := map[string]any{"id": "r", "startedAt": "1970-01-01T00:00:00Z"}
	for source, want := range map[string]any{
		"run": plain, "[run]": []any{plain}, "{'a': run}": map[string]any{"a": plain}, "[[run]].flatten()": []any{plain},
		"optional.of(run).orValue({})": plain, "[run, run].sortBy(x, x.id)": []any{plain, plain}, "run.startedAt - duration('1s')": "1969-12-31T23:59:59Z",
	} {
		p, err := expr.Compile(source, []string{"run"}, expr.Limits{})
		require.NoError(t, err)
		have, err := p.Eval(vars)
		require.NoError(t, err, source)
		require.Equal(t, want, have, source)
	}
}
