package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// With nothing left of the disk, and no engine open, runs are listed and purged: the commands give the reserve of the
// directory up, which is there again afterwards.
func TestCommandsOnAFullDisk(t *testing.T) {
	dir := filepath.Join(harness.Workspace(t), "engine")
	require.NoError(t, os.Mkdir(dir, 0o700))
	harness.MountSmall(t, dir, 4<<20)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	const runs = 24
	d := &workflow.Definition{Name: "order", Start: "a", Nodes: []workflow.Node{{ID: "a", End: &workflow.EndSpec{}}}}
	for i := range runs {
		out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("order-", i)), Definition: d}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
	}
	require.NoError(t, e.Close(t.Context()))
	harness.FillDisk(t, dir, 0)
	_, err = pawl.Open(t.Context(), dir, pawl.Options{})
	require.ErrorIs(t, err, pawl.ErrNoSpace, "an engine whose runs go on does not get the reserve")
	reserve := filepath.Join(dir, "tmp", "reserve")
	require.FileExists(t, reserve)
	program := program(t)
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), program, append(args, "--dir", dir)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	for range 2 {
		require.Contains(t, run("ls"), "24 of 24 runs")
		require.FileExists(t, reserve)
	}
	require.Contains(t, run("purge", "--workflow", "order", "--offline", "--yes", "-m", "room"), "24 runs")
	require.Contains(t, run("ls"), "0 of 0 runs")
	require.FileExists(t, reserve)

	harness.FillDisk(t, dir, 0)
	require.NoError(t, os.Truncate(reserve, 0))
	harness.FillDisk(t, dir, 0)
	out, err := exec.CommandContext(t.Context(), program, "ls", "--dir", dir).CombinedOutput()
	require.Equal(t, exitNoEngine, exitStatus(t, err), string(out))
	require.Contains(t, string(out), "nothing is kept in reserve: make some KiB of room elsewhere on this disk")
}
