package api

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
)

// Only what was not done at all says when to come back: programs repeat by that what nobody should repeat unseen.
func TestRetryAfter(t *testing.T) {
	for _, x := range []struct {
		err  error
		want string
	}{{pawl.ErrBusy, "1"}, {pawl.ErrUnknown, ""}, {pawl.ErrFailed, ""}, {pawl.ErrFenced, ""}} {
		w := httptest.NewRecorder()
		(&call{server: &server{}, w: w}).writeError(x.err)
		require.Equal(t, 503, w.Code)
		require.Equal(t, x.want, w.Header().Get("Retry-After"), "%v", x.err)
	}
}

// A look at what was done that fails is no refusal, whatever it fails with: nothing says that it was not done.
func TestUnknownWhenDone(t *testing.T) {
	for _, err := range []error{pawl.ErrRunNotFound, pawl.ErrClosed, refusef(403, codeForbidden, "no")} {
		w := httptest.NewRecorder()
		(&call{server: &server{}, w: w}).writeError(unknownWhenDone(err))
		require.Equal(t, 503, w.Code)
		require.Contains(t, w.Body.String(), `"code":"unknown_outcome"`)
		require.Empty(t, w.Header().Get("Retry-After"))
	}
}
