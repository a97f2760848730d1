package expr

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEqualities(t *testing.T) {
	variables := []string{"a", "b", "m"}
	for source, want := range map[string][]Equality{
		`a == "x"`: {{Chain: []string{"a"}, Texts: []string{"x"}, Line: 1, Column: 3}},
		`true && ("x" == a && m.k["l"] in ["y", "z"]) && b > 1`: {
			{Chain: []string{"a"}, Texts: []string{"x"}, Line: 1, Column: 14}, {Chain: []string{"m", "k", "l"}, Texts: []string{"y", "z"}, Line: 1, Column: 31},
		},
		`a in []`:                       {{Chain: []string{"a"}, Line: 1, Column: 3}},
		`a == "x" || b == "y"`:          nil,
		`!(a == "x")`:                   nil,
		`a == b && a == 1 && m[b] == 2`: nil,
		`a in [b, "x"] && a in m`:       nil,
		`"x" == "y" && c == "z"`:        nil,
		`["x"].all(a, a == "x")`:        nil,
		`a == `:                         nil,
	} {
		require.Equal(t, want, Equalities(source, variables), source)
	}
}
