package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/socket"
	"github.com/pawl-run/pawl/internal/testhook"
)

// Each kind of error has the exit status that the help promises, and what nobody knows is neither a refusal nor done.
func TestExitStatuses(t *testing.T) {
	full := errors.Join(pawl.ErrNoSpace, pawl.ErrUnknown) // as a commit says it
	broken := fmt.Errorf("%w: %w", pawl.ErrUnknown, explainLoss(io.ErrUnexpectedEOF))
	for want, errs := range map[int][]error{
		exitDone:        {nil},
		exitUnusable:    {errors.New("a flag"), pawl.ErrInvalid, pawl.ErrCorrupt, pawl.ErrVersion, &api.Error{Code: "too_large"}},
		exitNotFound:    {fs.ErrNotExist, pawl.ErrRunNotFound, &api.Error{Code: "blob_missing"}},
		exitNoEngine:    {api.ErrNoEngine, pawl.ErrMaintenance, pawl.ErrRemote, pawl.ErrOtherLog, &api.Error{Code: "remote"}, pawl.ErrClosed, explainLoss(io.ErrUnexpectedEOF), &api.Error{Code: "timeout"}, &api.Error{Code: "internal"}, &api.Error{Code: "closed"}, &api.Error{Code: "no_space"}, full, markUnknown(full, errOfSchedule), markFull(&fs.PathError{Op: "write", Path: "out", Err: syscall.ENOSPC})},
		exitRefused:     {pawl.ErrEnded, pawl.ErrBusy, &api.Error{Code: "conflict"}},
		exitUnknown:     {pawl.ErrUnknown, broken, &api.Error{Code: "unknown_outcome"}, errors.Join(pawl.ErrUnknown, context.Canceled), errors.Join(pawl.ErrUnknown, context.DeadlineExceeded)},
		exitTimeout:     {context.DeadlineExceeded},
		exitInterrupted: {context.Canceled, &toldError{"interrupted", context.Canceled}},
	} {
		for _, err := range errs {
			require.Equal(t, want, statusOf(err), "%v", err)
		}
	}
}

// listenAsEngine answers what is asked at the socket of a new directory, and says which engine it is.
func listenAsEngine(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pawl")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l, err := socket.Listen(dir)
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/engine" {
			answer(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"pid": 1, "counts": [{"runs": 2}]}`))
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return dir
}

// A program that listens in a directory and says nothing is not told as one that has it open where nothing has: the files are.
func TestASilentSocketOfNoEngine(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "pawl")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	l, err := socket.Listen(dir)
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	hook := &testhook.Hook{}
	hook.SetMaxNap(10 * time.Millisecond)
	var out, errs strings.Builder
	con := &console{In: strings.NewReader(""), Out: &out, Errs: &errs, Now: time.Now}
	status := con.runArguments(testhook.With(t.Context(), hook), []string{"ls", "--dir", dir})
	require.Equal(t, exitNotFound, status, errs.String())
	require.Contains(t, errs.String(), "is no engine directory")
}

// A run that is purged while the list is made is not in it.
func TestListWhileARunIsPurged(t *testing.T) {
	dir := listenAsEngine(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/runs":
			_, _ = w.Write([]byte(`{"run": "a", "workflow": "w"}` + "\n" + `{"run": "b", "workflow": "w"}` + "\n"))
		case r.URL.Query().Get("run") == "a":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error": {"status": 404, "code": "run_not_found", "message": "none"}}`))
		default:
			_, _ = w.Write([]byte(`{}`))
		}
	})
	var out strings.Builder
	con := &console{Out: &out, Errs: io.Discard, Now: time.Now}
	require.Equal(t, exitDone, con.runArguments(t.Context(), []string{"ls", "--dir", dir}))
	require.NotContains(t, out.String(), "\na ")
	require.Contains(t, out.String(), "\nb ")
}

// A run that was chosen, and is purged before it is exported, is not in the file; one that was named is missed.
func TestExportWhileARunIsPurged(t *testing.T) {
	e, _ := startWaiting(t, pawl.Options{})
	var text bytes.Buffer
	require.NoError(t, e.Export(t.Context(), "r-1", &text, pawl.ExportOptions{}))
	require.NoError(t, e.Close(t.Context()))
	listed := `{"run": "a", "workflow": "w"}` + "\n" + `{"run": "r-1", "workflow": "w"}` + "\n"
	dir := listenAsEngine(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/runs":
			_, _ = w.Write([]byte(listed))
		case r.URL.Query().Get("run") != "r-1":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error": {"status": 404, "code": "run_not_found", "message": "none"}}`))
		default:
			_, _ = w.Write(text.Bytes())
		}
	})
	to := filepath.Join(t.TempDir(), "w.pawl")
	export := func(args ...string) (int, string) {
		var out strings.Builder
		con := &console{Out: &out, Errs: &out, Now: time.Now}
		return con.runArguments(t.Context(), append([]string{"export", "--to", to, "--dir", dir}, args...)), out.String()
	}
	status, said := export("a", "r-1")
	require.Equal(t, exitNotFound, status, said)
	require.NoFileExists(t, to)
	status, said = export("--workflow", "w")
	require.Equal(t, exitDone, status, said)
	require.Contains(t, said, "w.pawl: 1 run with")
	require.NoError(t, os.Remove(to))
	listed = `{"run": "a", "workflow": "w"}` + "\n" + `{"run": "b", "workflow": "w"}` + "\n"
	status, said = export("--workflow", "w")
	require.Equal(t, exitNotFound, status, said)
	require.Contains(t, said, "no run is chosen")
	require.NoFileExists(t, to)
}

// An export that breaks off says nothing of the run: the engine is lost, or has said why.
func TestExportThatBreaksOff(t *testing.T) {
	last := ""
	dir := listenAsEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"export":{}}` + "\n" + last))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for line, want := range map[string]struct {
		status int
		says   string
	}{
		"": {exitNoEngine, "pawl: the connection with the engine broke: "},
		`{"error":{"status":500,"code":"blob_damaged","message":"blob sha256:1: damaged"}}` + "\n": {exitUnusable, "pawl: blob sha256:1: damaged\n"},
	} {
		last = line
		var errs strings.Builder
		con := &console{Out: io.Discard, Errs: &errs, Now: time.Now}
		require.Equal(t, want.status, con.runArguments(t.Context(), []string{"export", "a", "--to", filepath.Join(t.TempDir(), "x"), "--dir", dir}))
		require.Contains(t, errs.String(), want.says)
		require.NotContains(t, errs.String(), "corrupt")
	}
}

// An engine that dies while it is asked leaves open what it has done, and the command says where that stands.
func TestAnEngineThatDies(t *testing.T) {
	dir := listenAsEngine(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	var out, errs strings.Builder
	con := &console{In: strings.NewReader(""), Out: &out, Errs: &errs, Now: time.Now}
	require.Equal(t, exitUnknown, con.runArguments(t.Context(), []string{"cancel", "a", "--by", "ann", "-m", "x", "--dir", dir}))
	require.Contains(t, errs.String(), "hint: it may have been done: pawl journal RUN tells")
	require.Empty(t, out.String())
	errs.Reset()
	require.Equal(t, exitUnknown, con.runArguments(t.Context(), []string{"cancel", "a", "b", "--by", "ann", "-m", "x", "--dir", dir}))
	require.Contains(t, errs.String(), "of 2 of 2 nobody knows, 0 were refused")
	require.Equal(t, exitNoEngine, con.runArguments(t.Context(), []string{"ls", "--dir", dir}))
	require.Contains(t, errs.String(), "pawl: the connection with the engine broke: EOF\n")
	require.Equal(t, exitUnknown, con.runArguments(t.Context(), []string{"start", "w", "--by", "ann", "--dir", dir}))
	require.Regexp(t, `pawl: run [0-9a-z-]{20,}: `, errs.String(), "the id by which it can be found")
	require.Equal(t, exitNotFound, con.runArguments(t.Context(), []string{"ls", "--dir", filepath.Join(dir, "none")}))
}

// A question that is interrupted is answered by no, at once.
func TestAQuestionThatIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	in, hold := io.Pipe()
	defer hold.Close() // nobody types
	var errs strings.Builder
	con := &console{In: in, Out: io.Discard, Errs: &errs}
	err := new(bulkFlag).confirm(ctx, con, "cancel 7 runs")
	require.Equal(t, exitInterrupted, con.finish(err))
	require.Equal(t, "cancel 7 runs? [y/N] \npawl: interrupted\n", errs.String())
}

// A connection that breaks says nothing of a blob, unless it breaks also where all of the blob is taken at once.
func TestBlobWhoseConnectionBreaks(t *testing.T) {
	content := "content"
	hash := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content)))
	asked, breaks := 0, 1
	dir := listenAsEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = io.WriteString(w, content[:3])
		_ = http.NewResponseController(w).Flush()
		if asked <= breaks {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, content[3:])
	})
	for _, c := range []struct {
		breaks, status int
		says           string
	}{{1, exitNoEngine, "pawl: the connection with the engine broke: "}, {2, exitUnusable, "damaged"}} {
		asked, breaks = 0, c.breaks
		var errs strings.Builder
		con := &console{Out: io.Discard, Errs: &errs, Now: time.Now}
		require.Equal(t, c.status, con.runArguments(t.Context(), []string{"blob", hash, "--dir", dir}), errs.String())
		require.Contains(t, errs.String(), c.says)
	}
}

// Runs of a live engine are read when the list of them has come to its end: to read them may take long.
func TestRunsAreListedBeforeTheyAreRead(t *testing.T) {
	exported := 0
	dir := listenAsEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/runs" {
			exported++
			return
		}
		_, _ = io.WriteString(w, `{"run": "a", "workflow": "w"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, err := range askRecordings(t.Context(), dir, "", pawl.ErrLocked, &sources{}) {
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	require.Zero(t, exported)
}

// An error that all runs would meet ends an act on several, and it is said how many were done.
func TestActsEndWithAnErrorOfAll(t *testing.T) {
	asked := 0
	dir := listenAsEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			_, _ = io.WriteString(w, `{"run": "a", "applied": true}`)
			return
		}
		w.WriteHeader(http.StatusInsufficientStorage)
		_, _ = io.WriteString(w, `{"error": {"status": 507, "code": "no_space", "message": "the disk is full"}}`)
	})
	var out, errs strings.Builder
	con := &console{In: strings.NewReader(""), Out: &out, Errs: &errs, Now: time.Now}
	require.Equal(t, exitNoEngine, con.runArguments(t.Context(), []string{"pause", "a", "b", "c", "d", "--by", "ann", "-m", "x", "--dir", dir}))
	require.Equal(t, "pawl: b: stopped after 1 of 4: the disk is full\n", errs.String())
	require.Equal(t, "a is paused\n", out.String())
	require.Equal(t, 2, asked)
	errs.Reset()
	asked = 1
	require.Equal(t, exitNoEngine, con.runArguments(t.Context(), []string{"archive", "a", "b", "c", "--to", filepath.Join(t.TempDir(), "x.pawl"), "--by", "ann", "-m", "x", "--dir", dir}))
	require.Equal(t, "pawl: the disk is full\n", errs.String())
	require.Equal(t, 2, asked)
}

// An act on many that stops tells of unknown outcomes before it, and does not stop for the fault of one run.
func TestActsThatStopTellWhatIsUnknown(t *testing.T) {
	var answers []string
	dir := listenAsEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		status, code, _ := strings.Cut(answers[0], " ")
		answers = answers[1:]
		n, _ := strconv.Atoi(status)
		w.WriteHeader(n)
		_, _ = fmt.Fprintf(w, `{"error": {"status": %d, "code": %q, "message": "no"}}`, n, code)
	})
	for want, given := range map[int][]string{
		exitUnknown:  {"503 unknown_outcome", "507 no_space"},
		exitNoEngine: {"500 internal", "507 no_space"},
	} {
		answers = given
		var out, errs strings.Builder
		con := &console{In: strings.NewReader(""), Out: &out, Errs: &errs, Now: time.Now}
		require.Equal(t, want, con.runArguments(t.Context(), []string{"pause", "a", "b", "c", "--by", "ann", "-m", "x", "--dir", dir}), errs.String())
		require.Contains(t, errs.String(), "pawl: b: stopped after 0 of 3: no")
		require.Equal(t, want == exitUnknown, strings.Contains(errs.String(), "; of 1 nobody knows"))
		require.Empty(t, answers)
	}
}

// A purge that is interrupted says how much is gone.
func TestPurgeThatIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	asked := 0
	dir := listenAsEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			_, _ = io.WriteString(w, `{"run": "a", "runs": 2, "bytes": 2048}`)
			return
		}
		interrupt()
		<-r.Context().Done()
	})
	var out, errs strings.Builder
	con := &console{In: strings.NewReader(""), Out: &out, Errs: &errs, Now: time.Now}
	require.Equal(t, exitUnknown, con.runArguments(ctx, []string{"purge", "a", "b", "c", "--by", "ann", "-m", "x", "--dir", dir}))
	require.Contains(t, out.String(), "purged: 1 run and 1 below, 2.0 KiB of files\n")
	require.Contains(t, errs.String(), "pawl: stopped behind 1 run: the outcome is unknown, it may have been done: ")
	require.Equal(t, 2, asked)
}
