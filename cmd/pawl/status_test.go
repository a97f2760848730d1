package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/socket"
)

// Each kind of error has the exit status that the help promises, and what nobody knows is neither a refusal nor done.
func TestExitStatuses(t *testing.T) {
	full := errors.Join(pawl.ErrNoSpace, pawl.ErrUnknown) // as a commit says it
	broken := fmt.Errorf("%w: %w", pawl.ErrUnknown, explainLoss(io.ErrUnexpectedEOF))
	for want, errs := range map[int][]error{
		exitDone:        {nil},
		exitUnusable:    {errors.New("a flag"), pawl.ErrInvalid, pawl.ErrCorrupt, pawl.ErrVersion, &api.Error{Code: "too_large"}},
		exitNotFound:    {fs.ErrNotExist, pawl.ErrRunNotFound, &api.Error{Code: "blob_missing"}},
		exitNoEngine:    {api.ErrNoEngine, pawl.ErrMaintenance, pawl.ErrRemote, pawl.ErrOtherLog, &api.Error{Code: "remote"}, pawl.ErrClosed, explainLoss(io.ErrUnexpectedEOF), &api.Error{Code: "timeout"}, &api.Error{Code: "internal"}, &api.Error{Code: "closed"}, &api.Error{Code: "no_space"}, full, markUnknown(full)},
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
