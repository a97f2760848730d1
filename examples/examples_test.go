package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runExample runs an example as its README says, with arguments, and returns what it prints.
func runExample(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "./" + name}, args...)...)
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, t.Output()
	require.NoError(t, cmd.Run())
	return stdout.String()
}

// Each example with a file in testdata prints what that file says. The others have a
// test of their own beside them.
func TestExamples(t *testing.T) {
	programs, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	outputs := 0
	for _, program := range programs {
		name := filepath.Dir(program)
		want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			require.FileExists(t, filepath.Join(name, "main_test.go"))
			continue
		}
		outputs++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, string(want), runExample(t, name, t.TempDir()))
		})
	}
	files, err := filepath.Glob("testdata/*")
	require.NoError(t, err)
	require.Len(t, files, outputs, "each file belongs to an example")
}

// An example that is run again in its directory finds the outcomes there, and without an
// argument it works in a temporary one.
func TestChainAgain(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, runExample(t, "chain", dir), runExample(t, "chain", dir))
	t.Setenv("TMPDIR", t.TempDir())
	want, err := os.ReadFile("testdata/chain.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), runExample(t, "chain"))
}

// The README of the examples has the command of each.
func TestReadmeHasEveryExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	programs, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	for _, program := range programs {
		require.Equal(t, 1, strings.Count(string(readme), "| `go run ./examples/"+filepath.Dir(program)+"` |"), program)
	}
}
