package lint

import (
	"go/ast"
	"go/token"
)

// checkSizes bounds functions and files that are not tests.
func checkSizes(t *tree) {
	for _, p := range t.packages {
		for _, f := range p.files {
			if n := t.fset.File(f.FileStart).LineCount(); n > maxFile {
				t.reportAt(f.path, "size", "the file has %d lines, at most %d", n, maxFile)
			}
			checkFunctionSizes(t, f)
		}
	}
}

func checkFunctionSizes(t *tree, f *file) {
	line := func(pos token.Pos) int { return t.fset.Position(pos).Line }
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := line(d.End()) - line(d.Pos()) + 1; n > maxFunction {
			t.report(f, d.Pos(), "size", "%s has %d lines, at most %d", d.Name.Name, n, maxFunction)
		}
	}
}
