package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/shown"
)

// The totals and the critical path are those that one loop over the packages,
// which are listed after their imports, comes to.
func TestStandardLibrary(t *testing.T) {
	harness.InTurn(t, 4)
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, &stdout, t.Output()))
	t.Log(stdout.String())

	packages, err := library(t.Context())
	require.NoError(t, err)
	require.Greater(t, len(packages), 300)
	lines, chain, imports := map[string]int{}, map[string]int{}, map[string]bool{}
	total, critical, edges := 0, 0, 0
	for _, p := range packages {
		n := 0
		for _, file := range p.Files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			n += strings.Count(string(text), "\n")
		}
		before := 0
		for _, i := range p.Imports {
			require.Contains(t, chain, i, "listed before %s", p.Path)
			before = max(before, chain[i])
			imports[p.Path+" imports "+i] = true
		}
		lines[p.Path], chain[p.Path] = n, before+n
		total, critical, edges = total+n, max(critical, before+n), edges+len(p.Imports)
	}
	require.Positive(t, total)

	printed := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	require.Equal(t, fmt.Sprintf("graph: %d packages, %d imports", len(packages), edges), printed[0])
	require.Equal(t, fmt.Sprintf("total: %d packages, %d lines", len(packages), total), printed[1])
	require.Equal(t, fmt.Sprintf("critical path: %d packages, %d lines", len(printed)-3, critical), printed[2])
	before := ""
	for i, line := range printed[3:] {
		var n int
		var path string
		_, err := fmt.Sscan(line, &n, &path)
		require.NoError(t, err)
		require.Equal(t, lines[path], n, path)
		if i > 0 {
			require.True(t, imports[path+" imports "+before], "%s imports %s", path, before)
		}
		before = path
	}
}

// graph writes files of so many lines, and returns a graph of them.
func graph(t *testing.T) []pkg {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, lines int) []string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x\n", lines)), 0o644))
		return []string{path}
	}
	return []pkg{
		{Path: "a", Files: file("a", 1)},
		{Path: `b"]`, Files: file("b", 20), Imports: []string{"a"}},
		{Path: "c", Files: file("c", 3), Imports: []string{"a"}},
		{Path: "d/v2", Files: file("d", 4), Imports: []string{`b"]`, "c"}},
		{Path: "alone"},
	}
}

func TestDiamond(t *testing.T) {
	dir := t.TempDir()
	sum, err := walk(t.Context(), dir, graph(t))
	require.NoError(t, err)
	shown.Compare(t, "..", "dag", dir)
	require.Equal(t, summary{Packages: 5, Lines: 28, Critical: []link{{"a", 1}, {`b"]`, 20}, {"d/v2", 4}}}, sum)
}

func TestNoPackages(t *testing.T) {
	sum, err := walk(t.Context(), t.TempDir(), nil)
	require.NoError(t, err)
	require.Equal(t, summary{Critical: []link{}}, sum)
}

// A node that fails ends the run: in a dag that is the default.
func TestAFileThatIsNotThere(t *testing.T) {
	packages := graph(t)
	require.NoError(t, os.Remove(packages[2].Files[0]))
	_, err := walk(t.Context(), t.TempDir(), packages)
	require.ErrorContains(t, err, `at node "c"`)
	require.ErrorContains(t, err, "no such file")
}

func TestCopiesAreOnePackage(t *testing.T) {
	packages, err := parse(strings.NewReader(`
		{"ImportPath": "vendor/x.org/y", "Dir": "/go/vendor/x.org/y", "GoFiles": ["y.go"]}
		{"ImportPath": "cmd/vendor/x.org/y", "Dir": "/go/cmd/vendor/x.org/y", "GoFiles": ["y.go"]}
		{"ImportPath": "net", "Dir": "/go/net", "GoFiles": ["a.go"], "CgoFiles": ["b.go"],
		 "Imports": ["C", "x.org/y", "vendor/x.org/y"], "ImportMap": {"x.org/y": "vendor/x.org/y"}}
		{"ImportPath": "myvendor/z", "Dir": "/go/myvendor/z"}`))
	require.NoError(t, err)
	require.Equal(t, []pkg{
		{Path: "x.org/y", Files: []string{"/go/vendor/x.org/y/y.go"}},
		{Path: "net", Files: []string{"/go/net/a.go", "/go/net/b.go"}, Imports: []string{"x.org/y"}},
		{Path: "myvendor/z"},
	}, packages)
}
