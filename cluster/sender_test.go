package cluster_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// A tokenTransport adds a token to each request, in place of that of its sender.
type tokenTransport string

func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

// tokens are who has which token.
var tokens = map[string]struct {
	who    string
	rights api.Rights
}{
	"Bearer node": {"node", api.All}, "Bearer ann": {"ann", api.All}, "Bearer bob": {"bob", api.View},
}

// identifyToken is an Options.Identify that goes by tokens.
func identifyToken(r *http.Request) (string, api.Rights, error) {
	known, ok := tokens[r.Header.Get("Authorization")]
	if !ok {
		return "", 0, errors.New("who are you")
	}
	return known.who, known.rights, nil
}

// start starts a run, as somebody who has a token, and returns the client as well.
func start(t *testing.T, url, token string, id workflow.RunID) (*api.Client, error) {
	var o *http.Client
	if token != "" {
		o = &http.Client{Transport: tokenTransport(token)}
	}
	c := api.NewClient(url, o)
	_, err := c.Start(t.Context(), id, api.Start{Definition: []byte(definition), Reason: "to see"})
	return c, err
}

// requireRefused requires that an error is a refusal of the API.
func requireRefused(t *testing.T, err error, status int, code string) {
	t.Helper()
	refused := (*api.Error)(nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, status, refused.Status, refused)
	require.Equal(t, code, refused.Code)
}

// A caller has the same rights wherever it asks, and none of those of the nodes: what is done is done in its name.
func TestNodesLendNobodyTheirRights(t *testing.T) {
	x := newTrial(t)
	x.access.API.Identify = identifyToken
	x.access.HTTP = &http.Client{Transport: tokenTransport("node")}
	a, b, atA, atB, await := x.openServed()
	await(func() bool { return b.Status().Owner.Node == "a" })
	for i, url := range []string{atA, atB} {
		for _, token := range []string{"", "false"} {
			_, err := start(t, url, token, "evil")
			requireRefused(t, err, http.StatusUnauthorized, "unauthorized")
		}
		_, err := start(t, url, "bob", "evil")
		requireRefused(t, err, http.StatusForbidden, "forbidden")
		id := workflow.RunID(fmt.Sprint("of-ann-", i))
		c, err := start(t, url, "ann", id)
		require.NoError(t, err)
		_, err = c.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "ann", starterOf(t, a.Engine(), id))
	}
	_, err := a.Engine().Summary(t.Context(), "evil")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	_, err = b.Client().Start(t.Context(), "own", api.Start{Definition: []byte(definition), Reason: "to see"})
	require.NoError(t, err)
	require.Equal(t, "node", starterOf(t, a.Engine(), "own"), "a node has its rights for itself")
	for path, want := range map[string]int{"/readyz": 200, "/healthz": 200, "/v1/openapi.yaml": 200, "/v1/engine": 401, "/debug/pprof/": 404, "/": 404, "/v1/../debug": 404} {
		answer, err := http.Get(atB + path)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, want, answer.StatusCode, "%s: %s", path, text)
		require.NoError(t, answer.Body.Close())
	}
	require.NoError(t, b.Close(t.Context()))
	require.NoError(t, a.Close(t.Context()))
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// starterOf returns who has started a run.
func starterOf(t *testing.T, e *pawl.Engine, id workflow.RunID) string {
	for event, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		return fmt.Sprint(event.Data["by"])
	}
	return ""
}

// A transport that speaks for the node, and an Identify that goes by the address, give a caller nothing: it has the rights that both nodes give
// to one name.
func TestPassedRequestsAreLimited(t *testing.T) {
	x := newTrial(t)
	x.access.API.Identify = func(r *http.Request) (string, api.Rights, error) {
		who, rights, err := identifyToken(r)
		if r.Header.Get("X-Forwarded-For") != "" && who == "bob" { // as if it came from an address that may do more
			rights = api.All
		}
		return who, rights, err
	}
	x.access.PassOn = forBob{}
	a, b, _, atB, await := x.openServed()
	await(func() bool { return b.Status().Owner.Node == "a" })
	_, err := start(t, atB, "ann", "evil")
	requireRefused(t, err, http.StatusForbidden, "forbidden")
	require.ErrorContains(t, err, "by another name")
	c, err := start(t, atB, "bob", "evil")
	requireRefused(t, err, http.StatusForbidden, "forbidden")
	require.ErrorContains(t, err, "Act")
	_, err = c.Summary(t.Context(), "early")
	require.ErrorIs(t, err, pawl.ErrRunNotFound, "it may look")
	require.NoError(t, b.Close(t.Context()))
	require.NoError(t, a.Close(t.Context()))
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// forBob adds the token of the node to all requests but those of bob.
type forBob struct{}

func (forBob) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "Bearer bob" {
		return http.DefaultTransport.RoundTrip(r)
	}
	return tokenTransport("node").RoundTrip(r)
}
