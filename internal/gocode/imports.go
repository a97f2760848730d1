package gocode

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// formatFile returns a file: its head, which ends with the package clause, those imports from which its declarations select something,
// and the declarations. The imports of the standard library stand before others.
func formatFile(head string, imports []string, declarations string) ([]byte, error) {
	used, err := packagesIn(declarations)
	if err != nil {
		return nil, err
	}
	var standard, others strings.Builder
	for _, path := range imports {
		group := &standard
		if strings.Contains(path, ".") {
			group = &others
		}
		if used[path[strings.LastIndexByte(path, '/')+1:]] {
			fmt.Fprintf(group, "%q\n", path)
		}
	}
	groups := slices.DeleteFunc([]string{standard.String(), others.String()}, func(s string) bool { return s == "" })
	return format.Source([]byte(head + "\nimport (\n" + strings.Join(groups, "\n") + ")\n" + declarations))
}

// packagesIn returns the names that declarations select from. No local name is called as a package.
func packagesIn(declarations string) (map[string]bool, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+declarations, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if name, ok := s.X.(*ast.Ident); ok {
				used[name.Name] = true
			}
		}
		return true
	})
	return used, nil
}
