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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

// On a full disk commands that write a file or a directory say so by their status, and a file keeps what it had.
func TestOutputsOnAFullDisk(t *testing.T) {
	dir, disk := filepath.Join(harness.Workspace(t), "engine"), filepath.Join(harness.Workspace(t), "disk")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	endOrders(t, e, 2)
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, os.Mkdir(disk, 0o700))
	harness.MountSmall(t, disk, 1<<20)
	path := filepath.Join(disk, "out")
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o600))
	harness.FillDisk(t, disk, 0)
	for _, line := range []string{"trace DIR:order-1 -o DISK/out", "trace DIR:order-1 -o /dev/full", "repair DIR DISK/repaired", "export order-1 --to DISK/exported --dir DIR"} {
		line = strings.NewReplacer("DIR", dir, "DISK", disk).Replace(line)
		out, err := exec.CommandContext(t.Context(), program(t), strings.Fields(line)...).CombinedOutput()
		require.Equal(t, exitNoEngine, exitStatus(t, err), "%s: %s", line, out)
		require.Contains(t, string(out), "no space left", line)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before", string(text))
}

// A copy is no mount point itself, as that cannot be replaced, and is refused before anything is copied. A copy that finds no room says so, and nothing else.
func TestCopiesOntoASmallDisk(t *testing.T) {
	dir, disk := filepath.Join(harness.Workspace(t), "engine"), filepath.Join(harness.Workspace(t), "disk")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	endOrders(t, e, 100)
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, os.Mkdir(disk, 0o700))
	harness.MountSmall(t, disk, 512<<10)
	for _, line := range []string{"repair DIR DISK", "restore DIR DISK", "backup DISK --dir DIR", "repair DIR DISK/x", "restore DIR DISK/x", "backup DISK/x --dir DIR"} {
		line = strings.NewReplacer("DIR", dir, "DISK", disk).Replace(line)
		out, err := exec.CommandContext(t.Context(), program(t), strings.Fields(line)...).CombinedOutput()
		if strings.Contains(line, disk+"/x") {
			require.Equal(t, exitNoEngine, exitStatus(t, err), "%s: %s", line, out)
			require.Contains(t, string(out), "no space left", line)
			require.NotRegexp(t, "unknown|canceled", string(out), line)
		} else {
			require.Equal(t, exitUnusable, exitStatus(t, err), "%s: %s", line, out)
			require.Contains(t, string(out), "disk is a mount point: name a directory in it", line)
		}
		left, err := os.ReadDir(disk)
		require.NoError(t, err)
		require.Empty(t, left, line)
	}
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
	var e *pawl.Engine
	open := func() {
		var err error
		e, err = pawl.Open(t.Context(), dir, pawl.Options{Socket: inspector.Local})
		require.NoError(t, err)
	}
	open()
	d := endOrders(t, e, 100)                // their purge gives back more than the reserve and the log take
	require.NoError(t, e.Close(t.Context())) // nothing is on its way into files from here on
	open()
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	readiness := func() int {
		w := httptest.NewRecorder()
		api.Handler(e, api.Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		return w.Code
	}
	purge := func() *exec.Cmd {
		return exec.CommandContext(t.Context(), program(t), "purge", "--workflow", "order", "--yes", "-m", "room", "--dir", dir)
	}
	start := func(id string) error {
		return e.Start(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: d}, nil)
	}
	require.Equal(t, http.StatusOK, readiness())
	harness.FillDisk(t, dir, 0)
	diskFull := func() bool {
		stats, err := e.Stats(t.Context())
		require.NoError(t, err)
		return stats.DiskFull
	}
	full := error(nil)
	for i := 0; full == nil || readiness() == http.StatusOK || !diskFull(); i++ { // some fit into room that the files have already
		require.Less(t, i, 10_000)
		full = start(fmt.Sprint("more-", i))
	}
	require.ErrorIs(t, full, pawl.ErrNoSpace)
	out, err := purge().CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "purged: ")
	reserve := filepath.Join(dir, "tmp", "reserve")
	require.FileExists(t, reserve)
	require.NoError(t, start("again"))
	require.Equal(t, http.StatusOK, readiness())

	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, os.Truncate(reserve, 0))
	open() // with a log in which there is no room
	release := harness.FillDisk(t, dir, 0)
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

// Every command says that its answer cannot be written, in its exit status too. A pipe whose reader has gone is no error of it.
func TestAnOutputThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(harness.Workspace(t), "engine")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	endOrders(t, e, 2)
	require.NoError(t, e.Close(t.Context()))
	program := program(t)
	for _, line := range []string{
		"ls", "ls --json --limit 0", "show order-1", "why order-1", "inbox", "schedule ls", "stats", "journal order-1 --json", "events order-1 --json",
		"threads order-1", "data order-1", "ls --help",
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		var errs strings.Builder
		c := exec.CommandContext(t.Context(), program, append(strings.Fields(line), "--dir", dir)...)
		c.Stdout, c.Stderr = full, &errs
		require.Equal(t, exitUnusable, exitStatus(t, c.Run()), line)
		require.NoError(t, full.Close())
		require.Contains(t, errs.String(), "pawl: write /dev/stdout: no space left on device", line)
	}
	var errs strings.Builder
	con := &console{Out: goneReader{}, Errs: &errs, Now: time.Now}
	require.Equal(t, exitDone, con.runArguments(t.Context(), []string{"ls", "--dir", dir}))
	require.NotContains(t, errs.String(), "pipe")
}

// A goneReader is a pipe that nobody reads, in a process that no signal ends for that.
type goneReader struct{}

func (goneReader) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A directory on a file system that is read-only cannot be opened: the hint names the commands that only read, and they do.
func TestCommandsOnAReadOnlyFileSystem(t *testing.T) {
	dir := filepath.Join(harness.Workspace(t), "engine")
	require.NoError(t, os.Mkdir(dir, 0o700))
	harness.MountSmall(t, dir, 16<<20)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	endOrders(t, e, 2)
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	run := func(args ...string) (int, string) {
		out, err := exec.CommandContext(t.Context(), program(t), args...).CombinedOutput()
		return exitStatus(t, err), string(out)
	}
	status, text := run("ls", "--dir", dir)
	require.Equal(t, exitNoEngine, status, text)
	require.Contains(t, text, "read-only file system\nhint: pawl why and step of DIR:RUN, and sql, verify and replay of DIR, only read it")
	for _, line := range []string{"why DIR:order-1", "step DIR:order-1 --at 1", "verify DIR", "replay DIR"} {
		status, text = run(strings.Fields(strings.ReplaceAll(line, "DIR", dir))...)
		require.Equal(t, exitDone, status, "%s: %s", line, text)
	}
	status, text = run("sql", "SELECT run FROM runs", dir)
	require.Equal(t, exitDone, status, text)
	other := filepath.Join(harness.Workspace(t), "other")
	e, err = pawl.Open(t.Context(), other, pawl.Options{})
	require.NoError(t, err)
	endOrders(t, e, 1)
	require.NoError(t, e.Close(t.Context()))
	status, text = run("export", "order-0", "--dir", other, "--to", filepath.Join(dir, "x"))
	require.Equal(t, exitNoEngine, status, text)
}
