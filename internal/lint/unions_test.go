package lint

import (
	"go/ast"
	"slices"
)

// checkUnions demands that the table of each sealed union lists every type
// that has its method, so that the codec and all tests that range over the
// table cover a new variant from its first day.
func checkUnions(t *tree) {
	for _, u := range unions {
		p := t.find(u.pkg)
		if p == nil {
			continue
		}
		listed := tableOf(p, u.table)
		for _, f := range p.files {
			for _, decl := range f.Decls {
				d, ok := decl.(*ast.FuncDecl)
				if !ok || d.Recv == nil || d.Name.Name != u.method {
					continue
				}
				if name := receiver(d); name != nil && !slices.Contains(listed, name.Name) {
					t.report(f, d.Pos(), "union", "%s.%s lacks %s", u.pkg, u.table, name.Name)
				}
			}
		}
	}
}

// tableOf returns the types of the elements of a package variable.
func tableOf(p *pkg, table string) []string {
	var listed []string
	for _, f := range p.files {
		for _, decl := range f.Decls {
			for _, e := range elements(decl, table) {
				if name := variant(e); name != nil {
					listed = append(listed, name.Name)
				}
			}
		}
	}
	return listed
}

// elements returns the elements of the list that decl assigns to table.
func elements(decl ast.Decl, table string) []ast.Expr {
	gen, ok := decl.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, spec := range gen.Specs {
		s, ok := spec.(*ast.ValueSpec)
		if !ok || len(s.Names) != 1 || s.Names[0].Name != table || len(s.Values) != 1 {
			continue
		}
		if list, ok := s.Values[0].(*ast.CompositeLit); ok {
			return list.Elts
		}
	}
	return nil
}

// variant returns T of T{} and &T{}.
func variant(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		return variant(e.X)
	case *ast.CompositeLit:
		return typeName(e.Type)
	default:
		return nil
	}
}
