package lint

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parsedModules are the trees of modules, by folder.
var parsedModules sync.Map

// loadModule returns the tree of this module.
func loadModule(t *testing.T) *tree {
	t.Helper()
	return loadFolder(t, ".")
}

// loadFolder returns the tree of the module in a folder of this one, which the tests parse once between them.
func loadFolder(t *testing.T, folder string) *tree {
	t.Helper()
	parse, _ := parsedModules.LoadOrStore(folder, sync.OnceValues(func() (*tree, error) { return load(filepath.Join("..", "..", filepath.FromSlash(folder))) }))
	source, err := parse.(func() (*tree, error))()
	require.NoError(t, err)
	own := *source // its problems are the test's
	return &own
}

// check returns every place where a module breaks a rule.
func check(t *testing.T, source *tree) []string {
	t.Helper()
	checkImports(source)
	checkPurity(source)
	checkDocs(source)
	checkUnions(source)
	checkEnumerations(source)
	checkSizes(source)
	checkSleeps(source)
	checkNames(source)
	checkSeams(source)
	checkLevels(source)
	require.NoError(t, checkGoMod(source))
	return source.problems
}

func TestModule(t *testing.T) {
	for _, problem := range check(t, loadModule(t)) {
		t.Error(problem)
	}
}

// The modules in folders require what has a reason there, and nothing else.
func TestFolderModules(t *testing.T) {
	source := &tree{dir: filepath.Join("..", "..")}
	require.NoError(t, checkFolderModules(source))
	require.Empty(t, source.problems)

	dir := t.TempDir()
	for _, name := range slices.Collect(maps.Keys(requiredInFolders)) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		text := "module m\nrequire example.org/other v1.0.0\nreplace example.org/other => ../other\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "go.mod"), []byte(text), 0o600))
	}
	source.dir = dir
	require.NoError(t, checkFolderModules(source))
	require.Len(t, source.problems, 2*len(requiredInFolders))
}

// Each module under testdata breaks one rule, but for the one that is clean.
func TestRules(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*", "want.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			source, err := load(dir)
			require.NoError(t, err)
			got := check(t, source)
			slices.Sort(got)
			assert.Equal(t, string(want), strings.Join(append(got, ""), "\n"))
		})
	}
}

// The bounds are exact: what is as long as allowed passes.
func TestSizes(t *testing.T) {
	body := func(lines int) string {
		return "func f() {\n" + strings.Repeat("\tf()\n", lines-2) + "}\n"
	}
	tests := []struct {
		source string
		want   []string
	}{
		{"package merge\n" + body(maxFunction), nil},
		{"package merge\n" + body(maxFunction+1), []string{"a.go:2: size: f has 71 lines, at most 70"}},
		{"package merge\n" + strings.Repeat("\n", maxFile-1), nil},
		{"package merge\n" + strings.Repeat("\n", maxFile), []string{"a.go: size: the file has 701 lines, at most 700"}},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(tt.source), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package merge\n"+body(200)), 0o600))
		source, err := load(dir)
		require.NoError(t, err)
		checkSizes(source)
		assert.Equal(t, tt.want, source.problems)
	}
}

// Every layer names packages of the table, and none of them leads back.
func TestLayersPointDown(t *testing.T) {
	for path, allowed := range layers {
		for _, below := range allowed {
			if below == "*" {
				continue
			}
			back, listed := layers[below]
			assert.True(t, listed, "%s may import %s, which is not in the table", path, below)
			assert.NotContains(t, back, path, "%s and %s", path, below)
		}
	}
	for path := range pure {
		assert.Contains(t, layers, path)
		for _, below := range layers[path] {
			assert.Contains(t, pure, below, "%s is pure", path)
		}
	}
}

// A version of the C library that SQLite does not name is found.
func TestLibC(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join("..", "..", "go.sum"))
	require.NoError(t, err)
	libc := regexp.MustCompile(`modernc\.org/libc v\S+`)
	require.Regexp(t, libc, string(mod), "go.mod must name the libc that SQLite needs")
	dir := t.TempDir()
	mod = libc.ReplaceAll(mod, []byte("modernc.org/libc v1.0.0"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
	source, err := load(dir)
	require.NoError(t, err)
	require.NoError(t, checkGoMod(source))
	require.Len(t, source.problems, 1)
	assert.Contains(t, source.problems[0], "go.mod: require: modernc.org/libc is v1.0.0, modernc.org/sqlite needs exactly v")
}
