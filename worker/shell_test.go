package worker_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

const script = "testdata/worker.sh"

// Workers in any language: this one is a shell script with curl.
func TestAWorkerInShell(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	h := start(t, replays.Dir(t), worker.Options{Token: "secret"})
	defer h.stop(t)
	commands := make(map[string]*exec.Cmd)
	for _, id := range []string{"one", "two"} {
		cmd := exec.CommandContext(t.Context(), "sh", script, h.server.URL, "secret", id)
		cmd.Stderr = new(bytes.Buffer)
		require.NoError(t, cmd.Start())
		commands[id] = cmd
	}
	require.Eventually(t, func() bool { // one of them may do all tasks alone
		return len(h.pool.Status().Workers) == len(commands)
	}, time.Minute, 10*time.Millisecond)
	def, tasks := define(t, strings.ReplaceAll(fanOut, "task: work", "task: square")), harness.Figure(6, 20, 20)
	out, err := h.engine.Run(t.Context(), workflow.Run{ID: "r", Definition: def}, items(tasks))
	require.NoError(t, err)
	require.NoError(t, out.Err())
	for i, r := range out.Output["results"].([]any) {
		require.Equal(t, map[string]any{"square": int64(i * i)}, r)
	}
	require.NoError(t, h.pool.Drain(t.Context(), "one", "two"))
	require.EqualValues(t, tasks, h.pool.Status().Processed)
	for id, cmd := range commands {
		require.NoError(t, cmd.Wait(), "%s: %s", id, cmd.Stderr)
	}
	require.Empty(t, h.pool.Status().Workers, "they have left")

	cmd := exec.CommandContext(t.Context(), "sh", script, h.server.URL, "guessed", "three")
	said, err := cmd.Output()
	require.Error(t, err)
	require.Contains(t, string(said), `"code":"unauthorized"`)
}
