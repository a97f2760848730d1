package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A caller who takes all that one may have at once keeps neither another out nor the health of the engine from being told.
func TestOneCallerKeepsNobodyOut(t *testing.T) {
	for path, c := range map[string]struct {
		accept string
		most   int
	}{"/v1/watch": {"text/event-stream", 64}, "/v1/runs/a?wait=1m": {"", 1024}} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := openEngine(t, pawl.Options{})
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parse(t, "name: a\nstart: a\nnodes: [{id: a, task: wait}]")}, nil))
			h := api.Handler(e, api.Options{Identify: func(r *http.Request) (string, api.Rights, error) { return r.Header.Get("User"), api.View, nil }})
			ctx, cancel := context.WithCancel(t.Context())
			var open sync.WaitGroup
			ask := func(who, path string) (w *httptest.ResponseRecorder, answered chan struct{}) {
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
				r.Header.Set("User", who)
				r.Header.Set("Accept", c.accept)
				w, answered = httptest.NewRecorder(), make(chan struct{})
				open.Go(func() {
					h.ServeHTTP(w, r)
					close(answered)
				})
				return w, answered
			}
			for range c.most {
				ask("ann", path)
			}
			synctest.Wait()
			w, answered := ask("ann", path)
			<-answered
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Contains(t, w.Body.String(), `"code":"busy"`)
			_, bob := ask("bob", path)
			synctest.Wait()
			select {
			case <-bob:
				require.Fail(t, "bob is refused")
			default:
			}
			w, answered = ask("ann", "/healthz")
			<-answered
			require.Equal(t, http.StatusOK, w.Code)
			cancel()
			open.Wait()
		})
	}
}

// A heldWriter writes nothing before its gate is open.
type heldWriter struct {
	*httptest.ResponseRecorder
	gate <-chan struct{}
}

func (w heldWriter) Write(text []byte) (int, error) {
	<-w.gate
	return w.ResponseRecorder.Write(text)
}

// A caller who may look does not have more runs in memory at once than is good for the engine, and keeps nobody
// else from looking, nor itself from what costs little.
func TestReadersOfWholeRunsAreBounded(t *testing.T) {
	harness.InTurn(t, 4)
	const get, post = http.MethodGet, http.MethodPost
	for _, c := range []struct{ method, path, body string }{
		{get, "/v1/runs/a/why", ""}, {get, "/v1/runs/a/data", ""}, {get, "/v1/runs/a/export", ""}, {get, "/v1/runs/a/graph.svg", ""},
		{get, "/v1/runs/a?at=1", ""}, {get, "/v1/runs/a/tokens?at=1", ""}, {get, "/v1/diff?a=a&b=a", ""},
		{get, "/v1/runs?where=version==1", ""}, {get, "/v1/runs?sort=cost", ""},
		{get, "/v1/approvals?where=version==1", ""}, {get, "/v1/dead-letters?where=version==1", ""},
		{post, "/v1/runs/a/simulate", "{}"}, {post, "/v1/runs/a/cancel?dryRun=1", `{"reason": "to see"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := openEngine(t, pawl.Options{})
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parse(t, "name: a\nstart: a\nnodes: [{id: a, task: wait}]")}, nil))
			h := api.Handler(e, api.Options{Identify: func(r *http.Request) (string, api.Rights, error) {
				return r.Header.Get("User"), api.View | api.Values | api.Act, nil
			}})
			gate := make(chan struct{})
			var open sync.WaitGroup
			ask := func(who, method, path string) (*httptest.ResponseRecorder, *http.Request) {
				r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(c.body))
				r.Header.Set("User", who)
				r.Header.Set("Content-Type", "application/json")
				return httptest.NewRecorder(), r
			}
			hold := func(who string, most int) {
				for range most {
					w, r := ask(who, c.method, c.path)
					open.Go(func() { h.ServeHTTP(heldWriter{w, gate}, r) })
				}
				synctest.Wait()
			}
			answer := func(who, method, path string) (int, string) {
				w, r := ask(who, method, path)
				h.ServeHTTP(w, r)
				return w.Code, w.Body.String()
			}
			hold("ann", 8)
			status, text := answer("ann", c.method, c.path)
			require.Equal(t, http.StatusServiceUnavailable, status, "%s %s: %s", c.method, c.path, text)
			require.Contains(t, text, `"code":"busy"`)
			status, text = answer("ann", http.MethodGet, "/v1/runs/a")
			require.Equal(t, http.StatusOK, status, text)
			status, text = answer("bob", http.MethodGet, "/v1/runs/a/why")
			require.Equal(t, http.StatusOK, status, text)
			for _, other := range []string{"cid", "dan", "eve"} {
				hold(other, 8)
			}
			status, text = answer("bob", http.MethodGet, "/v1/runs/a/why")
			require.Equal(t, http.StatusServiceUnavailable, status, text)
			close(gate)
			open.Wait()
			status, text = answer("ann", http.MethodGet, "/v1/runs/a/why")
			require.Equal(t, http.StatusOK, status, text)
		})
	}
}
