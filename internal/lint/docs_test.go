package lint

import (
	"go/ast"
	"go/token"
	"strings"
)

// commonMethods need no comment: the interfaces that they belong to have one.
var commonMethods = map[string]bool{
	"String": true, "Error": true, "Unwrap": true, "Len": true, "Less": true, "Swap": true,
	"Read": true, "Write": true, "Close": true, "ServeHTTP": true,
}

// checkDocs demands a comment on every package and on every exported name.
func checkDocs(t *tree) {
	for _, p := range t.packages {
		if len(p.files) > 0 && !hasPackageComment(p) {
			t.reportAt(p.path, "doc", "the package has no comment that says what it is")
		}
		for _, f := range p.files {
			for _, decl := range f.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					checkFuncDoc(t, f, d)
				case *ast.GenDecl:
					checkGroupDoc(t, f, d)
				}
			}
		}
	}
}

func hasPackageComment(p *pkg) bool {
	for _, f := range p.files {
		start := "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			start = ""
		}
		if f.Doc != nil && strings.HasPrefix(f.Doc.Text(), start) {
			return true
		}
	}
	return false
}

func checkFuncDoc(t *tree, f *file, d *ast.FuncDecl) {
	name := d.Name.Name
	switch {
	case !d.Name.IsExported():
	case d.Recv == nil:
		demandDoc(t, f, d.Name, name, d.Doc)
	case receiver(d) != nil && receiver(d).IsExported() && !commonMethods[name]:
		demandDoc(t, f, d.Name, receiver(d).Name+"."+name, d.Doc)
	}
}

// receiver returns the name of the type that d is a method of.
func receiver(d *ast.FuncDecl) *ast.Ident {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return nil
	}
	return typeName(d.Recv.List[0].Type)
}

func typeName(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ParenExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	default:
		return nil
	}
}

// checkGroupDoc checks types, constants and variables. The constants and
// variables of one group may share the comment of the group.
func checkGroupDoc(t *tree, f *file, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			doc := s.Doc
			if !d.Lparen.IsValid() {
				doc = d.Doc
			}
			if s.Name.IsExported() {
				demandDoc(t, f, s.Name, s.Name.Name, doc)
			}
		case *ast.ValueSpec:
			checkValueDoc(t, f, d, s)
		}
	}
}

func checkValueDoc(t *tree, f *file, d *ast.GenDecl, s *ast.ValueSpec) {
	inGroup := d.Lparen.IsValid()
	if inGroup && (d.Doc != nil || s.Doc != nil || s.Comment != nil) {
		return
	}
	for _, name := range s.Names {
		if name.IsExported() {
			demandDoc(t, f, name, name.Name, d.Doc)
		}
	}
}

// demandDoc demands a comment that starts with the name, an article before it
// allowed.
func demandDoc(t *tree, f *file, at *ast.Ident, full string, doc *ast.CommentGroup) {
	text := strings.TrimSpace(doc.Text())
	switch {
	case text == "":
		t.report(f, at.Pos(), "doc", "%s has no comment", full)
	case !startsWith(text, at.Name):
		t.report(f, at.Pos(), "doc", "the comment of %s does not start with its name", full)
	}
}

func startsWith(text, name string) bool {
	for _, article := range []string{"", "A ", "An ", "The "} {
		rest, ok := strings.CutPrefix(text, article+name)
		if ok && (rest == "" || !token.IsIdentifier(rest[:1])) {
			return true
		}
	}
	return false
}
