package zerotest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("zero.rewrite", false, "write table_test.go anew")

// packages are the public packages, by their folders.
var packages = []string{
	"actor", "aesgcm", "api", "blob", "cluster", "decision", "handler", "inspector", "merge", "pawltest", ".", "planning", "replay", "rescue", "soundness", "store", "store/folderlog", "timeout", "worker", "workflow",
}

// everything in the table is what the packages export, and nothing is missing.
func TestNothingIsMissing(t *testing.T) {
	var names, kinds []string
	for _, folder := range packages {
		f, k := exported(t, folder)
		names, kinds = append(names, f...), append(kinds, k...)
	}
	slices.Sort(names)
	slices.Sort(kinds)
	if *rewrite {
		require.NoError(t, os.WriteFile("table_test.go", table(t, names, kinds), 0o600))
		t.Skip("the table is new: run the tests again")
	}
	var have, types []string
	for _, f := range functions {
		have = append(have, f.name)
	}
	for _, typ := range exportedTypes {
		types = append(types, typ.String())
	}
	require.Equal(t, names, have, "run the test with -zero.rewrite")
	require.Equal(t, kinds, types, "run the test with -zero.rewrite")
}

// exported returns the functions and the types that a package exports.
func exported(t *testing.T, folder string) (names, kinds []string) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", folder, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					require.Nil(t, d.Type.TypeParams, "%s is generic: call it by hand", d.Name)
					names = append(names, f.Name.Name+"."+d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() && !s.Assign.IsValid() {
						require.Nil(t, s.TypeParams, "%s is generic: call its methods by hand", s.Name)
						kinds = append(kinds, f.Name.Name+"."+s.Name.Name)
					}
				}
			}
		}
	}
	require.NotEmpty(t, append(names, kinds...), folder)
	return names, kinds
}

func table(t *testing.T, names, kinds []string) []byte {
	var b bytes.Buffer
	b.WriteString("package zerotest\n\nimport (\n\t\"reflect\"\n\n\t\"github.com/pawl-run/pawl\"\n")
	for _, folder := range packages {
		if folder != "." {
			fmt.Fprintf(&b, "\t\"github.com/pawl-run/pawl/%s\"\n", folder)
		}
	}
	b.WriteString(")\n\n// functions are all exported functions; -zero.rewrite writes the list.\nvar functions = []function{\n")
	for _, name := range names {
		fmt.Fprintf(&b, "\t{%q, %s},\n", name, name)
	}
	b.WriteString("}\n\n// exportedTypes are all exported types; -zero.rewrite writes the list.\nvar exportedTypes = []reflect.Type{\n")
	for _, kind := range kinds {
		fmt.Fprintf(&b, "\treflect.TypeFor[%s](),\n", kind)
	}
	b.WriteString("}\n")
	out, err := format.Source(b.Bytes())
	require.NoError(t, err)
	return out
}

// Every folder with a package that others may import is in the list.
func TestPackagesAreListed(t *testing.T) {
	var found []string
	root := filepath.Join("..", "..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if name := e.Name(); rel != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"internal", "testdata", "examples", "cmd", "bench", "tools", "docs", "logtest"}, name)) {
			return fs.SkipDir
		}
		if _, err := os.Lstat(filepath.Join(path, "go.mod")); err == nil && rel != "." {
			return fs.SkipDir // another module
		}
		if files, err := filepath.Glob(filepath.Join(path, "*.go")); err == nil && slices.ContainsFunc(files, notATest) {
			found = append(found, filepath.ToSlash(rel))
		}
		return nil
	}))
	require.ElementsMatch(t, packages, found)
}

func notATest(path string) bool { return !strings.HasSuffix(path, "_test.go") }
