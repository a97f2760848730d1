package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// The other commands reach the run that pawl run has in a directory while it goes on.
func TestRunIsReached(t *testing.T) {
	program, err := exec.LookPath("pawl") // that of this binary
	require.NoError(t, err)
	folder := harness.Workspace(t)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ask.yaml"), []byte("name: ask\nstart: a\nnodes: [{id: a, wait: {event: go}, output: {output.said: result}}]\n"), 0o600))
	command := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), program, args...)
		c.Dir, c.Env = folder, harness.Environment("PAWL_DIR=data")
		return c
	}
	run := command("run", "ask.yaml", "--dir", "data")
	out, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	printed := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(out) // an error ends it too, and the text then lacks something
		printed <- string(text)
	}()
	require.Eventually(t, func() bool { // it has to begin, and may end before a signal that it took is confirmed
		return command("signal", "ask-1", "go", "--payload", `"yes"`, "-m", "a test").Run() == nil || len(printed) > 0
	}, time.Minute, 10*time.Millisecond)
	require.Contains(t, <-printed, `"said"`)
	require.NoError(t, run.Wait())
}

// An engine whose definitions cannot be published is closed before its directory goes, however soon the command is interrupted.
func TestRunClosesTheEngineThatIsOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		main, other := filepath.Join(folder, "main.yaml"), filepath.Join(folder, "other.yaml")
		require.NoError(t, os.WriteFile(main, []byte("name: sub\nstart: a\nnodes: [{id: a}]\n"), 0o600))
		require.NoError(t, os.WriteFile(other, []byte("name: sub\nstart: b\nnodes: [{id: b}]\n"), 0o600))
		def, err := readDefinition(t.Context(), main)
		require.NoError(t, err)
		ctx, interrupt := context.WithCancel(t.Context())
		hook, disk := &testhook.Hook{}, make(chan struct{})
		hook.OnHit(func(point string) {
			if point == "close.begin" {
				interrupt()
				<-disk
			}
		})
		c, ended := &runCommand{Publish: []string{main, other}}, make(chan error, 1)
		go func() {
			_, err := c.openEngine(testhook.With(ctx, hook), filepath.Join(folder, "data"), def, &executor{})
			ended <- err
		}()
		<-time.After(time.Minute)
		require.Empty(t, ended, "the engine is still open")
		close(disk)
		require.ErrorIs(t, <-ended, pawl.ErrPublished)
	})
}
