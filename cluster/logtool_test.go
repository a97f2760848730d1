package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/commitlog"
	"github.com/pawl-run/pawl/internal/logtool"
	"github.com/pawl-run/pawl/store/logtest"
)

// Each error has its exit status, and is told once.
func TestExitStatuses(t *testing.T) {
	found := errors.New("found")
	for _, c := range []struct {
		args   []string
		failed error
		status int
		out    string
	}{
		{nil, nil, 2, "usage\n"},
		{[]string{"other"}, nil, 2, "usage\n"},
		{[]string{"help"}, nil, 0, "usage\n"},
		{[]string{"do"}, nil, 0, ""},
		{[]string{"do"}, logtool.ErrNo, 1, ""},
		{[]string{"do"}, found, 1, "tool: found\n"},
		{[]string{"do"}, fmt.Errorf("%w: x", logtool.ErrNoServer), 4, "tool: no server answers: x\n"},
		{[]string{"do"}, pawl.ErrLocked, 4, "tool: " + pawl.ErrLocked.Error() + "\n"},
		{[]string{"do"}, io.ErrUnexpectedEOF, 2, "tool: unexpected EOF\n"},
		{[]string{"do", "operand"}, nil, 2, "Usage of do:\n"},
		{[]string{"do", "-help"}, nil, 0, "Usage of do:\n"},
	} {
		p := logtool.Program{Name: "tool", Usage: "usage\n", Found: []error{found}, Commands: map[string]func(context.Context, []string, io.Writer, io.Writer) error{
			"do": func(_ context.Context, args []string, _, errs io.Writer) error {
				f := flag.NewFlagSet("do", flag.ContinueOnError)
				f.SetOutput(errs)
				if err := logtool.ParseFlags(f, args, 0); err != nil {
					return err
				}
				return c.failed
			},
		}}
		var out bytes.Buffer
		require.Equal(t, c.status, p.RunArguments(t.Context(), c.args, &out, &out), "%v", c)
		require.Equal(t, c.out, out.String())
	}
}

// A directory whose log is gone begins it anew with consent only, and a path that is wrong asks no server.
func TestRecovery(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	openFiles := func() *blob.Files {
		files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, files.Close()) })
		return files
	}
	bases, blobs := openFiles(), openFiles()
	log := new(logtest.Memory)
	newLog := func(context.Context) (commitlog.Log, error) { return log.Writer(nil), nil }
	first, err := newLog(t.Context())
	require.NoError(t, err)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Blobs: blobs, Remote: pawl.RemoteOptions{Log: first, Bases: bases}})
	require.NoError(t, err)
	require.NoError(t, e.Close(t.Context()))
	closed := 0
	recoverLog := func(path string, args ...string) error {
		var r logtool.Recovery
		f := flag.NewFlagSet("recover", flag.ContinueOnError)
		r.AddFlags(f, "name")
		require.NoError(t, f.Parse(args))
		return r.RecoverLog(t.Context(), path, io.Discard, func() (cluster.Backend, func(), error) {
			return cluster.Backend{NewLog: newLog, Bases: bases}, func() { closed++ }, nil
		})
	}
	require.ErrorContains(t, recoverLog(filepath.Join(dir, "nothing")), "no such file")
	require.Zero(t, closed)
	log = new(logtest.Memory) // it is gone
	require.ErrorIs(t, recoverLog(dir), logtool.ErrNo)
	require.NoError(t, recoverLog(dir, "-give-up", "0"))
	require.Equal(t, 2, closed)
}
