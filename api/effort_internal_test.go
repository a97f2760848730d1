package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A page of a list whose condition costs too much has what was found, and a cursor with which the list goes on to its end.
func TestAPageEndsAtItsEffort(t *testing.T) {
	engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
	d, err := workflow.ParseYAML([]byte("name: a\nstart: a\nnodes: [{id: a, approval: {message: ok}}]"))
	require.NoError(t, err)
	const runs = 60
	for i := range runs {
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: d}, nil))
	}
	h := newServer(&server{engine: engine, effort: 500 * time.Microsecond, options: Options{
		Identify: func(*http.Request) (string, Rights, error) { return "ann", View, nil },
	}})
	where := url.QueryEscape(`[1,2,3,4,5,6,7,8].all(x, [1,2,3,4,5,6,7,8].exists(y, x == y)) && !run.endsWith("0")`)
	for _, path := range []string{"/v1/runs", "/v1/approvals"} {
		found, pages, cursor := 0, 0, ""
		for {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+"?where="+where+"&cursor="+url.QueryEscape(cursor), nil))
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			var page struct {
				Runs, Approvals []any
				Cursor          string
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
			found, pages = found+len(page.Runs)+len(page.Approvals), pages+1
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
		require.Equal(t, runs-runs/10, found, path)
		require.Greater(t, pages, 3, path)
		require.Less(t, pages, runs, path)
	}
}
