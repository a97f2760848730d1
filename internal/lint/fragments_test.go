package lint

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayImport are the packages that whole files import besides.
var mayImport = []string{"testing", module + "/pawltest"}

// mayUse are the packages that fragments use without an import.
var mayUse = []string{
	"context", "crypto/tls", "crypto/x509", "encoding/json", "errors", "fmt", "log", "net/http", "os", "time",
	module, module + "/aesgcm", module + "/api", module + "/blob", module + "/build", module + "/store/folderlog", module + "/handler", module + "/inspector", module + "/schedule", module + "/worker", module + "/workflow",
	module + "/cluster", module + "/store", module + "/nats/natscluster", module + "/nats/natslog", module + "/nats/natspool", "github.com/nats-io/nats.go",
}

// goBlock finds a block of Go on a page.
var goBlock = regexp.MustCompile("(?s)\n```go\n(.*?\n)```\n")

// All Go on the pages fits the packages as they are: whole files, statements, and
// handlers as they stand in pawl.Handlers, or parts of a file that stands above them. A body "{ ... }" may be anything. Names
// that a fragment does not declare are in testdata/fragments. A fragment may leave names unused.
func TestGoOfThePages(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	checker := newFragmentChecker(t)
	blocks := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "nats", "README.md")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range goBlock.FindAllStringSubmatchIndex(string(text), -1) {
			if strings.HasSuffix(string(text[:m[0]]), ".go -->") {
				continue // TestQuotedFiles holds it equal to a file, which is compiled there
			}
			blocks++
			name, _ := filepath.Rel(root, page)
			line := 1 + strings.Count(string(text[:m[2]]), "\n")
			for _, err := range checker.problems(filepath.ToSlash(name), line, string(text[m[2]:m[3]])) {
				t.Error(err)
			}
		}
	}
	require.Greater(t, blocks, 10)
	checkTheChecker(t, checker)
}

// checkTheChecker fails unless what does not fit is told with its place.
func checkTheChecker(t *testing.T, checker *fragmentChecker) {
	for text, want := range map[string]string{
		"n, err := engine.RetryEverything(ctx)\n":                                         "p.md:7:18: engine.RetryEverything undefined",
		"// first\n_ = pawl.Options{Executer: nil}\n":                                     "p.md:8:18: unknown field Executer",
		"\"x\": func(ctx context.Context, task pawl.Task) error { return nil },\n":        "p.md:7:6: cannot use (func",
		"package main\n\nimport \"github.com/pawl-run/pawl\"\n\nvar x = pawl.Missing{}\n": "p.md:11:14: undefined: pawl.Missing",
		"if {\n": "p.md:",
		"h := pawl.Handlers{\n\t\"x\": func(ctx context.Context, t pawl.Task) (any, error) { ... },\n}\n": "",
	} {
		problems := checker.problems("p.md", 7, text)
		if want == "" {
			require.Empty(t, problems, text)
			continue
		}
		require.NotEmpty(t, problems, text)
		require.ErrorContains(t, problems[0], want)
	}
}

// A fragmentChecker checks the types of fragments.
type fragmentChecker struct {
	fset     *token.FileSet
	importer types.Importer
	names    *ast.File // what fragments leave out
}

func newFragmentChecker(t *testing.T) *fragmentChecker {
	c := &fragmentChecker{fset: token.NewFileSet()}
	list := []string{"list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}
	command := exec.CommandContext(t.Context(), "go", slices.Concat(list, mayUse, mayImport)...)
	command.Dir = filepath.Join("..", "..", "nats", "test") // whose module has NATS as well
	out, err := command.Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	c.names, err = parser.ParseFile(c.fset, filepath.Join("testdata", "fragments", "names.go"), nil, 0)
	require.NoError(t, err)
	return c
}

// problems returns what is wrong with the fragment that begins in a line of a page.
func (c *fragmentChecker) problems(page string, line int, text string) (out []error) {
	text = strings.ReplaceAll(text, "{ ... }", "{ panic(0) }")
	place := fmt.Sprintf("/*line %s:%d:1*/", page, line)
	head := "package fragments; import (\"" + strings.Join(mayUse, "\"; \"") + "\");"
	files := []*ast.File{}
	whole, err := parser.ParseFile(c.fset, "fragment.go", place+text, 0)
	if err == nil {
		files = append(files, whole)
	}
	for _, form := range []string{"var _ = pawl.Handlers{%s%s}", "func _() (any, error) {%s%s\npanic(0) }"} {
		if len(files) > 0 {
			break
		}
		var f *ast.File
		if f, err = parser.ParseFile(c.fset, "fragment.go", head+fmt.Sprintf(form, place, text), 0); err == nil {
			files = append(files, f, c.names)
		}
	}
	if err != nil {
		return []error{fmt.Errorf("a block of Go is no file, no statements and no handlers: %w", err)}
	}
	config := types.Config{Importer: c.importer, Error: func(err error) {
		if e := (types.Error{}); !errors.As(err, &e) || !e.Soft {
			out = append(out, err)
		}
	}}
	_, _ = config.Check("fragments", c.fset, files, nil)
	return out
}
