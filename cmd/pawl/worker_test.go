package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testhook"
)

// A worker whose pool is not up at first says that it works once the pool has taken it, so that a script may wait for that.
func TestWorkerTellsThatALatePoolHasTakenIt(t *testing.T) {
	said := &keptText{}
	polled := make(chan string, 1) // what the worker had said before it asked for a task
	var asked atomic.Int32
	pool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case asked.Add(1) <= 2:
			http.Error(w, "not yet", http.StatusBadGateway)
		case strings.HasSuffix(r.URL.Path, "/register"):
			fmt.Fprint(w, `{"version": "1.0", "lease": "30s"}`)
		case strings.HasSuffix(r.URL.Path, "/poll"):
			select {
			case polled <- said.read():
			default: // it has asked before
			}
			<-r.Context().Done()
		default:
			fmt.Fprint(w, "{}")
		}
	}))
	defer pool.Close()
	hook := &testhook.Hook{}
	hook.SetMaxNap(time.Millisecond)
	ctx, interrupt := context.WithCancel(testhook.With(t.Context(), hook))
	var errs strings.Builder
	con := &console{In: strings.NewReader(""), Out: said, Errs: &errs, Now: time.Now}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		con.runArguments(ctx, []string{"worker", pool.URL, "--id", "w1"})
	}()
	defer func() {
		interrupt()
		<-ended
		require.Equal(t, 1, strings.Count(errs.String(), "is asked until it does"), errs.String())
	}()
	select {
	case text := <-polled:
		require.Equal(t, "w1 works for "+pool.URL+": transform, 4 at once. Interrupt ends it.\n", text, "it works, and has to have said so")
	case <-ended:
		require.Fail(t, "it has ended")
	}
}

// A keptText is an output that can be read while it is written.
type keptText struct {
	mu   sync.Mutex // guards
	text strings.Builder
}

// Write implements io.Writer.
func (k *keptText) Write(text []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.Write(text)
}

func (k *keptText) read() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}
