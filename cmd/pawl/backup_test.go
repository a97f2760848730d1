package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// A copy follows a live engine through its socket until that closes, and makes a directory again.
func TestBackupFollow(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{Socket: inspector.Local})
	copied, restored := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "restored")
	out, in := io.Pipe()
	con := &console{In: strings.NewReader(""), Out: in, Errs: io.Discard, Now: time.Now}
	ended := make(chan int, 1)
	go func() {
		ended <- con.runArguments(t.Context(), []string{"backup", copied, "--follow", "--interval", "1ms", "--dir", dir})
		_ = in.Close()
	}()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), copied+": base of ")
	require.NoError(t, e.Signal(t.Context(), "r-1", workflow.Signal{Name: "go"}))
	_, err := e.Wait(t.Context(), "r-1")
	require.NoError(t, err)
	other := &console{In: strings.NewReader(""), Out: io.Discard, Errs: io.Discard, Now: time.Now}
	require.Equal(t, exitRefused, other.runArguments(t.Context(), []string{"backup", copied, "--follow", "--dir", dir}))
	var refusal strings.Builder
	other.Errs = &refusal
	require.Equal(t, exitUnusable, other.runArguments(t.Context(), []string{"backup", filepath.Join(dir, "copy"), "--follow", "--dir", dir}))
	require.NotContains(t, refusal.String(), "the copy has what was committed", "there is none")
	hasEnded := func(into string) bool { // in the copy
		require.Equal(t, exitDone, other.runArguments(t.Context(), []string{"restore", copied, into, "--json"}))
		require.Equal(t, exitDone, other.runArguments(t.Context(), []string{"verify", into}))
		e, err := pawl.Open(t.Context(), into, pawl.Options{})
		require.NoError(t, err)
		run, err := e.Summary(t.Context(), "r-1")
		require.NoError(t, err)
		require.NoError(t, e.Close(context.Background()))
		return run.Status.Final()
	}
	for !hasEnded(filepath.Join(t.TempDir(), "meanwhile")) { // while nobody closes it, it comes
		<-time.After(10 * time.Millisecond)
	}
	require.NoError(t, e.Close(context.Background()))
	for lines.Scan() {
		require.NotContains(t, lines.Text(), "fails")
	}
	<-ended
	require.True(t, hasEnded(restored))
}
