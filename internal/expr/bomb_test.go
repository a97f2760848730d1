package expr_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// bind nests n bindings: x0 is start, each next one is step of the one before,
// and body is evaluated inside.
func bind(n int, start, step, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cel.bind(x0, %s, ", start)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "cel.bind(x%d, %s, ", i, strings.ReplaceAll(step, "x", fmt.Sprintf("x%d", i-1)))
	}
	b.WriteString(strings.ReplaceAll(body, "x", fmt.Sprintf("x%d", n)))
	b.WriteString(strings.Repeat(")", n+1))
	return b.String()
}

// nest nests n macros over the list l.
func nest(n int, macro, body string) string {
	for i := range n {
		body = fmt.Sprintf("l.%s(v%d, %s)", macro, i, body)
	}
	return body
}

// bombs are small and want to be large, or to take for ever.
var bombs = map[string]string{
	"nested map":              nest(8, "map", "1"),
	"nested filter":           strings.Repeat("l.filter(v, size(", 8) + "l" + strings.Repeat(") > 0)", 8),
	"nested all":              nest(8, "all", "true"),
	"nested exists":           nest(8, "exists", "false"),
	"nested transformList":    strings.Repeat("l.transformList(i, v, ", 7) + "1" + strings.Repeat(")", 7),
	"map over a large map":    "m.map(k, m.map(j, m.map(h, h + j)))",
	"string doubling":         bind(60, `"0123456789"`, "x + x", "size(x)"),
	"list doubling":           bind(60, `[1]`, "x + x", "size(x)"),
	"bytes doubling":          bind(60, `b"0123456789"`, "x + x", "size(x)"),
	"shared lists compared":   bind(40, "[1]", "[x, x]", "[x, x, 1] == [x, x, 2]"),
	"shared lists equal":      bind(40, "[1]", "[x, x]", "x == x"),
	"shared lists in":         bind(40, "[1]", "[x, x]", "[x] in [[1], x, [x]]"),
	"shared maps compared":    bind(40, "{'a': 1}", "{'a': x, 'b': x}", "x == x"),
	"shared lists as result":  bind(40, "[1]", "[x, x]", "x"),
	"shared maps as result":   bind(40, "{'a': 1}", "{'a': x, 'b': x}", "x"),
	"shared lists flattened":  bind(40, "[1]", "[x, x]", "x.flatten(50)"),
	"shared lists formatted":  bind(40, "[1]", "[x, x]", "'%s'.format([x])"),
	"shared lists distinct":   bind(40, "[1]", "[x, x]", "[x, [x]].distinct()"),
	"shared lists as sets":    bind(40, "[1]", "[x, x]", "sets.equivalent([x], [x])"),
	"shared optional":         bind(40, "[1]", "[x, x]", "optional.of(x).hasValue(x)"),
	"map types":               bind(40, "{1: 1}", "{x: x}", "x == x"),
	"list range":              "lists.range(9000000000000000000)",
	"nested ranges":           "lists.range(100000).map(x, lists.range(100000))",
	"range of ranges":         "lists.range(3000).map(x, lists.range(3000))",
	"replace grows":           bind(20, `"aaaaaaaa"`, `x.replace("a", "aaaaaaaa")`, "size(x)"),
	"replace nothing":         bind(20, `"aaaaaaaa"`, `x.replace("", x)`, "size(x)"),
	"replace by large":        "l.map(x, big.replace('', big))",
	"join":                    "l.map(x, lists.range(100000).map(y, big).join(big))",
	"split":                   "l.map(x, big.split(''))",
	"reverse":                 "lists.range(100000).map(x, big.reverse())",
	"size of large":           "lists.range(100000).map(x, big.size())",
	"compare large":           "lists.range(100000).map(x, big < big)",
	"equal large":             "lists.range(100000).map(x, big == big + '')",
	"index of":                "l.map(x, big.indexOf(big.substring(1)))",
	"last index of":           "l.map(x, big.lastIndexOf('ab' + big.substring(10)))",
	"large key":               "lists.range(100000).map(x, m[big])",
	"large optional key":      "lists.range(100000).map(x, m[?big].orValue(0))",
	"large key in literal":    "lists.range(100000).map(x, {big: 1})",
	"large key in":            "lists.range(100000).map(x, big in m)",
	"sort":                    "l.map(x, lists.range(200000).reverse().sort())",
	"sort by":                 "l.map(x, lists.range(60000).sortBy(y, -y))",
	"distinct":                "lists.range(60000).distinct()",
	"sets":                    "sets.contains(lists.range(20000), lists.range(20000))",
	"membership":              "lists.range(20000).filter(x, x in lists.range(20000))",
	"regexp":                  `l.map(x, big.matches("(a*)*(b*)*(c|d|e|f)*(x{1,100}y{1,10})*$"))`,
	"regexp repeat":           `big.matches("(a{1,30}){1,30}(a{1,30}){1,30}(a{1,30}){1,30}")`,
	"regexp grows":            bind(40, `"(a?b*)*"`, "x + x", "big.matches(x)"),
	"regexp alternatives":     `"a".matches("` + strings.Repeat("a{999}|", 140) + `")`,
	"format precision":        `"%.1000000000f".format([1.5])`,
	"format many":             "l.map(x, '%s%s%s%s'.format([big, big, big, m]))",
	"base64":                  bind(60, `b"0123456789"`, "bytes(base64.encode(x))", "size(x)"),
	"quote":                   "l.map(x, lists.range(1000).map(y, strings.quote(big)))",
	"optMap chain":            "optional.of(1)" + strings.Repeat(".optMap(x, x + 1)", 90),
	"optFlatMap chain":        "optional.of(l)" + strings.Repeat(".optFlatMap(x, optional.of(x))", 60),
	"transformMapEntry":       "m.transformMapEntry(k, v, m)",
	"deep result":             bind(90, "[1]", "[[x]]", "x"),
	"deep parentheses":        strings.Repeat("(", 8000) + "1" + strings.Repeat(")", 8000),
	"deep lists":              strings.Repeat("[", 8000) + strings.Repeat("]", 8000),
	"deep maps":               strings.Repeat("{1:", 5000) + "1" + strings.Repeat("}", 5000),
	"deep not":                strings.Repeat("!", 16000) + "true",
	"deep minus":              strings.Repeat("-(", 5000) + "1" + strings.Repeat(")", 5000),
	"deep conditional":        strings.Repeat("true ? 1 : ", 1400) + "x",
	"deep index":              "l" + strings.Repeat("[0", 5000) + strings.Repeat("]", 5000),
	"deep calls":              strings.Repeat("size(", 3000) + "l" + strings.Repeat(")", 3000),
	"long select":             "m" + strings.Repeat(".a", 8000),
	"long sum":                "1" + strings.Repeat("+1", 8000) + "+'a'",
	"long or":                 "false" + strings.Repeat("||false", 2300) + "||1",
	"many macros":             "[" + strings.Repeat("l.map(x,x),", 1400) + "1]",
	"open brackets":           strings.Repeat("[(", 8000),
	"noise":                   strings.Repeat("a.?[?:&&", 2000),
	"many errors":             strings.Repeat("1 1 ", 4000),
	"long source":             "'" + strings.Repeat("a", 1<<20) + "'",
	"large result":            "lists.range(60).map(x, big)",
	"doubling in a macro":     "l.map(x, l.map(y, l.map(z, big + big)))",
	"sorted maps again":       "lists.range(100000).map(x, m.exists(k, true))",
	"map literals again":      "lists.range(100000).map(x, {'a': 1, 'b': 2, 'c': 3}.map(k, k))",
	"concatenation in a loop": "lists.range(100000).map(x, l + l)",
}

// exemptions are those of the bombs that are small after all.
var exemptions = map[string]bool{"optMap chain": true, "optFlatMap chain": true, "map types": true, "deep not": true}

func bombVars() expr.Map {
	l := make([]any, 100)
	m := map[string]any{}
	for i := range l {
		l[i] = int64(i)
	}
	for i := range 1000 {
		m[fmt.Sprintf("key%d", i)] = int64(i)
	}
	return expr.Map{"l": l, "m": m, "big": strings.Repeat("ab", 1<<19)}
}

// All bombs end with an eighth of the default cost, and above quick runs with all of it too: at the gate, half of them a day.
func TestBombsEndInAnError(t *testing.T) {
	vars, names := bombVars(), slices.Sorted(maps.Keys(bombs))
	for _, name := range names {
		checkBomb(t, name, vars, expr.DefaultCost/8)
	}
	if harness.CurrentLevel() == harness.Quick {
		return
	}
	for _, name := range harness.SampleOfDay(t, harness.Figure(1, 2, 1), names) {
		checkBomb(t, name, vars, expr.DefaultCost)
	}
}

func checkBomb(t *testing.T, name string, vars expr.Vars, cost uint64) {
	start := processorTime(t)
	err := explode(bombs[name], vars, cost)
	took := processorTime(t) - start
	if !exemptions[name] {
		var e *expr.Error
		if assert.ErrorAs(t, err, &e, name) {
			assert.NotContains(t, e.Message, "internal error", name)
			assert.Less(t, len(e.Message), 1000, name)
		}
	}
	t.Logf("%-24s %9d %8s %v", name, cost, took.Round(time.Millisecond), err)
	// Each takes well below 200 ms on an idle core. An unbounded one takes
	// for ever, and this machine may be busy and the race detector on.
	assert.Less(t, took, 20*time.Second, name)
}

func explode(source string, vars expr.Vars, cost uint64) error {
	p, err := expr.Compile(source, []string{"l", "m", "big"}, expr.Limits{Cost: cost})
	if err != nil {
		return err
	}
	_, err = p.Eval(vars)
	return err
}

func TestLimitsAreNamed(t *testing.T) {
	vars := bombVars()
	for source, limit := range map[string]string{
		bombs["nested map"]:                                expr.LimitCost,
		bombs["long source"]:                               expr.LimitSource,
		bombs["large result"]:                              expr.LimitBytes,
		bombs["deep result"]:                               expr.LimitDepth,
		bombs["deep parentheses"]:                          expr.LimitNesting,
		bombs["long sum"]:                                  expr.LimitNesting,
		bombs["many macros"]:                               expr.LimitNodes,
		bombs["regexp repeat"]:                             expr.LimitRegexp,
		"'a'.matches('" + strings.Repeat("a", 2000) + "')": expr.LimitPattern,
	} {
		err := explode(source, vars, harness.Figure[uint64](expr.DefaultCost/8, expr.DefaultCost, expr.DefaultCost))
		var e *expr.Error
		require.ErrorAs(t, err, &e, "%.40s", source)
		assert.Equal(t, expr.CodeLimit, e.Code, "%.40s", source)
		assert.Equal(t, limit, e.Limit, "%.40s", source)
		assert.NotZero(t, e.Max, "%.40s", source)
	}
}
