package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the program, for tests that need a process
// of its own.
func TestMain(m *testing.M) {
	if os.Getenv("HELLO_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestHello(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time nothing runs: the outcome is there
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HELLO_MAIN=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "completed hello world <nil>\n", string(out))
	}
}

// The front page shows this program and a definition, letter by letter.
func TestFrontPage(t *testing.T) {
	readme := read(t, "../../README.md")
	_, program, _ := strings.Cut(read(t, "main.go"), "\n") // without the comment on the package
	require.Contains(t, readme, "```go\n"+program+"```\n")
	_, definition, _ := strings.Cut(read(t, "../quorum/quorum.yaml"), "\n\n") // likewise
	require.Contains(t, readme, "```yaml\n"+definition+"```\n")
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}
