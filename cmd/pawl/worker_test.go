package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testhook"
)

// A worker whose pool is not up at first says that it works once the pool has taken it, so that a script may wait for that.
func TestWorkerTellsThatALatePoolHasTakenIt(t *testing.T) {
	polled := make(chan struct{}, 1)
	var asked atomic.Int32
	pool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case asked.Add(1) <= 2:
			http.Error(w, "not yet", http.StatusBadGateway)
		case strings.HasSuffix(r.URL.Path, "/register"):
			fmt.Fprint(w, `{"version": "1.0", "lease": "30s"}`)
		case strings.HasSuffix(r.URL.Path, "/poll"):
			polled <- struct{}{}
			<-r.Context().Done()
		default:
			fmt.Fprint(w, "{}")
		}
	}))
	defer pool.Close()
	hook := &testhook.Hook{}
	hook.SetMaxNap(time.Millisecond)
	ctx, interrupt := context.WithCancel(testhook.With(t.Context(), hook))
	out, to := io.Pipe()
	var errs strings.Builder
	con := &console{In: strings.NewReader(""), Out: to, Errs: &errs, Now: time.Now}
	ended := make(chan int, 1)
	go func() { ended <- con.runArguments(ctx, []string{"worker", pool.URL, "--id", "w1"}) }()
	defer func() {
		interrupt()
		_ = out.Close() // it cannot fail
		<-ended
		require.Equal(t, 1, strings.Count(errs.String(), "is asked until it does"), errs.String())
	}()
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		require.Equal(t, "w1 works for "+pool.URL+": transform, 4 at once. Interrupt ends it.\n", text)
	case <-polled:
		require.Fail(t, "it works, and has not said so")
	}
}
