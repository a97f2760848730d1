package pawl_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every type of event can be named without package decision: EventTaskFailed is
// decision.TaskFailed.
func TestEveryEventTypeIsExported(t *testing.T) {
	var want []string
	for _, v := range constants(t, "decision/event.go") {
		want = append(want, "Event"+v.Names[0].Name+" = "+v.Names[0].Name)
	}
	require.Greater(t, len(want), 30)
	var got []string
	for _, v := range constants(t, "event.go") {
		got = append(got, v.Names[0].Name+" = "+v.Values[0].(*ast.SelectorExpr).Sel.Name)
	}
	require.ElementsMatch(t, want, got)
}

// constants returns what a file declares as constants.
func constants(t *testing.T, path string) []*ast.ValueSpec {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	var out []*ast.ValueSpec
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				out = append(out, s.(*ast.ValueSpec))
			}
		}
	}
	return out
}
