package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// An interrupt ends what reads a whole directory, and nothing half-made is left.
func TestRescueIsInterrupted(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{})
	require.NoError(t, e.Close(t.Context()))
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	folder := t.TempDir()
	for _, args := range [][]string{{"verify", dir}, {"repair", dir, filepath.Join(folder, "x")}, {"restore", dir, filepath.Join(folder, "x")}} {
		var errs strings.Builder
		con := &console{In: strings.NewReader(""), Out: io.Discard, Errs: &errs, Now: time.Now}
		require.Equal(t, exitInterrupted, con.runArguments(ctx, args), args)
		require.Equal(t, "pawl: interrupted\n", errs.String(), args)
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

// closes fits what a copy says of an engine that closes: that ends the stream of reports, or breaks it off.
const closes = "(the engine is closed|the connection with the engine broke: [^:]+: unexpected EOF)"

// A copy follows a live engine through its socket until it is interrupted, and makes a directory again.
func TestBackupFollow(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{Socket: inspector.Local})
	copied, restored := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "restored")
	out, in := io.Pipe()
	said, saying := io.Pipe()
	con := &console{In: strings.NewReader(""), Out: in, Errs: saying, Now: time.Now}
	ended := make(chan int, 1)
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		ended <- con.runArguments(ctx, []string{"backup", copied, "--follow", "--interval", "1ms", "--dir", dir})
		_, _ = in.Close(), saying.Close()
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
	remark, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, closes+": the copy waits for the next engine that has "+regexp.QuoteMeta(dir)+" open\n$", remark)
	interrupt()
	go func() { _, _ = io.Copy(io.Discard, said) }() // until the command has ended
	for lines.Scan() {
		require.NotContains(t, lines.Text(), "fails")
	}
	require.Equal(t, exitInterrupted, <-ended)
	require.True(t, hasEnded(restored))
}

// A copy outlives the engine: it waits for the next one after a kill and after a restart, and ends where the next one has another directory.
func TestBackupFollowsTheNextEngine(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{})
	require.NoError(t, e.Close(t.Context()))
	s := startService(t, dir)
	folder := t.TempDir()
	out, in := io.Pipe()
	said, saying := io.Pipe()
	con := &console{In: strings.NewReader(""), Out: in, Errs: saying, Now: time.Now}
	ctx, interrupt := context.WithTimeout(t.Context(), 10*time.Minute)
	defer interrupt()
	ended := make(chan int, 1)
	go func() {
		ended <- con.runArguments(ctx, []string{"backup", filepath.Join(folder, "copy"), "--follow", "--interval", "1ms", "--json", "--dir", dir})
		_, _ = in.Close(), saying.Close()
	}()
	reports := make(chan api.FollowReport)
	go func() { // until the command has ended
		defer close(reports)
		for d := json.NewDecoder(out); ; {
			var r api.FollowReport
			if d.Decode(&r) != nil {
				return
			}
			reports <- r
		}
	}()
	remarks := make(chan string, 20) // the command never waits for the test
	go func() {                      // until the command has ended
		for lines := bufio.NewScanner(said); lines.Scan(); {
			remarks <- lines.Text()
		}
		close(remarks)
	}()
	awaitReport := func(fits func(api.FollowReport) bool) {
		t.Helper()
		for r := range reports {
			if r.Waiting == 0 && !r.Base.IsZero() && fits(r) { // its base is of this engine
				return
			}
		}
		t.Fatal("the command has ended: ", <-ended, <-remarks)
	}
	runQuietly := func(args ...string) {
		other := &console{In: strings.NewReader(""), Out: io.Discard, Errs: io.Discard, Now: time.Now}
		require.Equal(t, exitDone, other.runArguments(t.Context(), args), args)
	}
	stopService := func() {
		require.NoError(t, s.in.Close())
		require.NoError(t, s.cmd.Wait())
	}

	awaitReport(func(api.FollowReport) bool { return true })
	require.NoError(t, s.cmd.Process.Kill())
	require.Error(t, s.cmd.Wait())
	require.Regexp(t, "^pawl: the connection with the engine broke: [^:]+: unexpected EOF: the copy waits for the next engine that has "+dir+" open$", <-remarks)
	s = startService(t, dir)
	require.Equal(t, fmt.Sprintf("live, pid %d: it goes on", s.cmd.Process.Pid), <-remarks)
	awaitReport(func(api.FollowReport) bool { return true })
	runQuietly("signal", "r-1", "go", "-m", "x", "--by", "ann", "--dir", dir)
	awaitReport(func(api.FollowReport) bool {
		into := filepath.Join(t.TempDir(), "restored")
		runQuietly("restore", filepath.Join(folder, "copy"), into)
		e, err := pawl.Open(t.Context(), into, pawl.Options{Maintenance: true})
		require.NoError(t, err)
		run, err := e.Summary(t.Context(), "r-1")
		require.NoError(t, errors.Join(err, e.Close(t.Context())))
		return run.Status.Final()
	})
	stopService()
	require.Regexp(t, closes+": the copy waits for the next engine", <-remarks)

	require.NoError(t, os.Rename(dir, dir+"-away"))
	s = startService(t, dir)
	go func() { // until the command has ended
		for range reports {
		}
	}()
	require.Equal(t, exitNoEngine, <-ended)
	require.Contains(t, <-remarks, pawl.ErrOtherLog.Error())
	stopService()
}
