package lint

import (
	"go/ast"
	"go/token"
)

// checkGlobals refuses init functions and changes to package variables: what a
// pure package does depends on its arguments alone.
func checkGlobals(t *tree, p *pkg) {
	globals := map[string]bool{}
	for _, f := range p.files {
		for _, decl := range f.Decls {
			for _, name := range variables(decl) {
				globals[name.Name] = true
			}
		}
	}
	for _, f := range p.files {
		locals := localNames(f)
		ast.Inspect(f.File, func(n ast.Node) bool {
			if fn, ok := n.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.report(f, fn.Pos(), "pure", "an init function")
			}
			for _, changed := range changes(n) {
				if x := root(changed); x != nil && x.Name != "_" && globals[x.Name] && !locals[x] {
					t.report(f, x.Pos(), "pure", "the package variable %s is changed", x.Name)
				}
			}
			return true
		})
	}
}

// variables returns the names that a declaration of package variables makes.
func variables(decl ast.Decl) []*ast.Ident {
	gen, ok := decl.(*ast.GenDecl)
	if !ok || gen.Tok != token.VAR {
		return nil
	}
	var names []*ast.Ident
	for _, spec := range gen.Specs {
		names = append(names, spec.(*ast.ValueSpec).Names...)
	}
	return names
}

// localNames returns the identifiers of f that stand for something declared in
// a function. The parser resolves these, and only these, to a declaration that
// is not at the top of the file.
func localNames(f *file) map[*ast.Ident]bool {
	locals := map[*ast.Ident]bool{}
	ast.Inspect(f.File, func(n ast.Node) bool {
		if x, ok := n.(*ast.Ident); ok && x.Obj != nil && f.Scope.Lookup(x.Name) != x.Obj {
			locals[x] = true
		}
		return true
	})
	return locals
}

// changes returns the expressions that a statement assigns to, counts up or
// down, or deletes from.
func changes(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.CallExpr:
		fn, ok := n.Fun.(*ast.Ident)
		if ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
			return n.Args[:1]
		}
	}
	return nil
}

// root returns the identifier at the start of x, of x.f, x[i] and *x.
func root(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return root(e.X)
	case *ast.IndexExpr:
		return root(e.X)
	case *ast.StarExpr:
		return root(e.X)
	case *ast.ParenExpr:
		return root(e.X)
	default:
		return nil
	}
}
