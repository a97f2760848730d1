package examples

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/shown"
)

// buildExamples builds examples, all with one command and without what only debuggers need, and returns the folder of the programs.
func buildExamples(t *testing.T, names []string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-ldflags=-s", "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./"+name)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Run())
	return dir
}

// runExample runs a program of an example with arguments, and returns what it prints.
func runExample(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // one that hangs
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, t.Output()
	require.NoError(t, cmd.Run())
	return stdout.String()
}

// Each example with a file in testdata prints what that file says. The others have a test of their
// own beside them, or below. An example that is run again in its directory finds the outcomes there,
// and prints the same but for what was said while they came; recover wants another directory. Without an
// argument an example works in a temporary directory. Quick runs of eight days run them all.
func TestExamples(t *testing.T) {
	programs, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	wants := map[string]string{}
	for _, program := range programs {
		name := filepath.Dir(program)
		want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		switch {
		case err == nil:
			wants[name] = string(want)
		case name != "hello":
			require.FileExists(t, filepath.Join(name, "main_test.go"))
		}
	}
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.Len(t, files, len(wants), "each file belongs to an example")
	names := harness.Today(t, 8, slices.Sorted(maps.Keys(wants)))
	built := buildExamples(t, names)
	for _, name := range names {
		want := wants[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, dir := filepath.Join(built, name), t.TempDir()
			require.Equal(t, want, runExample(t, program, dir))
			if name != "recover" {
				require.Equal(t, cutSaid(name, want), cutSaid(name, runExample(t, program, dir)), "again in its directory")
			}
			if name == "chain" {
				require.Equal(t, want, runExample(t, program), "in a temporary directory")
			}
			if inGo := map[string]string{"chain": dir, "recover": filepath.Join(dir, "engine")}; inGo[name] != "" {
				shown.Compare(t, ".", name, inGo[name])
			}
		})
	}
}

// said matches the lines that examples print while handlers are called and votes are counted.
var said = map[string]*regexp.Regexp{
	"approval": regexp.MustCompile(`(?m)^  \w+ (cannot vote twice|is too late)\n`),
	"quorum":   regexp.MustCompile(`(?m)^.* is withdrawn: .*\n`),
	"saga":     regexp.MustCompile(`(?m)^  .*\(attempt \d+\).*\n`),
}

// cutSaid returns the output of an example without these lines.
func cutSaid(name, output string) string {
	if said[name] == nil {
		return output
	}
	return said[name].ReplaceAllString(output, "")
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
