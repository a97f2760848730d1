package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// The other commands reach the run that pawl run has in a directory while it goes on.
func TestRunIsReached(t *testing.T) {
	program, err := exec.LookPath("pawl") // that of this binary
	require.NoError(t, err)
	folder := harness.Workspace(t)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ask.yaml"), []byte("name: ask\nstart: a\nnodes: [{id: a, wait: {event: go}, output: {output.said: result}}]\n"), 0o600))
	pawl := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), program, args...)
		c.Dir, c.Env = folder, harness.Environment("PAWL_DIR=data")
		return c
	}
	run := pawl("run", "ask.yaml", "--dir", "data")
	out, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	require.Eventually(t, func() bool { // it has to begin
		return pawl("signal", "ask-1", "go", "--payload", `"yes"`, "-m", "a test").Run() == nil
	}, time.Minute, 10*time.Millisecond)
	text := make([]byte, 100)
	n, _ := out.Read(text)
	require.Contains(t, string(text[:n]), `"said"`)
	require.NoError(t, run.Wait())
}
