package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// The last report of a copy that has ended is told, also to a caller who reads slowly.
func TestFollowTellsItsLastReport(t *testing.T) {
	for range 10 { // the report and the end come at once: which of them is seen first is open
		synctest.Test(t, func(t *testing.T) {
			engine, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "data"), pawl.Options{Durability: pawl.ProcessCrash})
			require.NoError(t, err)
			d, err := workflow.ParseYAML([]byte("name: a\nstart: a\nnodes: [{id: a, wait: {event: go}}]"))
			require.NoError(t, err)
			var told []FollowReport
			c := &call{server: &server{engine: engine}}
			for f, err := range c.followFrames(t.Context(), pawl.FollowOptions{Folder: filepath.Join(t.TempDir(), "copy"), Interval: time.Hour}) {
				require.NoError(t, err)
				if told = append(told, f.body.(FollowReport)); len(told) == 1 {
					<-time.After(time.Second)
					require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil))
					require.NoError(t, engine.Close(t.Context()))
					synctest.Wait() // until the copy has ended
				}
			}
			last := told[len(told)-1]
			require.True(t, last.At.After(told[0].At), "%v", told)
			require.Zero(t, last.Waiting)
		})
	}
}

// A start that is committed is answered as one, also where the engine closes while its run is waited for.
func TestAStartWhoseEngineCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		closing, answered := make(chan struct{}), make(chan struct{})
		h := newServer(&server{engine: engine, closing: closing, local: true})
		body := strings.NewReader(`{"definition": {"name": "a", "start": "a", "nodes": [{"id": "a", "wait": {"event": "go"}}]}}`)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v1/runs/a?wait=30s", body)
		w := httptest.NewRecorder()
		go func() {
			defer close(answered)
			h.ServeHTTP(w, r)
		}()
		synctest.Wait()
		close(closing)
		<-answered
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"status":"running"`)
	})
}
