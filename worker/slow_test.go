package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// servingStub serves a pool with a token while test has a connection to it, in
// virtual time. Then the server must end within two minutes.
func servingStub(t *testing.T, test func(t *testing.T, conn net.Conn)) {
	t.Helper()
	bubble(t, Options{Token: secret}, func(t *testing.T, p *Pool, _ *fake) {
		l := harness.NewPipes()
		s := &http.Server{Handler: p.Handler(), ReadHeaderTimeout: time.Second}
		ended := make(chan error)
		go func() { ended <- s.Serve(l) }()
		here, err := l.DialContext(t.Context(), "", "")
		require.NoError(t, err)
		test(t, here)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
		require.NoError(t, here.Close())
	})
}

// A caller without a token cannot hold a connection by a body that does not
// come.
func TestABodyThatDoesNotCome(t *testing.T) {
	for _, path := range []string{"POST /v1/register", "GET /v1/status", "POST /nothing"} {
		servingStub(t, func(t *testing.T, conn net.Conn) {
			begun := time.Now()
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", path)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
			_, err = io.Copy(io.Discard, conn)
			require.NoError(t, err, "the server hangs up")
			require.LessOrEqual(t, time.Since(begun), 2*readTimeout)
		})
	}
}

// A worker that does not read a blob does not hold the server.
func TestABlobThatIsNotRead(t *testing.T) {
	servingStub(t, func(t *testing.T, conn net.Conn) {
		fmt.Fprintf(conn, "GET /v1/blobs?hash=%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", large, secret)
		_, err := conn.Read(make([]byte, 1))
		require.NoError(t, err)
	})
}

// A blob may take long, as long as it goes on, and so may who waits for it.
func TestABlobThatIsReadSlowly(t *testing.T) {
	servingStub(t, func(t *testing.T, conn net.Conn) {
		fmt.Fprintf(conn, "GET /v1/blobs?hash=%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", large, secret)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		for range 64 {
			pass(writeTimeout / 2)
			n, err := io.CopyN(io.Discard, answer.Body, 1<<20)
			require.NoError(t, err)
			require.EqualValues(t, 1<<20, n)
		}
		_, err = answer.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

// An answer that nobody reads does not hold the server, and a connection with
// one that was read is good for the next.
func TestAnAnswerThatIsNotRead(t *testing.T) {
	servingStub(t, func(t *testing.T, conn net.Conn) {
		ask := "POST /v1/leave HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\nContent-Length: 15\r\n\r\n" + `{"worker": "x"}`
		in := bufio.NewReader(conn)
		for range 3 {
			_, err := io.Copy(conn, strings.NewReader(ask))
			require.NoError(t, err)
			answer, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, answer.StatusCode)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
			pass(5 * writeTimeout)
		}
		_, err := io.Copy(conn, strings.NewReader(ask))
		require.NoError(t, err)
		synctest.Wait()
	})
}

// A poll waits for its time, however little the server of the host gives to a request.
func TestAPollAtAServerWithShortTimeouts(t *testing.T) {
	bubble(t, Options{Token: secret}, func(t *testing.T, p *Pool, _ *fake) {
		clients, stop := harness.BusyClients(t, p.Handler(), time.Second)
		defer stop()
		for protocol, to := range clients {
			c := &Client{URL: "http://localhost", ID: "ann", Token: secret, HTTP: to}
			_, err := c.Register(t.Context(), "a")
			require.NoError(t, err, protocol)
			begun := time.Now()
			_, err = c.Poll(t.Context(), 30*time.Second)
			require.NoError(t, err, protocol)
			require.Equal(t, 30*time.Second, time.Since(begun), protocol)
		}
	})
}
