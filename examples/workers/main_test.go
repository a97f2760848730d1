package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/shown"
)

// TestMain lets the test binary be a worker.
func TestMain(m *testing.M) {
	if os.Getenv(poolURL) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A worker ends with the coordinator, and does not look for it for ever.
func TestWorkerEndsWithItsCoordinator(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), poolURL+"=http://127.0.0.1:1", poolToken+"=x", workerID+"=w"), t.Output()
	held, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, held.Close())
	require.NoError(t, cmd.Wait())
}

func TestWorkers(t *testing.T) {
	harness.InTurn(t, 4)
	begin := time.Now()
	var stdout bytes.Buffer
	dir := t.TempDir()
	require.NoError(t, run(t.Context(), []string{dir}, &stdout, t.Output()))
	require.Regexp(t, `^1000 tasks by 4 worker processes, which were killed [1-9]\d* times
1000 results, each of them once
$`, stdout.String())
	shown.Compare(t, "..", "workers", dir)
	t.Logf("%v\n%s", time.Since(begin), stdout.String())
}
