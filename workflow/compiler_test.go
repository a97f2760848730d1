package workflow

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/limits"
)

// TestNamesOfElements: whatever may name an element is a variable, beside the
// functions and types of the same name, and changes no other expression.
func TestNamesOfElements(t *testing.T) {
	for _, name := range []string{
		"quote", "x1", "_x", "X", "size", "has", "all", "exists", "map_", "filter", "matches", "timestamp", "duration", "getHours",
		"contains", "ordered", "key", "bind", "self", "this", "accu", "result_", "greatest", "encode", "split", "slice", "flatten",
	} {
		require.Empty(t, variableProblem(name), name)
		c := newCompiler(&Definition{Transitions: []Transition{{Foreach: &Foreach{Collection: "input.list", As: name}}}})
		for _, source := range []string{
			name, name + ".x == 1", `size(input.list) > 1 && has(input.a) && input.list.all(e, e > 1)`,
			`timestamp("2024-01-01T00:00:00Z") < now + duration("1h")`, `math.greatest(1, 2) == 2 && "a,b".split(",").size() == 2`,
		} {
			_, err := c.compileSource(source)
			require.NoError(t, err, "%s with the variable %s", source, name)
		}
	}
	for _, name := range append(append([]string{"", "1x", "a b", "a.b", "é", "__x"}, reserved...), variables...) {
		require.NotEmpty(t, variableProblem(name), name)
	}
}

func TestCompilerCompilesOnce(t *testing.T) {
	c := newCompiler(&Definition{})
	one, err := c.compileSource("input.x")
	require.NoError(t, err)
	two, err := c.compileSource("input.x")
	require.NoError(t, err)
	require.Same(t, one, two)
}

// TestLimitsOfExpressions come from the definition.
func TestLimitsOfExpressions(t *testing.T) {
	d := &Definition{Name: "x", Start: "a", Nodes: []Node{{ID: "a", Task: "t", Input: map[string]string{"x": string(make([]byte, limits.MaxExpression+1))}}}}
	require.ErrorContains(t, d.Validate(), "celSource exceeds the limit of 16384")
}
