package handler_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
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
// more on it: a client that reads an answer there waits for ever.
func TestHTTPRefusesSwitchingProtocols(t *testing.T) {
	const answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: silence\r\nConnection: Upgrade\r\n\r\nspoken in another protocol\r\n"
	f := request(t, handler.HTTPOptions{})
	failure := fails(t, f, object{"url": answerRaw(t, answer)})
	assert.Equal(t, "http_1xx", failure.Code)
	assert.Contains(t, failure.Message, "101 Switching Protocols")
	assert.NotContains(t, failure.Message, "spoken", "nothing is read")
	assert.False(t, failure.Retryable)
}

// A silentBody blocks its reader until it is closed.
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

// The answer of a server may hold what it knows of the caller.
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

// net/http looks a name up in ASCII: a rule must see that one.
func TestHTTPAllowIsAskedAboutTheNameThatIsConnectedTo(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"http://ｌocalhost:80/", "localhost:80"},
		{"http://ⓛocalhost/", "localhost"},
		{"http://lo\u00adcalhost/", "localhost"},
		{"http://LOCALHOST./", "localhost"},
		{"http://localhost。/", "localhost"},
		{"http://①②⑦.0.0.1/", "127.0.0.1"},
		{"http://MÜLLER.example/", "xn--mller-kva.example"},
		{"http://[::1]:8080/", "[::1]:8080"},
	} {
		asked := ""
		f := handler.HTTP(handler.HTTPOptions{Allow: func(u *url.URL) error {
			asked = u.Host
			return errors.New("no")
		}})
		failure := fails(t, f, object{"url": tt.url})
		assert.Equal(t, handler.CodeHTTPDenied, failure.Code)
		assert.Equal(t, tt.want, asked, tt.url)
	}
	failure := fails(t, handler.HTTP(handler.HTTPOptions{}), object{"url": "http://xn--a\u0300.example"})
	assert.Contains(t, failure.Message, "is no name")

	got := ""
	listed := handler.HTTPOptions{Hosts: []string{"müller.example"}, Transport: roundTrip(func(r *http.Request) { got = r.URL.Host })}
	gives(t, handler.HTTP(listed), object{"url": "http://Mu\u0308ller.example"})
	assert.Equal(t, "xn--mller-kva.example", got)
}

// A roundTrip answers every request with 204.
type roundTrip func(*http.Request)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody}, nil
}

// Credentials go where the host says, not where the author of a definition points.
func TestHTTPPreparesOnlyForNamedHostsOverTLS(t *testing.T) {
	prepared := 0
	prepare := func(context.Context, pawl.Task, *http.Request) error { prepared++; return nil }
	for _, tt := range []struct {
		hosts []string
		url   string
		any   bool
		want  string // empty if it is prepared
	}{
		{nil, "https://attacker.example", false, "it lists none"},
		{nil, "http://attacker.example", false, "it lists none"},
		{[]string{"api.example"}, "https://attacker.example", false, "is not among those that are allowed"},
		{[]string{"api.example"}, "http://api.example", false, "goes over https only"},
		{[]string{"api.example"}, "https://api.example:8443", false, ""},
		{[]string{"api.example"}, "http://api.example", true, ""},
		{nil, "http://attacker.example", true, ""},
	} {
		prepared = 0
		f := handler.HTTP(handler.HTTPOptions{Hosts: tt.hosts, Prepare: prepare, PrepareAnywhere: tt.any, Transport: roundTrip(func(*http.Request) {})})
		if tt.want == "" {
			gives(t, f, object{"url": tt.url})
			assert.Equal(t, 1, prepared)
			continue
		}
		failure := fails(t, f, object{"url": tt.url})
		assert.Equal(t, handler.CodeHTTPDenied, failure.Code)
		assert.Contains(t, failure.Message, tt.want)
		assert.Zero(t, prepared)
	}
}

// A scarceTransport has no descriptor for a connection.
type scarceTransport struct{}

func (scarceTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
}

// The engine calls a task again that met too many open files, if the error still says so.
func TestHTTPSaysThatThereAreTooManyOpenFiles(t *testing.T) {
	f := handler.HTTP(handler.HTTPOptions{Transport: scarceTransport{}})
	_, err := f(t.Context(), task(object{"url": "http://api.example/?key=secret"}))
	require.ErrorIs(t, err, syscall.EMFILE)
	require.NotErrorAs(t, err, new(pawl.TaskError))
	assert.NotContains(t, err.Error(), "secret")
}
