package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
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
	broken := fmt.Errorf("%w: %w", pawl.ErrUnknown, explainLoss(io.ErrUnexpectedEOF))
	for want, errs := range map[int][]error{
		exitDone:        {nil},
		exitUnusable:    {errors.New("a flag"), pawl.ErrInvalid, pawl.ErrCorrupt, pawl.ErrVersion, &api.Error{Code: "too_large"}},
		exitNotFound:    {fs.ErrNotExist, pawl.ErrRunNotFound, &api.Error{Code: "blob_missing"}},
		exitNoEngine:    {api.ErrNoEngine, pawl.ErrMaintenance, pawl.ErrClosed, explainLoss(io.ErrUnexpectedEOF), &api.Error{Code: "timeout"}, &api.Error{Code: "internal"}},
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

// An engine that dies while it is asked leaves open what it has done, and the command says where that stands.
func TestAnEngineThatDies(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "pawl")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	l, err := socket.Listen(dir)
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/engine" {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte(`{"pid": 1}`))
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(net.Listener(l)) }()
	defer func() { _ = s.Close(); <-served }()

	var out, errs strings.Builder
	con := &console{In: strings.NewReader(""), Out: &out, Errs: &errs, Now: time.Now}
	require.Equal(t, exitUnknown, con.runArguments(t.Context(), []string{"cancel", "a", "--by", "ann", "-m", "x", "--dir", dir}))
	require.Contains(t, errs.String(), "hint: it may have been done: pawl journal RUN tells")
	require.Empty(t, out.String())
	errs.Reset()
	require.Equal(t, exitUnknown, con.runArguments(t.Context(), []string{"cancel", "a", "b", "--by", "ann", "-m", "x", "--dir", dir}))
	require.Contains(t, errs.String(), "of 2 of 2 nobody knows, 0 were refused")
	require.Equal(t, exitNoEngine, con.runArguments(t.Context(), []string{"ls", "--dir", dir}))
	require.Contains(t, errs.String(), "the connection with the engine broke")
	require.Equal(t, exitUnknown, con.runArguments(t.Context(), []string{"start", "w", "--by", "ann", "--dir", dir}))
	require.Regexp(t, `pawl: run [0-9a-z-]{20,}: `, errs.String(), "the id by which it can be found")
	require.NoError(t, s.Close())
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
