package natstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/nodestrial"
	"github.com/pawl-run/pawl/workflow"

	"github.com/pawl-run/pawl/nats/natscluster"
)

// A builtCommand is the command pawl-nats.
type builtCommand struct {
	t    *testing.T
	path string
}

func buildCommand(t *testing.T) builtCommand {
	t.Helper()
	path, err := buildOnce()
	require.NoError(t, err)
	return builtCommand{t, path}
}

// commandDir is where the command is, if a test has asked for it. TestMain removes it.
var commandDir string

// buildOnce builds the command for all tests, and returns its path.
var buildOnce = sync.OnceValues(func() (path string, err error) {
	if commandDir, err = os.MkdirTemp("", "pawl-nats-*"); err != nil {
		return "", err
	}
	path = filepath.Join(commandDir, "pawl-nats")
	out, err := exec.Command("go", "build", "-o", path, "github.com/pawl-run/pawl/nats/cmd/pawl-nats").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the command: %w: %s", err, out)
	}
	return path, nil
})

// run returns what the command has printed, and requires its exit status.
func (c builtCommand) run(status int, args ...string) string {
	c.t.Helper()
	got, out := c.try(args...)
	require.Equal(c.t, status, got, "%v: %s", args, out)
	return out
}

// try returns the exit status of the command, and what it has printed.
func (c builtCommand) try(args ...string) (status int, out string) {
	cmd := exec.CommandContext(c.t.Context(), c.path, args...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// An operator begins the log of a cluster anew that is gone, from the directory of a node, with the command alone.
func TestCommandRecovers(t *testing.T) {
	c := buildCommand(t)
	s := startServer(t)
	conn := connect(t, s.ClientURL())
	dir := filepath.Join(t.TempDir(), "data")
	backend, err := natscluster.Open(t.Context(), conn, natscluster.Options{Name: "orders"})
	require.NoError(t, err)
	open := func() (*pawl.Engine, error) {
		log, err := backend.NewLog(t.Context())
		require.NoError(t, err)
		return pawl.Open(t.Context(), dir, pawl.Options{
			Executor: pawl.Handlers{"work": number}, Durability: pawl.ProcessCrash, Remote: pawl.RemoteOptions{Log: log, Bases: backend.Bases}, Blobs: backend.Blobs,
		})
	}
	e, err := open()
	require.NoError(t, err)
	for _, id := range []workflow.RunID{"a", "b"} {
		_, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, fanOut)}, items(3))
		require.NoError(t, err)
	}
	want := nodestrial.SumJournals(t, e)
	at := []string{"-s", s.ClientURL(), "-name", "orders"}
	require.Contains(t, c.run(4, append([]string{"recover"}, append(at, dir)...)...), "in use by another engine")
	require.NoError(t, e.Close(t.Context()))

	recoverIt := func(status int, flags ...string) string {
		t.Helper()
		return c.run(status, append(append(append([]string{"recover"}, at...), flags...), dir)...)
	}
	require.Contains(t, recoverIt(1), "the directory lacks nothing of the log")
	require.Contains(t, recoverIt(2, "-give-up", "0"), "lacks nothing that the directory needs")
	js, err := newJetStream(conn)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "PAWLLOG_orders"))
	require.Contains(t, recoverIt(2), "-replicas says on how many servers a new one is")
	require.Contains(t, recoverIt(0, "-replicas", "1", "-give-up", "0"), "the log is begun anew")
	e, err = open()
	require.NoError(t, err)
	require.Equal(t, want, nodestrial.SumJournals(t, e))
	require.NoError(t, e.Close(t.Context()))

	require.Contains(t, c.run(2), "Usage: pawl-nats doctor")
	require.Contains(t, c.run(2, "recover"), "Usage of pawl-nats recover")
	require.Contains(t, c.run(2, "recover", filepath.Join(t.TempDir(), "nothing")), "no such file")
	require.Contains(t, c.run(4, "doctor", "-s", "nats://127.0.0.1:1"), "no server answers")
	require.Contains(t, c.run(2, "doctor", "-s", s.ClientURL()), "it takes a connection of the system account")
	require.Contains(t, strings.ToLower(c.run(0, "help")), "usage")
}
