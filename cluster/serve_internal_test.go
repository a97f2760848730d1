package cluster

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
		requireStatus(t, n, path, want)
	}
}

// requireStatus requires that a node answers so, to GET and to HEAD.
func requireStatus(t *testing.T, n *Node, path string, want int) {
	t.Helper()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		w := httptest.NewRecorder()
		n.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		require.Equal(t, want, w.Code, "%s %s", method, path)
	}
}

// A node that is closed does not live, though another one has the engine.
func TestNodesThatAreClosedDoNotLive(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	defer other.Close()
	ctx, stop := context.WithCancel(t.Context())
	n := &Node{ctx: ctx, stop: stop, o: Options{HTTP: other.Client(), Node: "a", Term: time.Second}, lease: lease{cell: emptyCell{}, self: Owner{Node: "a"}}}
	n.status.Owner = Owner{Node: "b", Address: other.URL}
	requireStatus(t, n, "/healthz", http.StatusOK)
	require.NoError(t, n.Close(t.Context()))
	requireStatus(t, n, "/healthz", http.StatusServiceUnavailable)
	requireStatus(t, n, "/v1/engine", http.StatusOK)
}

// An emptyCell is a Cell that nothing is written to.
type emptyCell struct{}

func (emptyCell) Read(context.Context) (Value, error) { return Value{}, nil }

func (emptyCell) Write(context.Context, []byte, uint64) (uint64, error) { return 0, ErrChanged }
