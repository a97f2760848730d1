package cluster

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
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

// A node that stands by lives, though nobody has the engine. If it does not know its callers it passes nothing on that takes rights.
func TestNodesThatStandByLive(t *testing.T) {
	n := &Node{stop: func() {}}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/v1/runs": http.StatusForbidden} {
		requireStatus(t, n, path, want)
	}
}

// The transport for requests of others trusts the same servers as that of the node, and never shows its certificate: not of its own, nor by a
// session that is resumed, nor by a connection of the host's.
func TestTransportWithoutCredentials(t *testing.T) {
	shown := 0
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { shown = len(r.TLS.PeerCertificates) }))
	other.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MaxVersion: tls.VersionTLS12} // it resumes sessions with their certificates
	other.EnableHTTP2 = true
	other.StartTLS()
	defer other.Close()
	own := other.Client().Transport.(*http.Transport)
	own.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	own.TLSClientConfig.Certificates = other.TLS.Certificates
	ask := func(by http.RoundTripper) int {
		shown = -1
		client := &http.Client{Transport: by}
		defer client.CloseIdleConnections()
		answer, err := client.Get(other.URL)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return shown
	}
	require.Equal(t, 1, ask(own))
	require.Equal(t, 0, ask(copyWithoutCredentials(own)))
	dials := own.Clone()
	dials.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&tls.Dialer{Config: own.TLSClientConfig}).DialContext(ctx, network, address)
	}
	require.Equal(t, 0, ask(copyWithoutCredentials(dials)))
	shares := own.Clone()
	shares.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{"h2": func(string, *tls.Conn) http.RoundTripper { return own }}
	require.Equal(t, 0, ask(copyWithoutCredentials(shares)))
	require.Equal(t, 1, ask(own))
	require.NotSame(t, http.DefaultTransport, copyWithoutCredentials(nil))
	require.NotNil(t, copyWithoutCredentials(struct{ http.RoundTripper }{own}).Proxy)
}

// A name survives the header whatever is in it, and what is no sender has no rights.
func TestSenders(t *testing.T) {
	for _, s := range []sender{{}, {"ann", api.All}, {"Ann B. <a@b>\r\nX: y, %20+", api.View | api.Files}} {
		back, ok := parseSender(strings.TrimSpace(s.String())) // as HTTP does
		require.True(t, ok)
		require.Equal(t, s, back)
	}
	for _, text := range []string{"", "ann", "300 ann", "-1 ann", "1 %", " 1 ann"} {
		_, ok := parseSender(text)
		require.False(t, ok, text)
	}
	identify := func(*http.Request) (string, api.Rights, error) { return "ann", api.All, nil }
	limited := limitPassed(api.Options{Identify: identify})
	for header, want := range map[string]api.Rights{"1 ann": api.View, "1 bob": 0, "31 ann": api.All, "?": 0} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/runs", nil)
		r.Header.Set(headerSender, header)
		_, rights, err := limited.Identify(r)
		require.Equal(t, want, rights, header)
		require.Equal(t, want == 0, err != nil, header)
		r.Header.Add(headerSender, header)
		_, _, err = limited.Identify(r)
		require.Error(t, err, "twice")
	}
	require.Nil(t, limitPassed(api.Options{}).Identify)
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
	o := Options{PassOn: other.Client().Transport, Node: "a", Term: time.Second}
	o.API.Identify = func(*http.Request) (string, api.Rights, error) { return "ann", api.All, nil }
	n := &Node{ctx: ctx, stop: stop, o: o, passOn: o.PassOn, lease: lease{cell: emptyCell{}, self: Owner{Node: "a"}}}
	n.status.Owner = Owner{Node: "b", Address: other.URL}
	requireStatus(t, n, "/healthz", http.StatusOK)
	require.NoError(t, n.Close(t.Context()))
	requireStatus(t, n, "/healthz", http.StatusServiceUnavailable)
	requireStatus(t, n, "/v1/engine", http.StatusOK)
	for _, path := range []string{"/metrics", "/v1/../metrics", "/v1//metrics"} {
		requireStatus(t, n, path, http.StatusNotFound)
	}
}

// An emptyCell is a Cell that nothing is written to.
type emptyCell struct{}

func (emptyCell) Read(context.Context) (Value, error) { return Value{}, nil }

func (emptyCell) Write(context.Context, []byte, uint64) (uint64, error) { return 0, ErrChanged }
