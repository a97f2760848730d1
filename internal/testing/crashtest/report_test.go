package crashtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// report prints what the trials came to. A failpoint at which nothing was killed
// fails the suite; in a quick run it may have its turn another day.
func (s *suite) report() {
	s.logTotal()
	points := failpoints(s.t)
	for _, point := range points {
		s.t.Logf("| %s | %d | %d |", point, s.hits(point), s.kills[point])
		if s.kills[point] == 0 && *only == "" && harness.CurrentLevel() > harness.Quick {
			s.t.Errorf("no process was killed at failpoint %s", point)
		}
	}
	for _, point := range slices.Sorted(maps.Keys(s.kills)) {
		require.Contains(s.t, points, point)
	}
}

func (s *suite) logTotal() {
	total := 0
	for _, n := range s.kills {
		total += n
	}
	s.t.Logf("%d kills in %d trials, trials by number of kills %v; %d hits did not come; %d executions repeated; %d trials with violations",
		total, s.trials, s.chains, s.missed, s.repeated, s.wrong)
}

// hits returns how often a failpoint was hit without a crash.
func (s *suite) hits(point string) (n int) {
	for _, counts := range s.counts {
		n += counts[point]
	}
	return n
}

// failpoints returns the names of all failpoints in the source of the module, without the modules in its folders. The failpoints of its
// command belong to no engine, and those of schedules need a work of their own: tests of cmd/pawl and internal/scheduling kill there.
func failpoints(t *testing.T) []string {
	names := map[string]bool{}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && isModule(path):
			return fs.SkipDir
		case d.IsDir() && (d.Name() == "testdata" || path == filepath.Join(root, "cmd") || path == filepath.Join(root, "internal", "scheduling") || path != root && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool { return hitsIn(t, n, names) })
		return nil
	})
	require.NoError(t, err)
	return slices.Sorted(maps.Keys(names))
}

// isModule reports whether a folder is a module of its own.
func isModule(path string) bool {
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}

func hitsIn(t *testing.T, n ast.Node, names map[string]bool) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return true
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Hit" {
		return true
	}
	x, _ := f.X.(*ast.Ident)
	if field, ok := f.X.(*ast.SelectorExpr); ok {
		x = field.Sel
	}
	if x != nil && strings.EqualFold(x.Name, "hook") {
		name, ok := call.Args[0].(*ast.BasicLit)
		require.True(t, ok, "the name of a failpoint is a literal")
		text, err := strconv.Unquote(name.Value)
		require.NoError(t, err)
		names[text] = true
	}
	return true
}

// descriptors returns how many descriptors this process has open.
func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Log("descriptors are not counted:", err)
	}
	return len(list)
}
