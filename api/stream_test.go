package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// A stream ends soon after its caller has lost a right, and so is a caller answered who has waited.
func TestRightsThatAreRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEngine(t, pawl.Options{})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parse(t, "name: a\nstart: a\nnodes: [{id: a, task: wait}]")}, nil))
		for _, path := range []string{"/v1/runs/a/events", "/v1/runs/a/journal", "/v1/watch", "/v1/runs/a?wait=1m"} {
			for code, revoked := range map[string]func() (string, api.Rights, error){
				"unauthorized": func() (string, api.Rights, error) { return "", 0, errors.New("logged out") },
				"forbidden":    func() (string, api.Rights, error) { return "ann", api.View, nil },
			} {
				asked := 0
				h := api.Handler(e, api.Options{Identify: func(*http.Request) (string, api.Rights, error) {
					if asked++; asked > 1 {
						return revoked()
					}
					return "ann", api.View | api.Values, nil
				}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
				r.Header.Set("Accept", "text/event-stream")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				require.NoError(t, ctx.Err(), "%s goes on", path)
				cancel()
				require.Contains(t, w.Body.String(), `"code":"`+code+`"`, path)
			}
		}
	})
}
