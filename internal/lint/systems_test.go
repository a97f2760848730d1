package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// The packages and their tests fit the systems that no test runs on: their types are checked from the source, which takes a
// fraction of what go vet takes, since go vet compiles everything that they import.
func TestOtherSystems(t *testing.T) {
	harness.RequireLevel(t, harness.Gate, "every package for another system")
	for _, system := range harness.SampleOfDay(t, harness.Figure(2, 2, 1), []string{"darwin", "windows"}) {
		t.Run(system, func(t *testing.T) {
			problems, packages := checkSystem(t, filepath.Join("..", ".."), system, "./...")
			require.Greater(t, packages, 70)
			require.Empty(t, problems)
		})
	}
}

// A file of one system that does not fit there is found, and so is a test.
func TestOtherSystemsAreChecked(t *testing.T) {
	harness.InTurn(t, 4)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.org/m\n\ngo 1.26\n",
		"a.go":             "package m\n\nimport \"os\"\n\nfunc Home() (string, error) { return os.UserHomeDir() }\n",
		"b_windows.go":     "package m\n\nimport \"syscall\"\n\nvar B = syscall.Getuid2()\n",
		"c_darwin.go":      "package m\n\nimport \"syscall\"\n\nvar C syscall.Stat_t\n",
		"d_darwin_test.go": "package m_test\n\nimport \"example.org/m\"\n\nvar D = m.B\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	problems, _ := checkSystem(t, dir, "windows", ".")
	require.Len(t, problems, 1)
	require.ErrorContains(t, problems[0], "undefined: syscall.Getuid2")
	problems, _ = checkSystem(t, dir, "darwin", ".")
	require.Len(t, problems, 1)
	require.ErrorContains(t, problems[0], "undefined: m.B")
}

// A listedPackage is what go list says of a package, or of one as a test sees it.
type listedPackage struct {
	Dir, ImportPath, ForTest string
	GoFiles, CgoFiles        []string
	ImportMap                map[string]string
	Standard, DepOnly        bool
}

// checkSystem returns what does not fit in packages, of a module in a directory, and their tests, on a system, and how many packages it looked at.
func checkSystem(t *testing.T, dir, system string, patterns ...string) (problems []error, packages int) {
	list := []string{"list", "-deps", "-test", "-json=Dir,ImportPath,ForTest,GoFiles,CgoFiles,ImportMap,Standard,DepOnly"}
	cmd := exec.CommandContext(t.Context(), "go", append(list, patterns...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	c := systemChecker{fset: token.NewFileSet(), parsed: map[string]*ast.File{}, packages: map[string]*types.Package{"unsafe": types.Unsafe}}
	for d := json.NewDecoder(bytes.NewReader(out)); ; packages++ { // what is imported comes first
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return c.problems, packages
		} else {
			require.NoError(t, err)
		}
		c.check(&p)
	}
}

// A systemChecker checks the types of packages in the order of their imports.
type systemChecker struct {
	fset     *token.FileSet
	parsed   map[string]*ast.File // by path: a package is listed again for its tests
	packages map[string]*types.Package
	problems []error
}

func (c *systemChecker) check(p *listedPackage) {
	if p.ImportPath == "unsafe" {
		return
	}
	var files []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		if path := filepath.Join(p.Dir, name); filepath.IsAbs(name) {
			continue // the main function that go test makes
		} else if f, err := c.parse(path); err != nil {
			c.problems = append(c.problems, err)
		} else {
			files = append(files, f)
		}
	}
	config := types.Config{
		Importer: importerOf{c.packages, p.ImportMap}, FakeImportC: true, IgnoreFuncBodies: p.DepOnly && p.ForTest == "",
		Sizes: types.SizesFor("gc", "amd64"), Error: func(err error) {
			if !p.DepOnly || p.ForTest != "" {
				c.problems = append(c.problems, err)
			}
		},
	}
	c.packages[p.ImportPath], _ = config.Check(p.ImportPath, c.fset, files, nil) // Error has what it returns
}

// parse reads a file once.
func (c *systemChecker) parse(path string) (*ast.File, error) {
	if f := c.parsed[path]; f != nil {
		return f, nil
	}
	f, err := parser.ParseFile(c.fset, path, nil, parser.SkipObjectResolution)
	c.parsed[path] = f
	return f, err
}

// importerOf finds what a package imports, by the names that it has there.
type importerOf struct {
	packages map[string]*types.Package
	renamed  map[string]string
}

func (i importerOf) Import(path string) (*types.Package, error) {
	if as, ok := i.renamed[path]; ok {
		path = as
	}
	if p := i.packages[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed", path)
}
