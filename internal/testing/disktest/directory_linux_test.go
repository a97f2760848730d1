//go:build amd64 || arm64

package disktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

var oneTask = &workflow.Definition{Name: "one", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "a"}}}

// quick performs any task at once.
var quick = pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }}

// reopen opens the directory of a trial, waits for so many runs, and closes it.
func (t *trial) reopen(test *testing.T, runs int) {
	h, err := newHost(t.Dir, work{})
	require.NoError(test, err)
	engine, err := h.open(test.Context(), quick)
	require.NoError(test, err)
	for i := range runs {
		out, err := engine.Wait(test.Context(), workflow.RunID(fmt.Sprint("run-", i)))
		require.NoError(test, err)
		require.Equal(test, workflow.RunCompleted, out.Status)
	}
	require.NoError(test, engine.Close(test.Context()))
	require.Empty(test, h.logged())
	found, err := witness.Take(t.Dir, false)
	require.NoError(test, err)
	require.GreaterOrEqual(test, len(found), runs)
}

// mounted returns a trial whose engine directory is a file system of 4 MiB, and a
// host of it.
func mounted(t *testing.T) (*trial, *host) {
	trial, err := newTrial(filepath.Join(harness.Workspace(t), "trial"), work{}, nil)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(trial.Engine(), 0o700))
	harness.MountSmall(t, trial.Engine(), 4<<20)
	h, err := newHost(trial.Dir, work{})
	require.NoError(t, err)
	return trial, h
}

func run(i int) workflow.Run {
	return workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: oneTask}
}

// A disk is really full: when an engine is opened, while runs go on, while one is
// filed, and for one run that needs more than there is, but not for another.
func TestFullDisk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	trial, h := mounted(t)
	release := harness.FillDisk(t, trial.Engine(), 0)
	_, err := h.open(ctx, nil)
	require.ErrorIs(t, err, pawl.ErrNoSpace)
	release()

	hold := make(chan struct{})
	h.forget()
	engine, err := h.open(ctx, pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}})
	require.NoError(t, err)
	require.NoError(t, engine.Start(ctx, run(0), nil))
	release = harness.FillDisk(t, trial.Engine(), 0)
	close(hold)
	require.Contains(t, h.awaitLog(ctx, t, 0)[0], "run=run-0", "a result could not be committed")
	require.ErrorIs(t, engine.Start(ctx, run(1), object{"long": long + long + long}), pawl.ErrNoSpace)
	release()
	require.NoError(t, engine.Start(ctx, run(1), object{"long": long + long + long}))
	for i := range 2 {
		out, err := engine.Wait(ctx, run(i).ID)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
	}

	release = harness.FillDisk(t, trial.Engine(), 512<<10) // the log has room for small commits, and runs are filed
	require.ErrorIs(t, engine.Start(ctx, run(2), object{"long": harness.RandomLetters(900 << 10)}), pawl.ErrNoSpace)
	out, err := engine.Run(ctx, run(2), nil)
	require.NoError(t, err, "another run has enough")
	require.Equal(t, workflow.RunCompleted, out.Status)
	release()

	require.NoError(t, engine.Close(ctx))
	trial.reopen(t, 3)
	whenFiled(t)
	t.Logf("full disk: at Open, while 2 runs went on, for 1 of 2 runs, while 1 was filed: 0 violations")
}

// logged returns the lines of the log.
func (h *host) logged() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.report.Logged)
}

// forget empties the report.
func (h *host) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report = report{}
}

// awaitLog waits until the log has more than so many lines, and returns those.
func (h *host) awaitLog(ctx context.Context, t *testing.T, lines int) []string {
	for {
		if log := h.logged(); len(log) > lines {
			return log[lines:]
		}
		require.NoError(t, pause(ctx, time.Millisecond), "nothing more is logged")
	}
}

// whenFiled has the disk full while a run is filed: its outcome is known, and it is
// filed in the next life.
func whenFiled(t *testing.T) {
	trial, h := mounted(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	engine, err := h.open(ctx, quick)
	require.NoError(t, err)
	release := make(chan func(), 1)
	reset := h.hook.OnHit(func(name string) {
		if name == "file.fill" && len(release) == 0 {
			release <- harness.FillDisk(t, trial.Engine(), 0)
		}
	})
	out, err := engine.Run(ctx, run(0), nil)
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
	var free func()
	select {
	case free = <-release:
	case <-ctx.Done():
		t.Fatal("the run is not filed")
	}
	log := h.awaitLog(ctx, t, 0) // until the filing has failed
	reset()
	free()
	require.Contains(t, log[0], "no space left")
	require.NoError(t, engine.Close(ctx))
	trial.reopen(t, 1)
}

// The file system is read-only: Open says so, and changes nothing.
func TestReadOnlyFileSystem(t *testing.T) {
	trial, h := mounted(t)
	for n := range 2 { // an empty directory, and one with a run
		before := harness.Contents(t, trial.Engine())
		require.NoError(t, unix.Mount("none", trial.Engine(), "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		_, err := h.open(t.Context(), nil)
		require.ErrorIs(t, err, syscall.EROFS)
		require.Equal(t, before, harness.Contents(t, trial.Engine()))
		require.NoError(t, unix.Mount("none", trial.Engine(), "", unix.MS_REMOUNT, ""))
		engine, err := h.open(t.Context(), quick)
		require.NoError(t, err)
		_, err = engine.Run(t.Context(), run(n), nil)
		require.NoError(t, err)
		require.NoError(t, engine.Close(t.Context()))
	}
	trial.reopen(t, 2)
	t.Log("read-only file system: 2 times, 0 violations")
}

// The directory belongs to somebody else: a process without rights to it is told,
// and changes nothing.
func TestNoRights(t *testing.T) {
	dir := harness.Workspace(t)
	self, err := os.Executable()
	require.NoError(t, err)
	var attr *syscall.SysProcAttr
	if os.Getuid() == 0 {
		attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		require.NoError(t, os.Chmod(dir, 0o777))
		self = copyProgram(t, self, dir)
	}
	trial, err := newTrial(filepath.Join(dir, "trial"), workNamed("small"), nil)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(trial.Dir, 0o777))
	check := func(mode os.FileMode) {
		require.NoError(t, os.Chmod(trial.Engine(), mode))
		before := harness.Contents(t, trial.Engine())
		ledger, err := os.OpenFile(filepath.Join(trial.Dir, "ledger"), os.O_CREATE, 0o600)
		require.NoError(t, err)
		require.NoError(t, errors.Join(ledger.Chmod(0o666), ledger.Close()))
		c, err := startProgram(self, attr)
		require.NoError(t, err)
		var r report
		err = c.do(order{Work: "small", Dir: trial.Dir, Life: 1}, &r)
		_, ended := c.end()
		require.NoError(t, errors.Join(ended, err))
		require.False(t, r.Done)
		require.NotEmpty(t, r.Told)
		for _, e := range r.Told {
			require.Contains(t, e.Text, "permission denied")
			require.Equal(t, "open", e.Op)
		}
		require.Equal(t, before, harness.Contents(t, trial.Engine()))
		require.NoError(t, os.Chmod(trial.Engine(), 0o700))
	}
	require.NoError(t, os.Mkdir(trial.Engine(), 0o700))
	check(0o555) // an empty directory that cannot be written
	trial.finish()
	require.Empty(t, trial.Wrong)
	if os.Getuid() == 0 {
		check(0o755) // a directory with a run, whose files cannot be read
		check(0o700) // a directory that cannot even be entered
	}
	trial.finish()
	require.Empty(t, trial.Wrong)
	t.Log("no rights: 3 modes, 0 violations")
}

// copyProgram copies this program to where others can run it.
func copyProgram(t *testing.T, self, dir string) string {
	to := filepath.Join(dir, "program")
	data, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
	require.NoError(t, os.Chmod(to, 0o755))
	if info, err := os.Stat(filepath.Dir(dir)); err != nil || info.Mode().Perm()&0o001 == 0 {
		t.Skipf("SKIPPED: another user cannot reach %s", dir)
	}
	return to
}

// The directory is taken away under a living engine: removed, or another put in its
// place. The host is told, lives, and what is put in the place stays as it is.
func TestDirectoryTakenAway(t *testing.T) {
	for _, name := range []string{"removed", "renamed", "replaced"} {
		trial, err := newTrial(filepath.Join(harness.Workspace(t), "trial"), work{}, nil)
		require.NoError(t, err)
		h, err := newHost(trial.Dir, work{})
		require.NoError(t, err)
		engine, err := h.open(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context(), run(0), nil))
		waits := make(chan error)
		go func() {
			_, err := engine.Wait(t.Context(), run(0).ID)
			waits <- err
		}()
		away := filepath.Join(trial.Dir, "away")
		if name == "removed" {
			require.NoError(t, os.RemoveAll(trial.Engine()))
		} else {
			require.NoError(t, os.Rename(trial.Engine(), away))
		}
		if name == "replaced" {
			other, err := h.open(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, other.Close(t.Context()))
		}
		var before map[string]string
		if name == "replaced" {
			before = harness.Contents(t, trial.Engine())
		}
		err = engine.Start(t.Context(), run(1), nil)
		require.ErrorIs(t, err, pawl.ErrFailed)
		require.ErrorIs(t, err, pawl.ErrFenced)
		require.ErrorIs(t, <-waits, pawl.ErrFailed)
		require.ErrorIs(t, engine.Start(t.Context(), run(2), nil), pawl.ErrFailed)
		t.Logf("%s: Start: %v; Close: %v", name, err, engine.Close(t.Context()))
		if name != "removed" { // another engine goes on where the directory is now
			require.NoError(t, os.RemoveAll(filepath.Join(trial.Dir, "moved")))
			moved, err := newTrial(filepath.Join(trial.Dir, "moved"), work{}, nil)
			require.NoError(t, err)
			require.NoError(t, os.Rename(away, moved.Engine()))
			moved.reopen(t, 1)
		}
		if before != nil {
			require.Equal(t, before, harness.Contents(t, trial.Engine()))
		}
		fresh, err := h.open(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, fresh.Close(t.Context()))
	}
}

// The files of runs are on another device than where they are built: they cannot be
// filed, which is told, and everything else goes on. When that is over, they are.
func TestRunsOnAnotherDevice(t *testing.T) {
	trial, err := newTrial(filepath.Join(harness.Workspace(t), "trial"), work{}, nil)
	require.NoError(t, err)
	runs := filepath.Join(trial.Engine(), "runs")
	trial.reopen(t, 0)
	harness.MountSmall(t, runs, 4<<20)
	h, err := newHost(trial.Dir, work{})
	require.NoError(t, err)
	engine, err := h.open(t.Context(), quick)
	require.NoError(t, err)
	for i := range 5 {
		out, err := engine.Run(t.Context(), run(i), nil)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
	}
	require.NoError(t, engine.Close(t.Context()))
	require.Contains(t, strings.Join(h.logged(), ""), "invalid cross-device link")
	require.NoError(t, unix.Unmount(runs, 0))
	trial.reopen(t, 5)
	t.Logf("runs on another device: %d lines logged, 0 violations", len(h.logged()))
}
