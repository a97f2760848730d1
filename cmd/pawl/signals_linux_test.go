package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// withoutReader runs the command with an output that nobody reads, and returns its exit status and what it says beside it.
func withoutReader(t *testing.T, args ...string) (status int, said string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t), args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	cmd.Stdout = writer
	err = cmd.Run()
	require.NoError(t, writer.Close())
	return exitStatus(t, err), errs.String()
}

// startMany starts runs that wait for a signal, below those that startWaiting has started.
func startMany(t *testing.T, e *pawl.Engine, n int) {
	t.Helper()
	d := &workflow.Definition{Name: "many", Start: "w", Nodes: []workflow.Node{{ID: "w", Wait: &workflow.WaitSpec{Event: "go"}}}}
	for i := range n {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprintf("m-%d", i)), Definition: d}, nil))
	}
}

// An act goes on to its end although the reader of its output has gone; a command that looks ends, also one that would go on for ever.
func TestReaderThatGoes(t *testing.T) {
	const many = 12
	e, dir := startWaiting(t, pawl.Options{Socket: inspector.Local})
	startMany(t, e, many)
	count := func(status workflow.RunStatus) (n int) {
		for r, err := range e.Runs(t.Context(), pawl.RunFilter{Workflow: "many"}) {
			require.NoError(t, err)
			if r.Status == status {
				n++
			}
		}
		return n
	}
	status, said := withoutReader(t, "pause", "--workflow", "many", "--by", "ann", "-m", "x", "--yes", "--dir", dir)
	require.Equal(t, exitDone, status, said)
	require.Equal(t, many, count(workflow.RunPaused))
	status, said = withoutReader(t, "events", "-f", "r-1", "--dir", dir)
	require.Equal(t, exitDone, status, said)
	path, temporary := filepath.Join(t.TempDir(), "m.pawl"), t.TempDir()
	status, said = withoutReader(t, "export", "--workflow", "many", "--to", path, "--dir", dir)
	require.Equal(t, exitDone, status, said)
	require.NoError(t, e.Close(t.Context()))

	status, said = withoutReader(t, "resume", "--workflow", "many", "--by", "ann", "-m", "x", "--yes", "--offline", "--json", "--dir", dir)
	require.Equal(t, exitDone, status, said)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Maintenance: true})
	require.NoError(t, err)
	require.Equal(t, many, count(workflow.RunRunning))
	require.NoError(t, e.Close(t.Context()))

	t.Setenv("TMPDIR", temporary)
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"journal", "m-1"}, {"data", "m-1"}, {"sql", "select * from runs", path}} {
		status, said = withoutReader(t, append(args, "--dir", path)...)
		require.Equal(t, exitDone, status, "%v: %s", args, said)
		require.NotContains(t, said, "pipe", args)
	}
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left, "the runs in clear text")
}

// SIGTERM and SIGHUP end a command in order, as an interrupt does: the runs of a file are nowhere in clear text after it.
func TestEndsInOrder(t *testing.T) {
	e, _ := startWaiting(t, pawl.Options{})
	path, temporary := filepath.Join(t.TempDir(), "r-1.pawl"), t.TempDir()
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, e.Export(t.Context(), "r-1", f, pawl.ExportOptions{}))
	require.NoError(t, f.Close())
	require.NoError(t, e.Close(t.Context()))
	t.Setenv("TMPDIR", temporary)
	for _, end := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(end) {
			continue // as nohup(1) has it, and its children: they go on
		}
		cmd := exec.CommandContext(t.Context(), program(t), "serve", "--dir", path, "--addr", "127.0.0.1:0")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		left, err := os.ReadDir(temporary)
		require.NoError(t, err)
		require.NotEmpty(t, left)
		require.NoError(t, cmd.Process.Signal(end))
		require.NoError(t, cmd.Wait(), end)
		left, err = os.ReadDir(temporary)
		require.NoError(t, err)
		require.Empty(t, left, end)
	}
}

// An engine whose process is stopped is named, and waited for by no command without end.
func TestEngineThatIsStopped(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{})
	require.NoError(t, e.Close(t.Context()))
	s := startService(t, dir)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool { // the system takes its time
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	}, time.Minute, time.Millisecond)
	hook := &testhook.Hook{}
	hook.SetMaxNap(100 * time.Millisecond)
	for _, args := range [][]string{{"ls"}, {"why", "r-1"}, {"replay", "r-1"}, {"graph", "r-1"}, {"pause", "r-1", "--by", "ann", "-m", "x"}, {"serve", "--addr", "127.0.0.1:0"}} {
		var out, errs strings.Builder
		con := &console{In: strings.NewReader(""), Out: &out, Errs: &errs, Now: time.Now}
		status := con.runArguments(testhook.With(t.Context(), hook), append(args, "--dir", dir))
		require.Equal(t, exitNoEngine, status, "%v: %s", args, errs.String())
		require.Contains(t, errs.String(), fmt.Sprintf("process %d has %s open and does not answer", s.cmd.Process.Pid, dir), args)
	}
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
	require.NoError(t, s.in.Close())
	require.NoError(t, s.cmd.Wait())
}

// An interrupt ends pawl test behind the scenario that is played. Nobody reads what it writes before the interrupt, so it cannot be done by then.
func TestScenariosAreInterrupted(t *testing.T) {
	const scenarios = 1000
	folder := harness.Workspace(t)
	var text strings.Builder
	for i := range scenarios {
		fmt.Fprintf(&text, "---\n%s", strings.Replace(good, "good", fmt.Sprintf("%s-%d", strings.Repeat("x", 200), i), 1))
	}
	path := filepath.Join(folder, "many.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.TrimPrefix(text.String(), "---\n")), 0o600))
	cmd := exec.CommandContext(t.Context(), program(t), "test", path)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReaderSize(out, 16)
	_, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	played := 1
	for err == nil {
		_, err = lines.ReadString('\n')
		played++
	}
	require.Equal(t, exitInterrupted, exitStatus(t, cmd.Wait()), errs.String())
	require.Less(t, played, scenarios)
	require.Contains(t, errs.String(), "it ends with this scenario")
}

// The first signal ends a command that reads its input, or the pipe that a path names.
func TestInputIsInterrupted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "order.yaml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	definition := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(definition, []byte("name: a\nstart: a\nnodes: [{id: a}]"), 0o600))
	blanks := strings.Repeat(" ", 256<<10) // more than a pipe holds: once it is written, somebody reads
	for _, args := range [][]string{{"publish", "-"}, {"start", "a", "--input", "-"}, {"publish", pipe}, {"run", pipe}, {"run", definition, "--input", pipe}} {
		cmd := exec.CommandContext(t.Context(), program(t), args...)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		to := in
		if args[len(args)-1] == pipe {
			to, err = os.OpenFile(pipe, os.O_WRONLY, 0)
			require.NoError(t, err)
		}
		_, err = io.WriteString(to, blanks)
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.Equal(t, exitInterrupted, exitStatus(t, cmd.Wait()), args)
		_ = to.Close() // it may be closed by Wait
	}
}
