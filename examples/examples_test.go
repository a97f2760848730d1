package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness/shown"
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

// Each example with a file in testdata prints what that file says. The others have a test of their
// own beside them, or below. An example that is run again in its directory finds the outcomes there,
// and prints the same.
func TestExamples(t *testing.T) {
	programs, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	outputs := 0
	for _, program := range programs {
		name := filepath.Dir(program)
		want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			if name != "hello" {
				require.FileExists(t, filepath.Join(name, "main_test.go"))
			}
			continue
		}
		outputs++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.Equal(t, string(want), runExample(t, name, dir))
			if name == "chain" {
				require.Equal(t, string(want), runExample(t, name, dir))
			}
			if inGo := map[string]string{"chain": dir, "recover": filepath.Join(dir, "engine")}; inGo[name] != "" {
				shown.Compare(t, ".", name, inGo[name])
			}
		})
	}
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.Len(t, files, outputs, "each file belongs to an example")
}

// Without an argument an example works in a temporary directory.
func TestChainSomewhere(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	require.Equal(t, readFile(t, "testdata/chain.txt"), runExample(t, "chain"))
}

// Hello works in the folder that it is run in. The second time nothing runs: the outcome is there.
func TestHello(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	workspace := filepath.Join(dir, "go.work") // by which go finds the module from elsewhere
	require.NoError(t, os.WriteFile(workspace, []byte("go 1.26.0\nuse "+strconv.Quote(root)+"\n"), 0o600))
	for range 2 {
		cmd := exec.CommandContext(t.Context(), "go", "run", "github.com/pawl-run/pawl/examples/hello")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK="+workspace)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "completed hello world <nil>\n", string(out))
	}
	shown.Compare(t, ".", "hello", filepath.Join(dir, "data"))
}

// The front page shows a program and a definition, letter by letter.
func TestFrontPage(t *testing.T) {
	readme := readFile(t, "../README.md")
	require.Contains(t, readme, "```go\n"+readFile(t, "hello/main.go")+"```\n")
	_, definition, _ := strings.Cut(readFile(t, "quorum/quorum.yaml"), "\n\n") // likewise
	require.Contains(t, readme, "```yaml\n"+definition+"```\n")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// The README of the examples has the command of each.
func TestReadmeHasEveryExample(t *testing.T) {
	readme := readFile(t, "README.md")
	programs, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	for _, program := range programs {
		command := "go run ./examples/" + filepath.Dir(program)
		if _, err := os.Stat(filepath.Join(filepath.Dir(program), "go.mod")); err == nil { // a module of its own
			command = "go run -C examples/" + filepath.Dir(program) + " ."
		}
		require.Equal(t, 1, strings.Count(readme, "| `"+command+"` |"), program)
	}
}
