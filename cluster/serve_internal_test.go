package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A closedBody notes that it was closed.
type closedBody struct {
	io.Reader
	closed bool
}

func (b *closedBody) Close() error { b.closed = true; return nil }

// A body that is sent to nobody is closed, as callers of an http.RoundTripper rely on.
func TestPassingClosesTheBody(t *testing.T) {
	body := &closedBody{Reader: strings.NewReader("{}")}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ownerHost+"/v1/runs", body)
	require.NoError(t, err)
	_, err = (*passing)(new(Node)).RoundTrip(r)
	require.ErrorIs(t, err, ErrNoOwner)
	require.True(t, body.closed)
}

// A node that stands by lives, though nobody has the engine.
func TestNodesThatStandByLive(t *testing.T) {
	n := &Node{stop: func() {}}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		n.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		require.Equal(t, want, w.Code, path)
	}
}
