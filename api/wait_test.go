package api_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A request that waits is answered, however little time the server of the host gives to a request.
func TestServersWithShortTimeoutsAnswerRequestsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEngine(t, pawl.Options{})
		definition := `{"name": "a", "start": "a", "nodes": [{"id": "a", "task": "wait"}]}`
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parse(t, definition)}, nil))
		clients, stop := harness.BusyClients(t, everything(e), time.Second)
		defer stop()
		for protocol, c := range clients {
			for _, ask := range []string{"GET /v1/runs/a?wait=30s", "PUT /v1/runs/b?wait=30s"} {
				method, path, _ := strings.Cut(ask, " ")
				body := io.Reader(nil)
				if method == http.MethodPut {
					body = strings.NewReader(`{"definition": ` + definition + `}`)
				}
				r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, body)
				require.NoError(t, err)
				begun := time.Now()
				answer, err := c.Do(r)
				require.NoError(t, err, "%s %s", protocol, ask)
				text, err := io.ReadAll(answer.Body)
				require.NoError(t, err, "%s %s", protocol, ask)
				require.NoError(t, answer.Body.Close())
				require.Equal(t, protocol, answer.Proto)
				require.Contains(t, string(text), `"status":"running"`, "%s %s", protocol, ask)
				require.Equal(t, 30*time.Second, time.Since(begun), "%s %s", protocol, ask)
			}
		}
	})
}

// A list of lines goes on, however long its next entry takes.
func TestLinesThatComeSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEngine(t, pawl.Options{})
		startOrder(t, e, "order-1")
		h := api.Handler(e, api.Options{Identify: everybody(api.All), Redact: func(_ workflow.RunID, path string, v any) any {
			if path == "data" {
				<-time.After(5 * time.Minute)
			}
			return v
		}})
		clients, stop := harness.BusyClients(t, h, time.Second)
		defer stop()
		for protocol, c := range clients {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/runs/order-1/events", nil)
			require.NoError(t, err)
			r.Header.Set("Accept", "application/x-ndjson")
			begun := time.Now()
			answer, err := c.Do(r)
			require.NoError(t, err, protocol)
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err, protocol)
			require.NoError(t, answer.Body.Close())
			require.Greater(t, strings.Count(string(text), "\n"), 1, protocol)
			took := time.Since(begun)

			r.Method, begun = http.MethodHead, time.Now()
			answer, err = c.Do(r)
			require.NoError(t, err, protocol)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusOK, answer.StatusCode)
			require.Less(t, time.Since(begun), took, "it reads no more than its status takes")
		}
	})
}

// A program on the socket may be read by a person who pauses: it gets the rest of its answer.
func TestReadersOnTheSocketMayPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEngine(t, pawl.Options{})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parse(t, "name: a\nstart: a\nnodes: [{id: a, task: wait}]")}, nil))
		ctx := pawl.Because(t.Context(), strings.Repeat("x", 500))
		for range 40 {
			require.NoError(t, e.Pause(ctx, "a"))
			require.NoError(t, e.Resume(ctx, "a"))
		}
		content := strings.Repeat("x", 100_000)
		ref, err := e.PutBlob(t.Context(), strings.NewReader(content), "")
		require.NoError(t, err)
		l, served := harness.NewPipes(), make(chan struct{})
		go func() {
			defer close(served)
			api.Local(e, l)
		}()
		carry := &http.Transport{DialContext: l.DialContext}
		c := api.NewClient("http://localhost", &http.Client{Transport: carry})
		pause := sync.OnceFunc(func() { <-time.After(2 * time.Minute) })

		records := 0
		for _, err := range c.Journal(t.Context(), "a", pawl.EventsOptions{}) {
			require.NoError(t, err)
			records++
			pause()
		}
		require.Greater(t, records, 80)
		from, err := c.OpenBlob(t.Context(), ref)
		require.NoError(t, err)
		_, err = from.Read(make([]byte, 1))
		require.NoError(t, err)
		<-time.After(2 * time.Minute)
		rest, err := io.ReadAll(from)
		require.NoError(t, err)
		require.Len(t, rest, len(content)-1)
		require.NoError(t, from.Close())
		to, paused := new(pausingWriter), time.Now()
		require.NoError(t, c.Export(t.Context(), "a", to, pawl.ExportOptions{}))
		require.Greater(t, time.Since(paused), time.Minute)

		c.Close()
		require.NoError(t, l.Close())
		<-served
	})
}

// A pausingWriter takes its time for the first that it is given.
type pausingWriter struct{ once sync.Once }

func (w *pausingWriter) Write(text []byte) (int, error) {
	w.once.Do(func() { <-time.After(2 * time.Minute) })
	return len(text), nil
}

// A start that is committed is answered as one, whatever the wait for the end of its run comes to.
func TestStartsWhoseWaitFails(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{Maintenance: true})
	status, text := send(t, everything(e), http.MethodPut, "/v1/runs/a?wait=1s", `{"definition": {"name": "a", "start": "a", "nodes": [{"id": "a", "task": "wait"}]}}`)
	require.Equal(t, http.StatusCreated, status, text)
	require.Equal(t, "running", object(t, text)["status"])
}
