package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// serviceName is what this binary is called when it is the program of a directory and no command.
const serviceName = "orders"

// runService has the directory that its argument names open until its input ends, and says so.
func runService() {
	e, err := pawl.Open(context.Background(), os.Args[1], pawl.Options{LockWait: time.Minute, Socket: inspector.Local})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it
	if err := e.Close(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A service is a process that has a directory.
type service struct {
	cmd *exec.Cmd
	in  io.Closer
}

// startService starts one, which must come to have the directory.
func startService(t *testing.T, dir string) *service {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	s := &service{cmd: exec.CommandContext(t.Context(), binary, dir)}
	s.cmd.Args[0], s.cmd.Env = serviceName, harness.Environment()
	s.in, err = s.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "open\n", line)
	return s
}

// A program starts beside people who look at its directory all the time, also right after it was killed. They see runs,
// or are told who has the directory.
func TestServiceStartsWhilePeopleLook(t *testing.T) {
	harness.InTurn(t, 4)
	e, dir := startWaiting(t, pawl.Options{})
	require.NoError(t, e.Close(t.Context()))
	program := program(t)
	stop := make(chan struct{})
	var looking sync.WaitGroup
	var mu sync.Mutex
	looks, refused := 0, 0
	for range 2 {
		looking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				out, err := exec.CommandContext(t.Context(), program, "ls", "--dir", dir).CombinedOutput()
				mu.Lock()
				looks++
				if err != nil {
					refused++
					if !strings.Contains(string(out), "the directory is in use by ") && !strings.Contains(string(out), "is starting, and this command has let it have") && !strings.Contains(string(out), errLost.Error()) {
						t.Errorf("%v: %s", err, out)
					}
				} else if !strings.Contains(string(out), "r-1") {
					t.Errorf("nothing is listed: %s", out)
				}
				mu.Unlock()
			}
		})
	}
	for i := range 10 {
		s := startService(t, dir)
		if i%2 == 0 {
			require.NoError(t, s.cmd.Process.Kill())
			go func() { _ = s.cmd.Wait() }() // the next one starts before it is gone
			continue
		}
		require.NoError(t, s.in.Close())
		require.NoError(t, s.cmd.Wait())
	}
	close(stop)
	looking.Wait()
	require.Less(t, refused, looks, "nobody has ever seen a run")
	t.Logf("10 starts, %d looks, %d of them refused", looks, refused)
}

// Pages of a closed directory give it to the program that is started, and a command that is in the way is named.
func TestServeGivesWay(t *testing.T) {
	dir := filepath.Join(harness.Workspace(t), "engine")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	require.NoError(t, e.Close(t.Context()))
	cmd := exec.CommandContext(t.Context(), program(t), "serve", "--dir", dir, "--addr", "127.0.0.1:0")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, err = pawl.Open(t.Context(), dir, pawl.Options{LockWait: -1})
	require.ErrorIs(t, err, pawl.ErrLocked)
	if held := (*pawl.LockedError)(nil); harness.CurrentLevel() != harness.Quick { // else the command is this binary
		require.ErrorAs(t, err, &held)
		require.Equal(t, &pawl.LockedError{Process: cmd.Process.Pid, Command: "pawl serve"}, held)
	}
	s := startService(t, dir)
	require.Equal(t, exitNoEngine, exitStatus(t, cmd.Wait()), said.String())
	require.Contains(t, said.String(), "pawl: "+errGaveWay.text)
	require.NoError(t, s.in.Close())
	require.NoError(t, s.cmd.Wait())
}
