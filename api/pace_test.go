package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A caller who asks too fast is told when to ask again, which then works, and keeps neither another out nor the health of the
// engine from being told.
func TestRequestsOfACallerAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEngine(t, pawl.Options{})
		h := api.Handler(e, api.Options{
			Identify: func(r *http.Request) (string, api.Rights, error) { return r.Header.Get("User"), api.View, nil },
			Rate:     api.Rate{PerSecond: 0.25, Burst: 3},
		})
		ask := func(who, path string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
			r.Header.Set("User", who)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			checkAnswer(t, r, nil, w)
			return w
		}
		for range 3 {
			require.Equal(t, http.StatusOK, ask("ann", "/v1/engine").Code)
		}
		<-time.After(time.Second + time.Millisecond)
		refused := ask("ann", "/v1/runs")
		require.Equal(t, http.StatusTooManyRequests, refused.Code)
		require.Equal(t, "3", refused.Header().Get("Retry-After"), "4 s after the burst, rounded up")
		require.Contains(t, refused.Body.String(), `"code":"too_fast"`)
		require.Equal(t, http.StatusOK, ask("bob", "/v1/runs").Code)
		require.Equal(t, http.StatusOK, ask("ann", "/healthz").Code)
		<-time.After(3 * time.Second)
		require.Equal(t, http.StatusOK, ask("ann", "/v1/runs").Code)
		require.Equal(t, http.StatusTooManyRequests, ask("ann", "/v1/runs").Code)
	})
}

// Without a word of the host there is a rate, and a negative rate does not limit.
func TestRatesOfHostsThatSayNothing(t *testing.T) {
	harness.InTurn(t, 4)
	for _, c := range []struct {
		rate api.Rate
		last int
	}{{api.Rate{}, http.StatusTooManyRequests}, {api.Rate{PerSecond: -1}, http.StatusOK}} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := openEngine(t, pawl.Options{})
			h := api.Handler(e, api.Options{Identify: everybody(api.View), Rate: c.rate})
			var w *httptest.ResponseRecorder
			for n := range 2001 {
				w = httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/openapi.yaml", nil))
				require.Equal(t, http.StatusOK, w.Code)
				w = httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/definitions", nil))
				require.True(t, n == 2000 || w.Code == http.StatusOK, "%d: %s", n, w.Body)
			}
			require.Equal(t, c.last, w.Code)
		})
	}
}
