package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A tree is the source of one module.
type tree struct {
	dir      string
	fset     *token.FileSet
	packages []*pkg // by path
	problems []string
}

// A pkg is one folder of a module.
type pkg struct {
	path  string // from the module's root, "." for the root itself
	files []*file
	tests []*file
}

// A file is one parsed Go file.
type file struct {
	path string
	*ast.File
}

// load parses every Go file of the module in dir, whatever its build tags are.
// It leaves out testdata, hidden folders and modules within the module.
func load(dir string) (*tree, error) {
	t := &tree{dir: dir, fset: token.NewFileSet()}
	folders := map[string]*pkg{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && leftOut(path):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		default:
			return t.parse(path, folders)
		}
	})
	for _, path := range slices.Sorted(maps.Keys(folders)) {
		t.packages = append(t.packages, folders[path])
	}
	return t, err
}

func leftOut(dir string) bool {
	base := filepath.Base(dir)
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' || err == nil
}

func (t *tree) parse(path string, folders map[string]*pkg) error {
	rel, err := filepath.Rel(t.dir, path)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	folder := filepath.ToSlash(filepath.Dir(rel))
	if folders[folder] == nil {
		folders[folder] = &pkg{path: folder}
	}
	parsed, err := parser.ParseFile(t.fset, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	p, f := folders[folder], &file{path: rel, File: parsed}
	if strings.HasSuffix(path, "_test.go") {
		p.tests = append(p.tests, f)
	} else {
		p.files = append(p.files, f)
	}
	return nil
}

// find returns the package with this path, or nil.
func (t *tree) find(path string) *pkg {
	for _, p := range t.packages {
		if p.path == path {
			return p
		}
	}
	return nil
}

// report notes that a rule is broken at a place in a file.
func (t *tree) report(f *file, pos token.Pos, rule, format string, args ...any) {
	place := fmt.Sprintf("%s:%d", f.path, t.fset.Position(pos).Line)
	t.problems = append(t.problems, place+": "+rule+": "+fmt.Sprintf(format, args...))
}

// reportAt notes that a rule is broken by a folder or by a file as a whole.
func (t *tree) reportAt(place, rule, format string, args ...any) {
	t.problems = append(t.problems, place+": "+rule+": "+fmt.Sprintf(format, args...))
}
