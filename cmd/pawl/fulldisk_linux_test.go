package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
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
	endOrders(t, e, 24)
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

// endOrders has so many runs of the definition that it returns.
func endOrders(t *testing.T, e *pawl.Engine, runs int) *workflow.Definition {
	d := &workflow.Definition{Name: "order", Start: "a", Nodes: []workflow.Node{{ID: "a", End: &workflow.EndSpec{}}}}
	for i := range runs {
		out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("order-", i)), Definition: d}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
	}
	return d
}

// With nothing left of the disk, an engine that is open says so, and a purge helps it: that gets the reserve, which is there again
// afterwards. A purge without a reserve stops at the first run, and says why.
func TestPurgeByAnEngineOnAFullDisk(t *testing.T) {
	dir := filepath.Join(harness.Workspace(t), "engine")
	require.NoError(t, os.Mkdir(dir, 0o700))
	harness.MountSmall(t, dir, 8<<20)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Socket: inspector.Local})
	require.NoError(t, err)
	d := endOrders(t, e, 100)
	require.NoError(t, e.Close(t.Context())) // nothing is on its way into files from here on
	e, err = pawl.Open(t.Context(), dir, pawl.Options{Socket: inspector.Local})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	handler := api.Handler(e, api.Options{})
	readiness := func() int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		return w.Code
	}
	purge := func() *exec.Cmd {
		return exec.CommandContext(t.Context(), program(t), "purge", "--workflow", "order", "--yes", "-m", "room", "--dir", dir)
	}
	var full error
	start := func(id string) error {
		return e.Start(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: d}, nil)
	}
	fill := func() (release func()) {
		release = harness.FillDisk(t, dir, 0)
		for i := 0; full == nil || readiness() == http.StatusOK; i++ { // some fit into room that the files have already
			full = start(fmt.Sprint("more-", i))
		}
		require.ErrorIs(t, full, pawl.ErrNoSpace)
		return release
	}
	require.Equal(t, http.StatusOK, readiness())
	fill()
	stats, err := e.Stats(t.Context())
	require.NoError(t, err)
	require.True(t, stats.DiskFull)
	out, err := purge().CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "purged: ")
	reserve := filepath.Join(dir, "tmp", "reserve")
	require.FileExists(t, reserve)
	require.NoError(t, start("again"))
	require.Equal(t, http.StatusOK, readiness())

	require.NoError(t, os.Truncate(reserve, 0))
	full = nil
	release := fill()
	cmd := purge()
	out, err = cmd.CombinedOutput()
	require.Equal(t, exitNoEngine, exitStatus(t, err), string(out))
	require.Equal(t, 3, strings.Count(string(out), "\n"), "%s", out)
	require.Contains(t, string(out), "stopped behind 0 runs: ")
	require.Contains(t, string(out), "nothing is kept in reserve: make some KiB of room elsewhere on this disk")
	release()
	require.NoError(t, start("at-last"))
	require.Equal(t, http.StatusOK, readiness())
}
