package lint

import (
	"bytes"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// apiPackages are the packages that doc.go promises: the API.
var apiPackages = []string{".", "api", "blob", "build", "commitlog", "handler", "history", "pawltest", "schedule", "worker", "workflow"}

// maxNames bounds the exported names of all API packages together: types, functions, values and methods.
const maxNames = 883

// leaks are the types of other packages, internal or only open to read, that the API still names. A new one is refused, and one that
// is mended goes from this list.
var leaks = []string{}

// seams are methods that packages of this module call on types of the API and that hosts cannot call: an unexported type that the type embeds
// has them, and they take a type that only this module can make.
var seams = []string{"workflow.Bounds.ParseElement", "workflow.Definition.Place", "workflow.Graph.Program", "workflow.Node.Place", "workflow.Transition.Place"}

// A face is what the API packages show: how many names each exports, and which types of other packages of the module their signatures and
// fields name, with a place where each of them stands.
type face struct {
	module  string
	api     map[string]bool // paths of packages
	names   map[string]int  // by package
	foreign map[string]string
	seams   []string // exported methods that a type of the API has of an unexported type which it embeds
}

// readFace reads the face of packages of the module in a directory from what the compiler exports.
func readFace(t *testing.T, dir, module string, packages []string) *face {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[name] = file
	}
	reader := importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
	f := &face{module: module, api: map[string]bool{}, names: map[string]int{}, foreign: map[string]string{}}
	for _, p := range packages {
		f.api[path.Join(module, p)] = true
	}
	for p := range f.api {
		pkg, err := reader.Import(p)
		require.NoError(t, err)
		f.addPackage(pkg)
	}
	return f
}

func (f *face) addPackage(pkg *types.Package) {
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		o := scope.Lookup(name)
		if !o.Exported() {
			continue
		}
		f.names[pkg.Path()]++
		w := walker{face: f, seen: map[types.Type]bool{}}
		t, ok := o.(*types.TypeName)
		if !ok || t.IsAlias() {
			w.walk(pkg.Name()+"."+name, o.Type())
			continue
		}
		named := t.Type().(*types.Named)
		w.walk(pkg.Name()+"."+name, named.Underlying())
		for m := range named.Methods() {
			if m.Exported() {
				f.names[pkg.Path()]++
				w.walk(pkg.Name()+"."+name+"."+m.Name(), m.Type())
			}
		}
		f.addSeams(pkg.Name()+"."+name, named)
	}
}

// addSeams notes the exported methods of a type's unexported embedded types.
func (f *face) addSeams(name string, named *types.Named) {
	s, ok := named.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for v := range s.Fields() {
		if !v.Embedded() || v.Exported() {
			continue
		}
		for m := range types.NewMethodSet(types.NewPointer(v.Type())).Methods() {
			if m.Obj().Exported() {
				f.seams = append(f.seams, name+"."+m.Obj().Name())
			}
		}
	}
}

// A walker looks at the types that a declaration is made of.
type walker struct {
	*face
	seen map[types.Type]bool
}

// walk notes the types that are not of the API, and goes on below those that have no name.
func (w walker) walk(where string, t types.Type) {
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), w.module) && !w.api[p.Path()] {
			w.foreign[strings.TrimPrefix(p.Path(), w.module+"/")+"."+t.Obj().Name()] = where
		}
		for a := range t.TypeArgs().Types() {
			w.walk(where, a)
		}
	case *types.Alias:
		w.walk(where, t.Rhs())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels, and the values of maps
		w.walk(where, t.Elem())
		if m, ok := t.(*types.Map); ok {
			w.walk(where, m.Key())
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			w.walk(where, v.Type())
		}
		for v := range t.Results().Variables() {
			w.walk(where, v.Type())
		}
	case *types.Struct:
		for v := range t.Fields() {
			if v.Exported() {
				w.walk(where+"."+v.Name(), v.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			w.walk(where+"."+m.Name(), m.Type())
		}
	}
}

// The API names no type of an internal package, or of one that is only open to read, but for those that are listed.
func TestFace(t *testing.T) {
	const module = "github.com/pawl-run/pawl"
	f := readFace(t, filepath.Join("..", ".."), module, apiPackages)
	total := 0
	for _, p := range slices.Sorted(maps.Keys(f.names)) {
		t.Logf("%4d exported names: %s", f.names[p], p)
		total += f.names[p]
	}
	t.Logf("%4d together; %d types of other packages", total, len(f.foreign))
	require.LessOrEqual(t, total, maxNames)
	slices.Sort(f.seams)
	require.Equal(t, seams, f.seams)
	for name, where := range f.foreign {
		require.Contains(t, leaks, name, "%s names a type that is not of the API", where)
	}
	for _, name := range leaks {
		require.Contains(t, f.foreign, name, "it is mended: take it from the list")
	}
}

// A type of an internal package is found in a field, a method, a map and an alias.
func TestForeignTypesAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module example.org/m\n\ngo 1.26\n",
		"internal/a.go": "package internal\n\ntype (\n\tA struct{}\n\tB struct{}\n\tC struct{}\n\tD struct{}\n\tE struct{}\n)\n",
		"m.go": "package m\n\nimport \"example.org/m/internal\"\n\ntype T struct {\n\tOf  map[string]*internal.A\n\tno internal.E\n\tin\n}\n\ntype in struct{}\n\nfunc (in) Seam(internal.E) {}\n\nfunc (T) M(...internal.B) {}\n\n" +
			"type Alias = internal.C\n\nvar V func() []internal.D\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	f := readFace(t, dir, "example.org/m", []string{"."})
	require.Equal(t, map[string]string{"internal.A": "m.T.Of", "internal.B": "m.T.M", "internal.C": "m.Alias", "internal.D": "m.V"}, f.foreign)
	require.Equal(t, map[string]int{"example.org/m": 4}, f.names)
	require.Equal(t, []string{"m.T.Seam"}, f.seams)
}
