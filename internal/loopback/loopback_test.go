package loopback

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsLoopback(t *testing.T) {
	for _, here := range []string{"localhost", "LOCALHOST:80", "127.0.0.1", "127.9.9.9:1", "[::1]:80", "[::1]", "::1", "[::ffff:127.0.0.1]:1"} {
		require.True(t, IsLoopback(here), here)
	}
	for _, elsewhere := range []string{"", "localhost.example", "example.com:80", "10.0.0.1", "[2001:db8::1]:80", "127.0.0.1.example:80", "0.0.0.0:80", "localhost:80@evil", "127.0.0.1:80@evil.example", "localhost:80/x"} {
		require.False(t, IsLoopback(elsewhere), elsewhere)
	}
}

func TestSentRequest(t *testing.T) {
	r := httptest.NewRequest("GET", "http://localhost:1/", nil)
	r.RemoteAddr = "127.0.0.1:1"
	require.True(t, SentRequest(r))
	r.Host = "pawl.example"
	require.False(t, SentRequest(r), "a name that was pointed here")
	r.Host = "localhost"
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	require.False(t, SentRequest(r), "a proxy brings others")
	r.Header.Del("X-Forwarded-For")
	r.RemoteAddr = "192.0.2.1:1"
	require.False(t, SentRequest(r))
}
