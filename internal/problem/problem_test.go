package problem_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/definition.md has each code: those of warnings in the paragraph that says what they are about, the others in a table.
func TestCodesAreDocumented(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var codes, warnings []string
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		code, err := strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		if strings.HasPrefix(s.Comment.Text(), "warning: ") {
			warnings = append(warnings, code)
		} else {
			codes = append(codes, code)
		}
		return true
	})
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "definition.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(data), " Warnings do not:")
	require.True(t, found)
	paragraph, _, _ := strings.Cut(rest, "\n")
	require.ElementsMatch(t, warnings, codesIn(regexp.MustCompile("\\(`([a-z_]+)`\\)"), paragraph))
	_, table, found := strings.Cut(string(data), "\n## Codes of problems\n")
	require.True(t, found)
	_, table, _ = strings.Cut(table, "|---|---|\n")
	require.ElementsMatch(t, codes, codesIn(regexp.MustCompile("`([a-z_]+)`"), table))
}

func codesIn(form *regexp.Regexp, text string) (out []string) {
	for _, m := range form.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return slices.Compact(out)
}
