package worker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// forbids says that an error is a refusal, and final.
func forbids(t *testing.T, err error, says string) {
	t.Helper()
	var e *worker.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 403, e.Status)
	require.Equal(t, remote.CodeForbidden, e.Code)
	require.Contains(t, e.Message, says)
}

// A worker with a token of its own does nothing in the name of another: not one call.
func TestAWorkerSpeaksForItselfOnly(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{Identify: worker.IdentifyTokens(map[string]worker.Caller{
		"a": {Worker: "ann", Types: []string{"work"}}, "e": {Worker: "evil", Types: []string{"other"}}, "": {Worker: "*", Types: []string{"*"}}, "none": {},
	})})
	defer h.stop(t)
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut), Tenant: "acme"}, items(1)))
	ann := h.client("ann")
	ann.Token = "a"
	_, err := ann.Register(t.Context(), "work")
	require.NoError(t, err)
	hers := take(t, ann)

	evil := h.client("ann") // with another's id, and his token
	evil.Token = "e"
	const says = `in the name of worker "ann", and comes from "evil"`
	_, err = evil.Register(t.Context(), "other")
	forbids(t, err, says)
	_, err = evil.Poll(t.Context(), 0)
	forbids(t, err, says)
	_, err = evil.Heartbeat(t.Context(), hers.Key)
	forbids(t, err, says)
	forbids(t, evil.Complete(t.Context(), hers, "evil", nil), says)
	_, err = evil.Put(t.Context(), hers, strings.NewReader("x"), "")
	forbids(t, err, says)
	_, err = evil.Once(t.Context(), hers, "once", func(context.Context) (any, error) { return 1, nil })
	forbids(t, err, says)
	forbids(t, evil.Leave(t.Context()), says)

	evil.ID = "evil" // with his own
	for _, types := range [][]string{{"work"}, {"*"}, {"other", "work"}} {
		_, err = evil.Register(t.Context(), types...)
		forbids(t, err, "may not take tasks of type")
	}
	require.ErrorIs(t, evil.Complete(t.Context(), hers, "evil", nil), worker.ErrNotHolder)
	_, err = evil.Register(t.Context(), "other")
	require.NoError(t, err)
	for _, name := range []string{"ann", "acme", `"work"`} {
		require.NotContains(t, status(t, h, "e"), name, "of others it sees nothing")
	}
	require.Contains(t, status(t, h, "a"), "ann")
	require.Contains(t, status(t, h, "a"), `"work"`)

	for token, code := range map[string]string{"": remote.CodeUnauthorized, "wrong": remote.CodeUnauthorized, "none": remote.CodeForbidden} {
		stranger := h.client("ann")
		stranger.Token = token
		var e *worker.Error
		require.ErrorAs(t, stranger.Leave(t.Context()), &e)
		require.Equal(t, code, e.Code)
	}
	require.NoError(t, ann.Complete(t.Context(), hers, "ann", nil))
	out, err := h.engine.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []any{"ann"}, out.Output["results"])
}

func status(t *testing.T, h *host, token string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.URL+"/v1/status", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := h.server.Client().Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, 200, response.StatusCode)
	return string(text)
}

// A worker that was revoked is out, with what it held and with every call, and Run ends.
func TestARevokedWorkerIsKeptOut(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(1)))
	evil := register(t, h, "evil")
	his := take(t, evil)
	ran := make(chan error, 1)
	go func() {
		ran <- h.client("mallory").Run(t.Context(), pawl.Handlers{"other": func(context.Context, pawl.Task) (any, error) { return nil, nil }})
	}() // holds nothing that it could fail
	h.pool.Revoke("mallory")
	forbids(t, <-ran, "kept out")
	h.pool.Revoke("evil")
	_, err := evil.Register(t.Context(), "work")
	forbids(t, err, "kept out")
	forbids(t, evil.Complete(t.Context(), his, "evil", nil), "kept out")
	forbids(t, h.pool.Start(worker.Registration{ID: "evil"}, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }}), "kept out")
	ann := register(t, h, "ann")
	require.NoError(t, ann.Complete(t.Context(), take(t, ann), "ann", nil), "what it held is for others, at once")
	out, err := h.engine.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []any{"ann"}, out.Output["results"])
}

// The answer of Identify counts from the next request on; its errors stay with the
// host, unless they are made for the worker.
func TestIdentifyIsAskedEveryTime(t *testing.T) {
	answer := make(chan func() (worker.Caller, error), 1)
	h := start(t, replays.Dir(t), worker.Options{Identify: func(*http.Request) (worker.Caller, error) {
		return (<-answer)()
	}})
	defer h.stop(t)
	ann := h.client("ann")
	give := func(c worker.Caller, err error) { answer <- func() (worker.Caller, error) { return c, err } }
	give(worker.Caller{Worker: "ann", Types: []string{"work"}}, nil)
	_, err := ann.Register(t.Context(), "work")
	require.NoError(t, err)
	give(worker.Caller{Worker: "ann", Types: []string{"other"}}, nil)
	_, err = ann.Poll(t.Context(), 0)
	forbids(t, err, `may not take tasks of type "work"`)
	give(worker.Caller{}, errors.New("the secret of the host"))
	_, err = ann.Poll(t.Context(), 0)
	require.ErrorContains(t, err, "unauthorized")
	require.NotContains(t, err.Error(), "secret")
	give(worker.Caller{Worker: "ann"}, &worker.Error{Status: 429, Code: remote.CodeTooMany, Message: "later"})
	_, err = ann.Poll(t.Context(), 0)
	require.ErrorIs(t, err, &worker.Error{Code: remote.CodeTooMany})
}

// A token that is not set, as by os.Getenv of a name that is not there, serves nobody.
func TestAnUnsetTokenServesNobody(t *testing.T) {
	identify := worker.IdentifyTokens(nil)
	for name, o := range map[string]worker.Options{
		"none": {}, "two": {Token: "x", NoToken: true}, "two others": {Token: "x", Identify: identify},
	} {
		pool := mustNew(o)
		_, err := pool.Listen("127.0.0.1:0")
		require.ErrorIs(t, err, worker.ErrTokenNeeded, name)
		c := worker.Client{URL: "http://127.0.0.1", ID: "ann", Token: o.Token, HTTP: &http.Client{Transport: inMemory{pool.Handler()}}}
		_, err = c.Register(t.Context(), "work")
		forbids(t, err, "one of Options.Token, Options.Identify")
		require.NoError(t, pool.Close(t.Context()))
	}
}

// inMemory is a transport from this machine to a handler.
type inMemory struct{ handler http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// A stranger's connection is closed with the refusal.
func TestRefusedConnectionsAreClosed(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{Token: "secret"})
	defer h.stop(t)
	for header, code := range map[string]int{"Authorization": 401, "Sec-Fetch-Site": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL+"/v1/leave", nil)
		require.NoError(t, err)
		r.Header.Set(header, "cross-site")
		response, err := h.server.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, code, response.StatusCode)
		require.True(t, response.Close, "Connection: close")
	}
}

// Connections that say nothing do not take more than the bound, and a worker still comes in.
func TestSilentStrangersKeepNobodyOut(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{Token: "secret", MaxConnections: 3})
	defer h.stop(t)
	address, err := h.pool.Listen("127.0.0.1:0")
	require.NoError(t, err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ann := &worker.Client{URL: "http://" + address.String(), ID: "ann", Token: "secret", HTTP: &http.Client{Transport: transport}}
	_, err = ann.Register(t.Context(), "work")
	require.NoError(t, err)
	var silent []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", address.String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		silent = append(silent, c)
	}
	bob := *ann
	bob.ID, bob.HTTP = "bob", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, err = bob.Register(t.Context(), "work")
	require.NoError(t, err, "at once, not when the strangers have had their time")
	for _, c := range silent[:18] {
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err, "the oldest strangers are closed")
	}
	_, err = ann.Poll(t.Context(), 0)
	require.NoError(t, err, "and the worker is not")
	require.NoError(t, h.pool.Close(t.Context()))
}
