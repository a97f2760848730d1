package expr

import (
	"strings"
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
		"state.in":               `1:7: in is a word of the language: as a field it is written state["in"]`,
		"input.a.in + 1":         `1:9: in is a word of the language: as a field it is written input.a["in"]`,
		"state.?in.orValue(1)":   `1:8: in is a word of the language: as a field it is written state[?"in"]`,
		"has(state.in)":          `1:11: in is a word of the language: as a field it is written state["in"]`,
		"input.x in state. in":   `1:19: in is a word of the language: as a field it is written state["in"]`,
		"size(result).in":        `1:14: in is a word of the language: as a field it is written ["in"]`,
		"state.true":             `1:7: true is a word of the language: as a field it is written state["true"]`,
		"state.false":            `1:7: false is a word of the language: as a field it is written state["false"]`,
		"state.null":             `1:7: null is a word of the language: as a field it is written state["null"]`,
		"in":                     "1:1: in is out of place here",
		"for":                    "1:1: for is a word that the language reserves, and no variable: a field of that name is written behind its section, as state.for",
		"sizee(input)":           "1:6: unknown function sizee; did you mean size?",
		"input.nosuch()":         "1:13: unknown function nosuch",
	} {
		_, err := NewCompiler(Limits{}).Compile(source, []string{"input", "state", "count", "result"})
		require.EqualError(t, err, want, source)
	}
}

// The other words that the language reserves may be fields behind a dot, and what a hint says can be written.
func TestReservedWordsAsFields(t *testing.T) {
	data := Map{"state": map[string]any{}}
	words := strings.Fields("as break const continue else for function if import let loop namespace package return var void while")
	for _, word := range words {
		data["state"].(map[string]any)[word] = word
		p, err := NewCompiler(Limits{}).Compile("state."+word, []string{"state"})
		require.NoError(t, err, word)
		v, err := p.Eval(data)
		require.NoError(t, err, word)
		require.Equal(t, word, v)
		_, err = NewCompiler(Limits{}).Compile(word, []string{"state"})
		require.ErrorContains(t, err, word+" is a word that the language reserves")
	}
	for _, word := range []string{"in", "true", "false", "null"} {
		data["state"].(map[string]any)[word] = word
		for _, source := range []string{`state["` + word + `"]`, `state[?"` + word + `"].orValue("")`} {
			p, err := NewCompiler(Limits{}).Compile(source, []string{"state"})
			require.NoError(t, err, source)
			v, err := p.Eval(data)
			require.NoError(t, err, source)
			require.Equal(t, word, v)
		}
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
