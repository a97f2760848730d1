package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
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
