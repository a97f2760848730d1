package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
)

// A clientCall is one call of a client.
type clientCall struct {
	name string
	acts bool
	call func(context.Context, *api.Client) error
}

var clientCalls = []clientCall{
	{"do", true, func(ctx context.Context, c *api.Client) error {
		_, err := c.Do(ctx, "a", api.Operation{Act: pawl.Pause{}})
		return err
	}},
	{"start", true, func(ctx context.Context, c *api.Client) error {
		_, err := c.Start(ctx, "a", api.Start{Workflow: "w"})
		return err
	}},
	{"fork", true, func(ctx context.Context, c *api.Client) error {
		_, err := c.Fork(ctx, "a", api.Fork{To: "b"})
		return err
	}},
	{"dry run", false, func(ctx context.Context, c *api.Client) error {
		_, err := c.DryRun(ctx, "a", api.Operation{Act: pawl.Pause{}})
		return err
	}},
	{"summary", false, func(ctx context.Context, c *api.Client) error {
		_, err := c.Summary(ctx, "a")
		return err
	}},
}

// The outcome of a call that changes something is unknown if it was sent and no engine has answered it.
func TestACallWithoutAnAnswer(t *testing.T) {
	for what, answer := range map[string]http.HandlerFunc{
		"broken": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte(`{"run`))
		},
		"of a proxy": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		server := httptest.NewServer(answer)
		client := api.NewClient(server.URL, server.Client())
		for _, c := range clientCalls {
			err := c.call(t.Context(), client)
			require.Error(t, err, "%s: %s", what, c.name)
			require.Equal(t, c.acts, isUnknown(err), "%s: %s: %v", what, c.name, err)
		}
		server.Close()
		for _, c := range clientCalls {
			err := c.call(t.Context(), client)
			require.Error(t, err)
			require.False(t, isUnknown(err), "%s was not sent", c.name)
		}
	}
}

// So it is of one whose caller does not wait for the answer.
func TestACallThatIsInterrupted(t *testing.T) {
	arrived := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	for _, c := range clientCalls {
		ctx, interrupt := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.call(ctx, api.NewClient(server.URL, server.Client())) }()
		<-arrived
		interrupt()
		err := <-done
		require.ErrorIs(t, err, context.Canceled, c.name)
		require.Equal(t, c.acts, isUnknown(err), c.name)
	}
}

func isUnknown(err error) bool { return errors.Is(err, pawl.ErrUnknown) }

// A base that is not the place of a Handler is told as such.
func TestABaseWithoutAnAPI(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := api.NewClient(server.URL+"/other", nil).Engine(t.Context())
	require.ErrorContains(t, err, "no API of pawl answers at "+server.URL+"/other/v1/engine")
	for _, base := range []string{"", "127.0.0.1:1", "localhost:1", "example.com/pawl"} {
		_, err := api.NewClient(base, nil).Engine(t.Context())
		require.ErrorIs(t, err, pawl.ErrInvalid, base)
		require.ErrorContains(t, err, "the base of a Client is a URL such as https://example.com/pawl: ", base)
	}
}
