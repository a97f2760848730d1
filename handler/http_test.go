package handler_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
)

// serve starts a server for the length of the test.
func serve(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

// request returns a handler that may ask this machine.
func request(t testing.TB, o handler.HTTPOptions) func(context.Context, pawl.Task) (any, error) {
	t.Helper()
	if o.Transport == nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		o.Transport = transport
	}
	return handler.HTTP(o)
}

func TestHTTPSendsWhatTheInputSays(t *testing.T) {
	var got *http.Request
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/vnd.api+json; charset=utf-8")
		w.Header()["X-Two"] = []string{"a", "b"}
		w.Header().Set("Set-Cookie", "secret=1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id": 7}`)
	})
	f := request(t, handler.HTTPOptions{})
	out := gives(t, f, object{
		"method": "POST", "url": s.URL + "/orders?b=2#part", "query": object{"a": "x y", "n": 1, "no": nil},
		"headers": object{"X-One": "1", "x-count": 3}, "body": object{"total": 5},
	})
	assert.Equal(t, "POST", got.Method)
	assert.Equal(t, "/orders?a=x+y&b=2&n=1", got.RequestURI)
	assert.JSONEq(t, `{"total": 5}`, string(body))
	assert.Equal(t, "application/json", got.Header.Get("Content-Type"))
	assert.Equal(t, "1", got.Header.Get("X-One"))
	assert.Equal(t, "3", got.Header.Get("X-Count"))
	assert.Equal(t, "pawl", got.Header.Get("User-Agent"))
	assert.Equal(t, "run-1/node/7", got.Header.Get("Idempotency-Key"))
	assert.Equal(t, 201, out["status"])
	assert.Equal(t, object{"id": int64(7)}, out["body"])
	headers := out["headers"].(object)
	assert.Equal(t, "a, b", headers["x-two"])
	assert.NotContains(t, headers, "set-cookie")

	gives(t, f, object{"url": s.URL, "method": "PUT", "body": "as it is", "headers": object{"content-type": "text/csv", "Idempotency-Key": "mine"}})
	assert.Equal(t, "as it is", string(body))
	assert.Equal(t, "text/csv", got.Header.Get("Content-Type"))
	assert.Equal(t, "mine", got.Header.Get("Idempotency-Key"))

	gives(t, f, object{"url": s.URL + "/?a=%zz;&b"})
	assert.Equal(t, "/?a=%zz;&b", got.RequestURI, "it is sent as it is")

	gives(t, f, object{"url": s.URL})
	assert.Equal(t, "GET", got.Method)
	assert.NotContains(t, got.Header, "Idempotency-Key")
	assert.NotContains(t, got.Header, "Content-Type")

	gives(t, request(t, handler.HTTPOptions{NoIdempotencyKey: true}), object{"url": s.URL, "method": "DELETE"})
	assert.NotContains(t, got.Header, "Idempotency-Key")
}

// A key that a header cannot hold is sent as its hash, the same every time.
func TestHTTPHashesKeys(t *testing.T) {
	var keys []string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { keys = append(keys, r.Header.Get("Idempotency-Key")) })
	f := request(t, handler.HTTPOptions{})
	for _, key := range []string{"größe/n/1", "größe/n/1", "größe/n/2", strings.Repeat("x", 256), "a b"} {
		_, err := f(t.Context(), pawl.Task{EffectKey: key, Input: object{"url": s.URL, "method": "POST"}})
		require.NoError(t, err)
	}
	require.Len(t, keys, 5)
	for _, key := range keys {
		assert.Regexp(t, "^[0-9a-f]{64}$", key)
	}
	assert.Equal(t, keys[0], keys[1])
	assert.NotEqual(t, keys[0], keys[2])
}

func TestHTTPBodies(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		_, _ = io.WriteString(w, r.URL.Query().Get("body"))
	})
	f := request(t, handler.HTTPOptions{ResponseBytes: 20})
	tests := []struct {
		media, body string
		text        bool
		want        any
		code        string
	}{
		{"application/json", `[1, 2.5]`, false, []any{int64(1), 2.5}, ""},
		{"application/json", `[1, 2.5]`, true, `[1, 2.5]`, ""},
		{"application/problem+json", `null`, false, nil, ""},
		{"text/plain", "hällo", false, "hällo", ""},
		{"", `{"a": 1}`, false, `{"a": 1}`, ""},
		{"application/json", "", false, nil, ""},
		{"text/plain", strings.Repeat("x", 20), false, strings.Repeat("x", 20), ""},
		{"text/plain", strings.Repeat("x", 21), false, nil, handler.CodeHTTPTooLarge},
		{"application/json", "{", false, nil, handler.CodeHTTPBody},
		{"application/json", `{"a":1,"a":2}`, false, nil, handler.CodeHTTPBody},
		{"application/json", "12345678901234567890", false, nil, handler.CodeHTTPBody},
		{"text/plain", "\xff\xfe", false, nil, handler.CodeHTTPBody},
	}
	for _, tt := range tests {
		input := object{"url": s.URL, "query": object{"type": tt.media, "body": tt.body}, "text": tt.text}
		if !strings.HasPrefix(tt.body, "\xff") {
			if tt.code == "" {
				assert.Equal(t, tt.want, gives(t, f, input)["body"], "%s %s", tt.media, tt.body)
				continue
			}
		} else {
			input = object{"url": s.URL + "?type=text/plain&body=%ff%fe"}
		}
		failure := fails(t, f, input)
		assert.Equal(t, tt.code, failure.Code, "%s", failure.Message)
		assert.False(t, failure.Retryable)
	}
}

func TestHTTPObeysRetryAfterWithinABound(t *testing.T) {
	var says string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", says)
		w.WriteHeader(http.StatusTooManyRequests)
	})
	for _, tt := range []struct {
		says        string
		most, least time.Duration
		bound       time.Duration
	}{
		{says: "7", least: 7 * time.Second, most: 7 * time.Second},
		{says: "100000000000000000", least: 10 * time.Minute, most: 10 * time.Minute},
		{says: "700", bound: time.Hour, least: 700 * time.Second, most: 700 * time.Second},
		{says: "-1"}, {says: "soon"}, {says: ""}, {says: "7", bound: -1},
		{says: time.Now().Add(5 * time.Minute).UTC().Format(http.TimeFormat), least: time.Second, most: 5 * time.Minute},
		{says: time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat)},
	} {
		says = tt.says
		failure := fails(t, request(t, handler.HTTPOptions{MaxRetryAfter: tt.bound}), object{"url": s.URL})
		assert.LessOrEqual(t, failure.RetryAfter, tt.most, tt.says)
		assert.GreaterOrEqual(t, failure.RetryAfter, tt.least, tt.says)
	}
}

func TestHTTPStatuses(t *testing.T) {
	statuses := map[string]int{"/404": 404, "/409": 409, "/408": 408, "/425": 425, "/429": 429, "/500": 500, "/503": 503, "/501": 501, "/304": 304, "/204": 204}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(statuses[r.URL.Path])
		_, _ = io.WriteString(w, "because \xff")
	})
	f := request(t, handler.HTTPOptions{})
	tests := []struct {
		path, code string
		retryable  bool
	}{
		{"/404", "http_4xx", false}, {"/409", "http_4xx", false}, {"/408", "http_4xx", true}, {"/425", "http_4xx", true},
		{"/429", "http_4xx", true}, {"/500", "http_5xx", true}, {"/503", "http_5xx", true}, {"/501", "http_5xx", true}, {"/304", "http_3xx", false},
	}
	for _, tt := range tests {
		failure := fails(t, f, object{"url": s.URL + tt.path + "?token=secret"})
		assert.Equal(t, tt.code, failure.Code, tt.path)
		assert.Equal(t, tt.retryable, failure.Retryable, tt.path)
		assert.NotContains(t, failure.Message, "secret")
		assert.Equal(t, 2*time.Minute, failure.RetryAfter)
	}
	failure := fails(t, f, object{"url": s.URL + "/429"})
	assert.Equal(t, "GET "+s.URL+`/429: 429 Too Many Requests, Retry-After "120": because �`, failure.Message)

	assert.Equal(t, 204, gives(t, f, object{"url": s.URL + "/204"})["status"])
	assert.Equal(t, 404, gives(t, f, object{"url": s.URL + "/404", "accept": []any{404}, "text": true, "method": "HEAD"})["status"])
	assert.Equal(t, 503, gives(t, f, object{"url": s.URL + "/503", "accept": []any{404, "5xx"}, "method": "HEAD"})["status"])
	fails(t, f, object{"url": s.URL + "/503", "accept": []any{404}})
}

func TestHTTPRefusesInputs(t *testing.T) {
	f := handler.HTTP(handler.HTTPOptions{Timeout: time.Minute})
	const url = "http://example.com"
	long := strings.Repeat("x", 9000)
	tests := []struct {
		input   any
		message string
	}{
		{nil, "input: url is missing"},
		{object{}, "input: url is missing"},
		{object{"url": 7}, "input: url is a number, not a string"},
		{object{"url": "/path"}, "input: url: it is not an absolute URL such as https://example.com/path"},
		{object{"url": "mailto:a@example.com"}, "input: url: it is not an absolute URL"},
		{object{"url": "http://a b"}, "input: url: it is not an absolute URL"},
		{object{"url": "http://user:pass@example.com"}, "input: url: it has a user in it; use a header"},
		{object{"url": url + "/" + long}, "input: url has 9019 bytes, above the limit of 8192"},
		{object{"url": url, "query": object{"a": long}}, "input: url and query have 9021 bytes, above the limit of 8192"},
		{object{"url": url, "method": "get"}, `input: method: "get" is not one of GET, HEAD`},
		{object{"url": url, "method": "CONNECT"}, `input: method: "CONNECT" is not one of`},
		{object{"url": url, "body": "x"}, "input: body: GET has none"},
		{object{"url": url, "headers": []any{}}, "input: headers is a list, not an object"},
		{object{"url": url, "headers": object{"a b": "x"}}, `input: headers: "a b" is not the name of a header`},
		{object{"url": url, "headers": object{"host": "x"}}, `input: headers: "host" cannot be set`},
		{object{"url": url, "headers": object{"X-a": "1", "x-A": "2"}}, `input: headers: "X-a" and "x-A" are one header`},
		{object{"url": url + "/?a=%zz&b=1", "query": object{"c": 2}}, "input: url: it has a query that cannot be read, to which no parameters can be added"},
		{object{"url": url + "/?a=1;b=1", "query": object{"c": 2}}, "input: url: it has a query that cannot be read"},
		{object{"url": url, "headers": object{"A": "x\r\nB: y"}}, `input: headers."A" has a control character in it`},
		{object{"url": url, "headers": object{"A": []any{}}}, `input: headers."A" is a list, not a string`},
		{object{"url": url, "headers": object{"A": long + long}}, "input: headers: 1 with 18001 bytes, above the limit of 64 with 16384"},
		{object{"url": url, "timeout": "soon"}, `input: timeout: "soon" is not a duration such as 30s`},
		{object{"url": url, "timeout": "0s"}, `input: timeout: "0s" is not above 0`},
		{object{"url": url, "timeout": "2m"}, `input: timeout: "2m" is above the limit of 1m0s`},
		{object{"url": url, "accept": 404}, "input: accept is a number, not a list"},
		{object{"url": url, "accept": []any{100}}, "input: accept[0] is not a status such as 404 or a class such as 4xx"},
		{object{"url": url, "accept": []any{404, "40x"}}, "input: accept[1] is not a status"},
		{object{"url": url, "text": "yes"}, "input: text is a string, not a bool"},
		{object{"url": url, "metod": "GET", "timeout": 5}, `input: "metod": unknown field; there are method, url, query, headers, body, timeout, accept, text; timeout is a number, not a string`},
	}
	for _, tt := range tests {
		failure := fails(t, f, tt.input)
		assert.Equal(t, handler.CodeInvalidInput, failure.Code, failure.Message)
		assert.Contains(t, failure.Message, tt.message)
		assert.False(t, failure.Retryable)
	}
	crowd := object{}
	for _, c := range strings.Repeat("abcdefghij", 3) {
		crowd[string(c)+long[:len(crowd)]] = 1
	}
	assert.Contains(t, fails(t, f, crowd).Message, "; and 11 more")
}

func TestHTTPAllows(t *testing.T) {
	asked := 0
	s := serve(t, func(http.ResponseWriter, *http.Request) { asked++ })
	host := strings.TrimPrefix(s.URL, "http://")
	name, port, err := net.SplitHostPort(host)
	require.NoError(t, err)
	no := func(*url.URL) error { return errors.New("not today") }
	tests := []struct {
		options handler.HTTPOptions
		url     string
		message string // empty if it is allowed
	}{
		{handler.HTTPOptions{}, s.URL, ""},
		{handler.HTTPOptions{Hosts: []string{"other", name}}, s.URL, ""},
		{handler.HTTPOptions{Hosts: []string{host}}, s.URL, ""},
		{handler.HTTPOptions{Hosts: []string{"localhost."}}, "http://LOCALHOST:" + port, ""},
		{handler.HTTPOptions{Hosts: []string{"other"}}, s.URL, `the host "` + host + `" is not among those that are allowed`},
		{handler.HTTPOptions{Hosts: []string{name + ":1"}}, s.URL, "is not among those that are allowed"},
		{handler.HTTPOptions{Hosts: []string{"::1"}}, s.URL, "is not among those that are allowed"},
		{handler.HTTPOptions{Hosts: []string{""}}, s.URL, "is not among those that are allowed"},
		{handler.HTTPOptions{Allow: no}, s.URL + "?token=secret", s.URL + ": not today"},
		{handler.HTTPOptions{}, "file://localhost/etc/passwd", `the scheme "file" is not http or https`},
	}
	for _, tt := range tests {
		asked = 0
		f := request(t, tt.options)
		if tt.message == "" {
			gives(t, f, object{"url": tt.url})
			assert.Equal(t, 1, asked)
			continue
		}
		failure := fails(t, f, object{"url": tt.url})
		assert.Equal(t, handler.CodeHTTPDenied, failure.Code)
		assert.Contains(t, failure.Message, tt.message)
		assert.NotContains(t, failure.Message, "secret")
		assert.False(t, failure.Retryable)
		assert.Zero(t, asked)
	}
}

// The handler's own transport refuses addresses that are not public when it
// connects, whatever the name was.
func TestHTTPRefusesPrivateAddresses(t *testing.T) {
	asked := 0
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Connection", "close") // so that the handler's transport keeps nothing
	})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"} {
		failure := fails(t, handler.HTTP(handler.HTTPOptions{}), object{"url": "http://" + host + ":" + port})
		assert.Equal(t, handler.CodeHTTPDenied, failure.Code, failure.Message)
		assert.Contains(t, failure.Message, "is not public")
	}
	assert.Zero(t, asked)
	gives(t, handler.HTTP(handler.HTTPOptions{Private: true}), object{"url": s.URL})
	assert.Equal(t, 1, asked)
}

func TestHTTPRedirects(t *testing.T) {
	var got *http.Request
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r; _, _ = io.WriteString(w, "other") })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/near":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/far":
			http.Redirect(w, r, other.URL+"/x?secret", http.StatusTemporaryRedirect)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/forever":
			http.Redirect(w, r, "/forever", http.StatusFound)
		default:
			got = r
			_, _ = io.WriteString(w, "end")
		}
	})
	f := request(t, handler.HTTPOptions{})
	headers := object{"X-Api-Key": "key", "Authorization": "Bearer key"}
	assert.Equal(t, "end", gives(t, f, object{"url": s.URL + "/near", "headers": headers})["body"])
	assert.Equal(t, "key", got.Header.Get("X-Api-Key"))

	failure := fails(t, f, object{"url": s.URL + "/far"})
	assert.Equal(t, "http_3xx: GET "+s.URL+"/far: a redirect to another host, "+other.URL+"/x", failure.Error())
	assert.False(t, failure.Retryable)
	out := gives(t, f, object{"url": s.URL + "/far", "accept": []any{307}})
	assert.Equal(t, 307, out["status"])
	assert.Equal(t, other.URL+"/x?secret", out["headers"].(object)["location"])
	failure = fails(t, f, object{"url": s.URL + "/forever"})
	assert.Equal(t, "http_3xx: GET "+s.URL+"/forever: more than 10 redirects", failure.Error())
	assert.Equal(t, handler.CodeHTTPDenied, fails(t, f, object{"url": s.URL + "/file"}).Code)

	far := request(t, handler.HTTPOptions{OtherHosts: true})
	out = gives(t, far, object{"url": s.URL + "/far", "method": "POST", "body": object{"a": 1}, "headers": headers})
	assert.Equal(t, "other", out["body"])
	assert.Empty(t, got.Header.Get("X-Api-Key"))
	assert.Empty(t, got.Header.Get("Authorization"))
	assert.Equal(t, "application/json", got.Header.Get("Content-Type"))
	assert.Equal(t, "run-1/node/7", got.Header.Get("Idempotency-Key"))
	one := request(t, handler.HTTPOptions{OtherHosts: true, Hosts: []string{strings.TrimPrefix(s.URL, "http://")}})
	assert.Equal(t, handler.CodeHTTPDenied, fails(t, one, object{"url": s.URL + "/far"}).Code)
}

func TestHTTPTimeout(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	})
	f := request(t, handler.HTTPOptions{})
	for _, path := range []string{"/", "/half"} {
		failure := fails(t, f, object{"url": s.URL + path, "timeout": "30ms"})
		assert.Equal(t, handler.CodeHTTPTimeout, failure.Code, failure.Message)
		assert.Contains(t, failure.Message, "no answer within 30ms")
		assert.True(t, failure.Retryable)
	}
	failure := fails(t, request(t, handler.HTTPOptions{Timeout: 30 * time.Millisecond}), object{"url": s.URL})
	assert.Equal(t, handler.CodeHTTPTimeout, failure.Code)
}

func TestHTTPIsWithdrawn(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	withdrawn := errors.New("withdrawn")
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(withdrawn)
		<-r.Context().Done()
	})
	_, err := request(t, handler.HTTPOptions{})(ctx, task(object{"url": s.URL}))
	require.ErrorIs(t, err, withdrawn)
}

func TestHTTPNetwork(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	f := request(t, handler.HTTPOptions{})
	closed := httptest.NewServer(nil)
	secure := httptest.NewUnstartedServer(nil)
	secure.TLS = &tls.Config{}
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	closed.Close() // once nobody here may get its port
	for _, url := range []string{s.URL, s.URL + "/half", closed.URL, secure.URL} {
		failure := fails(t, f, object{"url": url + "?token=secret"})
		assert.Equal(t, handler.CodeHTTPNetwork, failure.Code, failure.Message)
		assert.NotContains(t, failure.Message, "secret")
		assert.True(t, failure.Retryable)
	}
}

func TestHTTPPrepare(t *testing.T) {
	var got string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") })
	f := request(t, handler.HTTPOptions{PrepareAnywhere: true, Prepare: func(_ context.Context, t pawl.Task, r *http.Request) error {
		if t.Run != "run-1" {
			return pawl.TaskError{Code: "no_credentials", Retryable: true}
		}
		r.Header.Set("Authorization", "Bearer secret")
		return nil
	}})
	gives(t, f, object{"url": s.URL})
	assert.Equal(t, "Bearer secret", got)
	_, err := f(t.Context(), pawl.Task{Run: "run-2", Input: object{"url": s.URL}})
	require.Equal(t, pawl.TaskError{Code: "no_credentials", Retryable: true}, err)
}
