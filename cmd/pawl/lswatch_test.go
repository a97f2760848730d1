package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// watchList begins ls --watch beside an engine, and returns its lines and a function that ends it.
func watchList(t *testing.T, c *lsCommand) (lines *bufio.Scanner, end func() error) {
	t.Helper()
	from, to := io.Pipe()
	con := &console{Out: to, Errs: io.Discard, Now: time.Now}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { // until it is ended
		done <- c.runCommand(ctx, con)
		to.Close()
	}()
	return bufio.NewScanner(from), func() error {
		stop()
		go func() { _, _ = io.Copy(io.Discard, from) }() // ends when it does
		return <-done
	}
}

// A list that is watched has the runs as they stand when one has changed, and ends without an error when it is interrupted.
func TestWatchedList(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "ls") // a path that is short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Socket: api.Local, Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	d, err := workflow.ParseYAML([]byte("name: one\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n"))
	require.NoError(t, err)
	start := func(id workflow.RunID) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
	}
	start("a")

	lines, end := watchList(t, &lsCommand{Watch: true, dirFlag: dirFlag{Dir: dir, jsonFlag: jsonFlag{JSON: true}}})
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), `{"run":"a","status":"running"`)
	start("b")
	require.NoError(t, e.Signal(t.Context(), "a", workflow.Signal{Name: "go"}))
	seen := ""
	for !strings.Contains(seen, `{"run":"b","status":"running"`) || !strings.Contains(seen, `{"run":"a","status":"completed"`) {
		require.True(t, lines.Scan())
		seen += lines.Text() + "\n"
	}
	require.NoError(t, end())

	lines, end = watchList(t, &lsCommand{Watch: true, filterFlag: filterFlag{Status: []string{"running"}}, dirFlag: dirFlag{Dir: dir}})
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "1 of 2 runs") {
		require.NotContains(t, lines.Text(), "a ")
	}
	require.NoError(t, e.Signal(t.Context(), "b", workflow.Signal{Name: "go"}))
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "0 of 2 runs") {
		require.Empty(t, strings.TrimSpace(lines.Text()))
	}
	require.NoError(t, end())

	require.NoError(t, e.Close(context.Background()))
	without := &lsCommand{Watch: true, dirFlag: dirFlag{Dir: dir}}
	require.ErrorIs(t, without.runCommand(t.Context(), &console{Out: io.Discard, Errs: io.Discard, Now: time.Now}), api.ErrNoEngine)
}
