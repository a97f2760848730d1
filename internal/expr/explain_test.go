package expr

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each message says what was found and what would be right.
func TestMessages(t *testing.T) {
	there := "; there are count, input, result, state"
	for source, want := range map[string]string{
		"POST":                   `1:1: unknown variable POST; a text needs quotes of its own: "'POST'"` + there,
		"https://x.org/a?b":      `1:6: https://x.org/a?b is not an expression: a text needs quotes of its own: "'https://x.org/a?b'"`,
		"hello big world":        `1:7: hello big world is not an expression: a text needs quotes of its own: "'hello big world'"`,
		"/etc/hosts":             `1:1: /etc/hosts is not an expression: a text needs quotes of its own: "'/etc/hosts'"`,
		"ann@example.org":        `1:4: ann@example.org is not an expression: a text needs quotes of its own: "'ann@example.org'"`,
		"inptu.name":             "1:1: unknown variable inptu; did you mean input?",
		"Input.name":             "1:1: unknown variable Input; did you mean input?",
		"inptu.contains('x')":    "1:15: unknown variable inptu; did you mean input?",
		"{a: 1}":                 "1:2: unknown variable a" + there,
		"input.a = 1":            "1:9: = is not an operator: == compares",
		"input.a === 1":          "1:11: = is not an operator: == compares",
		"input.a and input.b":    "1:9: and is not an operator: write &&",
		"input.a &&":             `1:11: the expression ends too early: something is missing behind "&&"`,
		"(1 + 2":                 "1:7: ) is missing",
		"1 + 2)":                 "1:6: ) is out of place here",
		"'abc":                   "1:1: the text that begins with 'abc has no closing quote",
		"input.a # 2":            "1:9: # has no meaning in an expression",
		"count.b->a":             `1:9: b->a is no name: write count["b->a"]`,
		"sets.sum([1])":          "1:1: unknown function sets.sum; of sets there are contains, equivalent, intersects",
		"json.encode(input)":     "1:1: unknown function json.encode, and neither is json a variable",
		"regex.extract('a','b')": "1:1: unknown function regex.extract, and neither is regex a variable",
		"sizee(input)":           "1:6: unknown function sizee; did you mean size?",
		"input.nosuch()":         "1:13: unknown function nosuch",
	} {
		_, err := NewCompiler(Limits{}).Compile(source, []string{"input", "state", "count", "result"})
		require.EqualError(t, err, want, source)
	}
}

// The functions of a namespace that are expanded as they are parsed are named as well.
func TestMessageNamesFunctionsOfMath(t *testing.T) {
	_, err := NewCompiler(Limits{}).Compile("math.sum([1])", nil)
	require.ErrorContains(t, err, "unknown function math.sum; of math there are abs, ")
	require.ErrorContains(t, err, "greatest")
	for _, name := range functionNames() {
		require.NotContains(t, name, "@")
	}
}
