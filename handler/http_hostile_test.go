package handler_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/handler"
)

// answerRaw starts a server that answers every request with the same bytes, and then keeps
// the connection open without a word. It returns its URL.
func answerRaw(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				_, _ = io.WriteString(conn, answer)
				_, _ = io.Copy(io.Discard, conn) // until the client hangs up
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// A server that switches to another protocol hands its connection over. It says nothing
// more on it: who reads an answer there waits for ever.
func TestHTTPRefusesSwitchingProtocols(t *testing.T) {
	const answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: silence\r\nConnection: Upgrade\r\n\r\n"
	f := request(t, handler.HTTPOptions{})
	failure := fails(t, f, object{"url": answerRaw(t, answer)})
	assert.Equal(t, "http_1xx", failure.Code)
	assert.Contains(t, failure.Message, "101 Switching Protocols")
	assert.False(t, failure.Retryable)
}

// A silentBody blocks whoever reads it until it is closed.
type silentBody struct{ closed chan struct{} }

func (b silentBody) Read([]byte) (int, error) {
	<-b.closed
	return 0, errors.New("closed")
}

func (b silentBody) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}

// A silentTransport answers with a body that knows nothing of the request's context.
type silentTransport int

func (status silentTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(status), Header: http.Header{}, Body: silentBody{make(chan struct{})}}, nil
}

func TestHTTPReadsNoBodyBeyondItsContext(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		synctest.Test(t, func(t *testing.T) {
			f := handler.HTTP(handler.HTTPOptions{Transport: silentTransport(status), Timeout: time.Second})
			began := time.Now()
			_, err := f(t.Context(), task(object{"url": "http://silent.example"}))
			require.Error(t, err)
			assert.Equal(t, time.Second, time.Since(began))

			withdrawn := errors.New("withdrawn")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Millisecond, func() { cancel(withdrawn) })
			began = time.Now()
			_, err = f(ctx, task(object{"url": "http://silent.example"}))
			require.Error(t, err)
			assert.Equal(t, time.Millisecond, time.Since(began))
		})
	}
}

// What a server answers may hold what it knows of the caller.
func TestHTTPQuotesNothingOfAnAnswerThatIsNone(t *testing.T) {
	f := request(t, handler.HTTPOptions{})
	for _, answer := range []string{
		"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://[::1?token=secret\r\n\r\n",
		"HTTP/1.1 307 Elsewhere\r\nContent-Length: 0\r\nLocation: http://x:\"/?token=secret\r\n\r\n",
		"HTTP/1.1 200 OK\r\nLocation: ?token=secret\x7f\r\n\r\n",
		"HTTP/secret 200 OK\r\n\r\n",
	} {
		failure := fails(t, f, object{"url": answerRaw(t, answer) + "/?key=secret"})
		assert.Equal(t, handler.CodeHTTPNetwork, failure.Code, failure.Message)
		assert.NotContains(t, failure.Message, "secret")
	}
}
