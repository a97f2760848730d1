package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A gatedWriter writes nothing before its gate is open.
type gatedWriter struct {
	*httptest.ResponseRecorder
	gate <-chan struct{}
}

func (w gatedWriter) Write(text []byte) (int, error) {
	<-w.gate
	return w.ResponseRecorder.Write(text)
}

// A stream that the engine closes says so, also to a caller who reads slowly; one whose caller is gone ends.
func TestAClosedStreamSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		d, err := workflow.ParseYAML([]byte("name: a\nstart: a\nnodes: [{id: a, wait: {event: go}}]"))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil))
		for _, path := range []string{"/v1/runs/a/events", "/v1/runs/a/journal", "/v1/watch"} {
			closing, gate, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
			h := newServer(&server{engine: engine, closing: closing, options: Options{Identify: func(*http.Request) (string, Rights, error) { return "ann", All, nil }}})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Header.Set("Accept", typeStream)
			w := gatedWriter{httptest.NewRecorder(), gate}
			go func() {
				defer close(answered)
				h.ServeHTTP(w, r)
			}()
			synctest.Wait()
			close(closing)
			synctest.Wait()
			close(gate)
			<-answered
			require.Contains(t, w.Body.String(), "event: failed", path)
			require.Contains(t, w.Body.String(), `"code":"closed"`, path)
		}
	})
}
