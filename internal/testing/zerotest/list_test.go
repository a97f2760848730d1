package zerotest

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("zero.rewrite", false, "write table_test.go anew")

// packages are those of the API, by their folders; doc.go of the root lists them.
var packages = []string{"api", "blob", "build", "handler", "pawltest", ".", "schedule", "worker", "workflow"}

// TestNothingIsMissing holds the table equal to the functions that the packages export, and the types that no function names: acts
// and errors stand behind interfaces.
func TestNothingIsMissing(t *testing.T) {
	reached := map[string]bool{}
	for _, typ := range typesOf(slices.Concat(functions, receivers(t))) {
		reached[nameOf(typ)] = true
	}
	for typ := range handles {
		reached[nameOf(typ)] = true
	}
	var names, kinds []string
	for _, folder := range packages {
		f, k := exported(t, folder)
		names, kinds = append(names, f...), append(kinds, k...)
	}
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return reached[kind] })
	slices.Sort(names)
	slices.Sort(kinds)
	if *rewrite {
		require.NoError(t, os.WriteFile("table_test.go", table(t, names, kinds), 0o600))
		t.Skip("the table is new: run the tests again")
	}
	var have, hidden []string
	for _, f := range functions {
		have = append(have, f.name)
	}
	for _, typ := range hiddenTypes {
		hidden = append(hidden, nameOf(typ))
	}
	require.Equal(t, names, have, "run the test with -zero.rewrite")
	require.Equal(t, kinds, hidden, "run the test with -zero.rewrite")
}

// withoutArguments are generic functions to which nobody can give a zero value.
var withoutArguments = []string{"workflow.Values"}

// instances are the generic functions with the types for which they are called.
var instances = map[string]string{
	"build.SchemaOf":  "build.SchemaOf[map[string]any]",
	"build.TypedTask": "build.TypedTask[map[string]any, any]",
	"pawl.Run":        "pawl.Run[map[string]any]",
	"pawl.Typed":      "pawl.Typed[map[string]any, any]",
	"pawl.WaitFor":    "pawl.WaitFor[any]",
}

// exported returns the functions that a package exports, and its types but for interfaces.
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
					name := f.Name.Name + "." + d.Name.Name
					if slices.Contains(withoutArguments, name) {
						continue
					}
					require.Equal(t, d.Type.TypeParams != nil, instances[name] != "", "%s is generic: say in instances for which types it is called", name)
					names = append(names, name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if ok && s.Name.IsExported() && !s.Assign.IsValid() && !isInterface(s.Type) {
						kinds = append(kinds, f.Name.Name+"."+s.Name.Name+strings.Repeat("[any]", s.TypeParams.NumFields()))
					}
				}
			}
		}
	}
	require.NotEmpty(t, names, folder)
	return names, kinds
}

// nameOf returns the name of a type, one of any as it is written.
func nameOf(typ reflect.Type) string { return strings.ReplaceAll(typ.String(), "interface {}", "any") }

func isInterface(e ast.Expr) bool { _, ok := e.(*ast.InterfaceType); return ok }

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
		fmt.Fprintf(&b, "\t{%q, %s},\n", name, cmp.Or(instances[name], name))
	}
	b.WriteString("}\n\n// hiddenTypes are the exported types that no function names; -zero.rewrite writes the list.\nvar hiddenTypes = []reflect.Type{\n")
	for _, kind := range kinds {
		fmt.Fprintf(&b, "\treflect.TypeFor[%s](),\n", kind)
	}
	b.WriteString("}\n")
	out, err := format.Source(b.Bytes())
	require.NoError(t, err)
	return out
}
