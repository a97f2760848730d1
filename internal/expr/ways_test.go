package expr

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// String writes a Way so that one sees how it was taken apart.
func (w Way) String() string {
	join := func(name string, parts []Way) string {
		texts := make([]string, len(parts))
		for i := range parts {
			texts[i] = parts[i].String()
		}
		return name + "(" + strings.Join(texts, ", ") + ")"
	}
	switch {
	case w.Choice != nil:
		return join("choice", w.Choice)
	case w.Either != nil:
		return join("either", w.Either)
	case w.Chooses:
		return "chooses " + w.Source
	}
	return w.Source
}

// An expression is taken apart where values choose, however it is written: literals and comments may have the signs of operators.
func TestFindWays(t *testing.T) {
	c := NewCompiler(Limits{})
	for source, want := range map[string]string{
		`a + 1`:                         `a + 1`,
		`a ? b : c ? d : e`:             `choice(a, b, choice(c, d, e))`,
		`(a ? b : c) ? d : e`:           `choice(choice(a, b, c), d, e)`,
		`a && b && c || d`:              `either(either(a, b, c), d)`,
		`a || b || c || d || e`:         `either(a, b, c, d, e)`,
		`f == "?" && g == '\'||'`:       `either(f == "?", g == "'||")`,
		"a // ? and :\n && b":           `either(a, b)`,
		`"""a ? b"""`:                   `"a ? b"`,
		`x.all(i, i > 1)`:               `x.all(i, i > 1)`,
		`x.all(i, i > 1 || i < 0)`:      `chooses x.all(i, i > 1 || i < 0)`,
		`x.map(i, i ? 1 : 2)`:           `chooses x.map(i, i ? 1 : 2)`,
		`size(a ? b : c)`:               `chooses size(a ? b : c)`,
		`[1, {"k": a && b}]`:            `chooses [1, {"k": a && b}]`,
		`(a ? b : c).d`:                 `chooses (a ? b : c).d`,
		`a.?b.orValue(1)`:               `chooses a.?b.orValue(1)`,
		`has(a.b) && a.b > 1`:           `either(has(a.b), a.b > 1)`,
		"a.`n-x` + 1":                   "chooses a.n-x + 1",
		`(-a).b`:                        `chooses -a.b`,
		`[1, 'a'][a] + 1`:               `chooses [1, "a"][a] + 1`,
		`[?a] + b`:                      `chooses [?a] + b`,
		`size({?"k": a})`:               `chooses size({?"k": a})`,
		`a[b] + 1`:                      `a[b] + 1`,
		`cel.bind(y, a, y ? 1 : 2) + 1`: `chooses cel.bind(y, a, y ? 1 : 2) + 1`,
	} {
		way, err := c.FindWays(source)
		require.NoError(t, err, source)
		require.Equal(t, want, way.String(), source)
		require.Equal(t, want == way.Source && !strings.HasPrefix(want, "chooses"), way.IsWhole(), source)
	}
	_, err := c.FindWays(`a ?`)
	require.Error(t, err)
}
