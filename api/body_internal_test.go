package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A slowBody is a body whose end does not come before a channel is closed.
type slowBody struct {
	io.Reader
	ended <-chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		<-b.ended
	}
	return n, err
}

func (b *slowBody) Close() error { return nil }

// Each body is bounded by what is expected in it. All of them have a bound together, and each caller has a part of that. A request gives
// its bytes back when it is answered.
func TestBodiesAreBounded(t *testing.T) {
	harness.InTurn(t, 4)
	synctest.Test(t, func(t *testing.T) {
		engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		d, err := workflow.ParseYAML([]byte("name: a\nstart: a\nnodes: [{id: a, wait: {event: go}}]"))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil))
		s := &server{engine: engine, options: Options{Identify: func(r *http.Request) (string, Rights, error) { return r.Header.Get("User"), All&^Define | Files, nil }}}
		h := newServer(s)
		post := func(who, path string, body io.Reader) *httptest.ResponseRecorder {
			method := http.MethodPost
			if path == "/v1/runs/new" {
				method = http.MethodPut
			}
			r := httptest.NewRequest(method, path, body)
			r.Header.Set("User", who)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		for path, most := range map[string]int{
			"/v1/runs/a/pause": smallBody, "/v1/runs/a/tokens/1/retry": smallBody, "/v1/runs/a/purge": smallBody, "/v1/import": smallBody,
			"/v1/runs/a/signals": valueBody, "/v1/runs/a/tokens/1/vote": valueBody, "/v1/runs/new": maxBody, "/v1/runs/a/forks": maxBody, "/v1/batch?all=1": valueBody,
		} {
			fits, large := strings.Repeat(" ", most), strings.Repeat(" ", most+1)
			require.NotEqual(t, http.StatusRequestEntityTooLarge, post("ann", path, strings.NewReader(fits)).Code, path)
			require.Equal(t, http.StatusRequestEntityTooLarge, post("ann", path, strings.NewReader(large)).Code, path)
		}
		end := make(chan struct{})
		var open sync.WaitGroup
		hold := func(who string, n int) {
			for range n {
				open.Go(func() { post(who, "/v1/runs/new", &slowBody{strings.NewReader(strings.Repeat(" ", maxBody-1)), end}) })
			}
			synctest.Wait()
		}
		hold("ann", 3)
		refused := post("ann", "/v1/runs/new", strings.NewReader("{}"))
		require.Equal(t, http.StatusServiceUnavailable, refused.Code, refused.Body)
		require.Equal(t, "1", refused.Header().Get("Retry-After"))
		require.Equal(t, http.StatusOK, post("bob", "/v1/runs/a/pause", strings.NewReader(`{"reason": "test"}`)).Code)
		hold("bob", 3)
		hold("cid", 2)
		require.Equal(t, http.StatusServiceUnavailable, post("dan", "/v1/runs/a/resume", strings.NewReader(`{"reason": "test"}`)).Code)
		close(end)
		open.Wait()
		require.Equal(t, http.StatusOK, post("ann", "/v1/runs/a/resume", strings.NewReader(`{"reason": "test"}`)).Code)
	})
}
