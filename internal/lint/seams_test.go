package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// processWide are the types of package variables that tests of one engine would share
// with all other engines of the process: a listener, a lock, a number that is swapped.
var processWide = []string{"sync.Mutex", "sync.RWMutex", "sync.Once", "sync.Cond", "sync.Map"}

// checkSeams refuses package variables by which a test, or one engine, could change
// what the other engines of the process do: those that are functions, locks or
// atomics, and those that are assigned to outside their declaration, by tests as
// well. An engine has one seam for tests, its testhook.Hook.
func checkSeams(t *tree) {
	for _, p := range t.packages {
		if p.path == forTests || strings.HasPrefix(p.path, forTests+"/") || strings.HasPrefix(p.path, "examples/") {
			continue
		}
		globals := map[string]bool{}
		for _, f := range p.files {
			for _, decl := range f.Decls {
				for _, name := range variables(decl) {
					globals[name.Name] = true
				}
				checkSeamTypes(t, f, decl)
			}
		}
		for _, f := range slices.Concat(p.files, p.tests) {
			if f.Name.Name == p.sourceName() {
				checkSeamChanges(t, f, globals)
			}
		}
	}
}

// sourceName returns the name of the package that is not a test's, "" without one.
func (p *pkg) sourceName() string {
	if len(p.files) == 0 {
		return ""
	}
	return p.files[0].Name.Name
}

func checkSeamTypes(t *tree, f *file, decl ast.Decl) {
	gen, ok := decl.(*ast.GenDecl)
	if !ok || gen.Tok != token.VAR {
		return
	}
	for _, spec := range gen.Specs {
		s := spec.(*ast.ValueSpec)
		kinds := []ast.Expr{s.Type}
		for _, v := range s.Values {
			if lit, ok := v.(*ast.CompositeLit); ok {
				kinds = append(kinds, lit.Type)
			}
			if _, ok := v.(*ast.FuncLit); ok {
				kinds = append(kinds, v)
			}
		}
		for _, kind := range kinds {
			if isSeam(kind) {
				t.report(f, s.Pos(), "seam", "%s is one for all engines of the process: use testhook.Hook, or a field", s.Names[0].Name)
				break
			}
		}
	}
}

// isSeam reports whether a type, or a value that is a function, is process-wide.
func isSeam(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.FuncType, *ast.FuncLit:
		return true
	case *ast.IndexExpr:
		return isSeam(e.X)
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && (x.Name == "atomic" || slices.Contains(processWide, x.Name+"."+e.Sel.Name))
	default:
		return false
	}
}

func checkSeamChanges(t *tree, f *file, globals map[string]bool) {
	locals := localNames(f)
	ast.Inspect(f.File, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE {
			return true
		}
		for _, changed := range changes(n) {
			if x := root(changed); x != nil && x.Name != "_" && globals[x.Name] && !locals[x] {
				t.report(f, x.Pos(), "seam", "the package variable %s is changed", x.Name)
			}
		}
		return true
	})
}
