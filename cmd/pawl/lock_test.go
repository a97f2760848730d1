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
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
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
	seen := make(chan bool, 1)
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
					if !strings.Contains(string(out), "the directory is in use by ") && !strings.Contains(string(out), "is starting, and this command has let it have") && !strings.Contains(string(out), errLost.Error()) && !strings.Contains(string(out), "and does not answer") {
						t.Errorf("%v: %s", err, out)
					}
				} else if !strings.Contains(string(out), "r-1") {
					t.Errorf("nothing is listed: %s", out)
				} else {
					select {
					case seen <- true:
					default:
					}
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
	<-seen
	close(stop)
	looking.Wait()
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

// The program of a directory starts beside a prompt that shows one of its runs: all that is shown is read before.
func TestStepLeavesTheDirectory(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{})
	require.NoError(t, e.Close(t.Context()))
	cmd := exec.CommandContext(t.Context(), program(t), "step", "r-1", "--dir", dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	shown := bufio.NewReader(out)
	line, err := shown.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "r-1 record 1/")
	s := startService(t, dir)
	_, err = io.WriteString(in, "0\nq\n")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, shown)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.NoError(t, s.in.Close())
	require.NoError(t, s.cmd.Wait())
}

// Readers of recorded runs give way to the engine of their directory, also of one that is in a folder.
func TestReadersOfRecordingsGiveWay(t *testing.T) {
	folder := harness.Workspace(t)
	dir := filepath.Join(folder, "engine")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	d := &workflow.Definition{Name: "wait", Start: "w", Nodes: []workflow.Node{{ID: "w", Wait: &workflow.WaitSpec{Event: "go"}}}}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r-1", Definition: d}, nil))
	require.NoError(t, e.Close(t.Context()))
	newLooking := func() (context.Context, *console) {
		con := &console{Out: io.Discard, Errs: io.Discard, Now: time.Now, looks: true}
		ctx, end := context.WithCancelCause(t.Context())
		t.Cleanup(func() { end(nil) })
		con.end = end
		return ctx, con
	}
	// awaitWay returns how an engine that is opened has fared, once ctx is done or the engine has failed.
	awaitWay := func(ctx context.Context) (opened chan error) {
		opened = make(chan error, 1)
		failed := make(chan struct{})
		go func() {
			e, err := pawl.Open(t.Context(), dir, pawl.Options{LockWait: time.Minute})
			if err == nil {
				err = e.Close(t.Context())
			}
			opened <- err
			close(failed)
		}()
		select {
		case <-ctx.Done():
		case <-failed:
		}
		return opened
	}
	ctx, con := newLooking()
	var opened chan error
	_, _ = recordedFlag{}.eachRecording(ctx, con, []string{folder}, func(*replay.Recording) error { // it may have come to the end of what there is
		opened = awaitWay(ctx)
		return nil
	})
	require.Equal(t, errGaveWay, context.Cause(ctx))
	require.NoError(t, <-opened)

	ctx, con = newLooking()
	rec, find, done, err := recordedFlag{Dir: dir}.openRecording(ctx, con, "r-1", &sources{})
	require.NoError(t, err)
	opened = awaitWay(ctx)
	for _, err = range rec.Records() {
	}
	require.ErrorIs(t, err, errGaveWay)
	rec, err = find("r-1")
	require.NoError(t, err)
	for _, err = range rec.Records() {
	}
	require.ErrorIs(t, err, errGaveWay)
	done()
	require.NoError(t, <-opened)
}
