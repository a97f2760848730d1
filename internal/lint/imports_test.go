package lint

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// checkImports holds every package to its layer.
func checkImports(t *tree) {
	for _, p := range t.packages {
		allowed, listed := layerOf(p.path)
		if !listed && len(p.files) > 0 {
			t.reportAt(p.path, "import", "the package is not in the table of layers")
			continue
		}
		for _, f := range p.files {
			for _, im := range f.Imports {
				if own, ok := ownPackage(importPath(im)); ok && !matches(allowed, own) {
					t.report(f, im.Pos(), "import", "%s may not import %s", p.path, own)
				}
			}
		}
	}
}

// layerOf returns what the package may import, and whether it is listed.
func layerOf(path string) ([]string, bool) {
	if allowed, ok := layers[path]; ok {
		return allowed, true
	}
	folder, _, nested := strings.Cut(path, "/")
	allowed, ok := layers[folder+"/*"]
	return allowed, ok && nested && strings.Count(path, "/") == 1
}

func matches(allowed []string, path string) bool {
	return slices.Contains(allowed, "*") && !below([]string{forTests}, path) || slices.Contains(allowed, path)
}

func importPath(im *ast.ImportSpec) string {
	path, _ := strconv.Unquote(im.Path.Value)
	return path
}

// ownPackage returns the path within the module, "." for its root.
func ownPackage(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// checkPurity holds the pure packages to what they may import and do.
func checkPurity(t *tree) {
	for _, p := range t.packages {
		modules, ok := pure[p.path]
		if !ok {
			continue
		}
		for _, f := range p.files {
			checkPureImports(t, p, f, modules)
			checkClocks(t, f)
			checkGoroutines(t, f)
		}
		checkGlobals(t, p)
	}
}

func checkPureImports(t *tree, p *pkg, f *file, modules []string) {
	for _, im := range f.Imports {
		path := importPath(im)
		_, own := ownPackage(path)
		first, _, _ := strings.Cut(path, "/")
		switch {
		case own:
		case strings.Contains(first, "."):
			if !below(modules, path) {
				t.report(f, im.Pos(), "pure", "%s may not import %s", p.path, path)
			}
		case below(impure, path):
			t.report(f, im.Pos(), "pure", "%s may not import %s", p.path, path)
		case path == "time" && im.Name != nil && im.Name.Name == ".":
			t.report(f, im.Pos(), "pure", "time may not be imported with a dot")
		}
	}
}

func below(roots []string, path string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}

func checkClocks(t *tree, f *file) {
	eachTimeName(f, func(s *ast.SelectorExpr) {
		if slices.Contains(clocks, s.Sel.Name) {
			t.report(f, s.Pos(), "pure", "time.%s reads a clock", s.Sel.Name)
		}
	})
}

// eachTimeName visits every name of package time that f mentions.
func eachTimeName(f *file, visit func(*ast.SelectorExpr)) {
	eachNameOf(f, "time", visit)
}

// eachNameOf visits every name that f mentions of a package of one word.
func eachNameOf(f *file, pkg string, visit func(*ast.SelectorExpr)) {
	local := ""
	for _, im := range f.Imports {
		if importPath(im) == pkg {
			local = pkg
			if im.Name != nil {
				local = im.Name.Name
			}
		}
	}
	ast.Inspect(f.File, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && local != "" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local {
				visit(s)
			}
		}
		return true
	})
}

func checkGoroutines(t *tree, f *file) {
	ast.Inspect(f.File, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			t.report(f, g.Pos(), "pure", "a goroutine is started")
		}
		return true
	})
}

// checkLevels refuses a test that asks anything but the harness how much it is to do.
func checkLevels(t *tree) {
	for _, p := range t.packages {
		for _, f := range p.tests {
			eachNameOf(f, "testing", func(s *ast.SelectorExpr) {
				if s.Sel.Name == "Short" {
					t.report(f, s.Pos(), "level", "a test may not ask testing.Short: internal/testing/harness has the level")
				}
			})
		}
	}
}

// checkSleeps refuses to wait for a clock in a test.
func checkSleeps(t *tree) {
	for _, p := range t.packages {
		for _, f := range p.tests {
			eachTimeName(f, func(s *ast.SelectorExpr) {
				if s.Sel.Name == "Sleep" {
					t.report(f, s.Pos(), "sleep", "a test may not sleep")
				}
			})
		}
	}
}
