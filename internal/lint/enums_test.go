package lint

import (
	"go/ast"
	"go/token"
	"slices"
)

// checkEnumerations demands that the list of an enumeration has each constant of its type. Such a list is one of those
// that the variable enumerations of a package names, or what a method Values of the type returns, or the function All of
// its package, in their only statement: return slices.Clone(list).
func checkEnumerations(t *tree) {
	for _, p := range t.packages {
		for name, list := range enumerations(p) {
			listed := namesIn(p, list)
			for _, f := range p.files {
				for _, x := range constantsOf(f, name) {
					if !slices.Contains(listed, x.Name) {
						t.report(f, x.Pos(), "enumeration", "%s.%s lacks %s", p.path, list, x.Name)
					}
				}
			}
		}
	}
}

// enumerations returns the names of the lists, by the types of their elements.
func enumerations(p *pkg) map[string]string {
	out := map[string]string{}
	for _, f := range p.files {
		for _, decl := range f.Decls {
			for _, e := range elements(decl, "enumerations") {
				if list, ok := e.(*ast.Ident); ok {
					out[elementOf(p, list.Name)] = list.Name
				}
			}
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Body == nil || d.Name.Name != "Values" && d.Name.Name != "All" {
				continue
			}
			if name, list := cloned(d); list != nil {
				out[name.Name] = list.Name
			}
		}
	}
	return out
}

// cloned returns T and list of a function whose only statement returns a clone of list as a []T; nil otherwise.
func cloned(d *ast.FuncDecl) (name, list *ast.Ident) {
	if len(d.Body.List) != 1 || d.Type.Results.NumFields() != 1 {
		return nil, nil
	}
	result, isList := d.Type.Results.List[0].Type.(*ast.ArrayType)
	returned, isReturn := d.Body.List[0].(*ast.ReturnStmt)
	if !isList || !isReturn || len(returned.Results) != 1 {
		return nil, nil
	}
	call, isCall := returned.Results[0].(*ast.CallExpr)
	name = typeName(result.Elt)
	if !isCall || len(call.Args) != 1 || name == nil {
		return nil, nil
	}
	list, _ = call.Args[0].(*ast.Ident)
	return name, list
}

// elementOf returns the name of the type of the elements of the list that a package variable is.
func elementOf(p *pkg, list string) string {
	for _, f := range p.files {
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				s := spec.(*ast.ValueSpec)
				if len(s.Names) != 1 || s.Names[0].Name != list || len(s.Values) != 1 {
					continue
				}
				if lit, ok := s.Values[0].(*ast.CompositeLit); ok {
					if array, ok := lit.Type.(*ast.ArrayType); ok {
						return typeName(array.Elt).Name
					}
				}
			}
		}
	}
	return ""
}

// namesIn returns the identifiers in the list that a package variable is.
func namesIn(p *pkg, list string) (out []string) {
	for _, f := range p.files {
		for _, decl := range f.Decls {
			for _, e := range elements(decl, list) {
				if name, ok := e.(*ast.Ident); ok {
					out = append(out, name.Name)
				}
			}
		}
	}
	return out
}

// constantsOf returns the constants of a type that a file declares.
func constantsOf(f *file, name string) (out []*ast.Ident) {
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			s := spec.(*ast.ValueSpec)
			if own := typeName(s.Type); own != nil && own.Name == name {
				out = append(out, s.Names...)
			}
		}
	}
	return out
}
