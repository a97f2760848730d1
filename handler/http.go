package handler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"syscall"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/traceparent"
)

// HTTPOptions say what HTTP may do. The zero value of every field works: it
// reaches every host with a public address.
type HTTPOptions struct {
	// Hosts are the hosts that may be asked, as "api.example.com" for any port or
	// "api.example.com:8443" for that one; empty means every host.
	Hosts []string
	// Allow refuses a URL with an error, which becomes the message of
	// CodeHTTPDenied. It is asked after Hosts, for the target of a redirect as
	// well. The host of the URL is as it is connected to: in lower case and in ASCII (IDNA),
	// without a dot at its end.
	Allow func(*url.URL) error
	// Private lets names resolve to addresses that are not public: loopback,
	// private, link-local and such. By default a connection to one is refused when
	// it is made, after the name is resolved, so that a task cannot reach services
	// that only this machine can.
	Private bool
	// OtherHosts follows redirects to another host, port or scheme, without the
	// headers that the task and Prepare have set. By default only redirects within
	// the same host are followed, and from http to https on it.
	OtherHosts bool
	// Prepare changes a request before it is sent: it adds credentials, which in
	// an input would be stored with the run. Its error fails the task, as it
	// would if the handler had returned it. With Prepare only the hosts that Hosts
	// lists can be asked, and only over https: any other URL is refused with
	// CodeHTTPDenied.
	Prepare func(context.Context, pawl.Task, *http.Request) error
	// PrepareAnywhere lets Prepare change requests to every reachable host, also over
	// http: for a Prepare that adds no secret, or checks the URL itself.
	PrepareAnywhere bool
	// NoIdempotencyKey leaves out the header Idempotency-Key.
	NoIdempotencyKey bool
	// Timeout bounds the whole exchange, with redirects and the body; 30 s by
	// default. An input may set a shorter one.
	Timeout time.Duration
	// MaxRetryAfter bounds the delay that a server may ask for with Retry-After; 10
	// minutes by default. Less than 0 leaves delays to the retry policy.
	MaxRetryAfter time.Duration
	// ResponseBytes bounds the body of a response, decompressed; 1 MiB by default.
	ResponseBytes int
	// Transport replaces the handler's own transport, which uses no proxy. It must
	// then enforce Private itself.
	Transport http.RoundTripper
}

// The bounds of HTTP that are not options.
const (
	maxRedirects     = 10
	maxURL           = 8 << 10  // bytes
	maxHeaders       = 64       // of a request
	maxHeaderBytes   = 16 << 10 // of a request, names and values
	maxResponseHeads = 64 << 10 // bytes of the headers of a response
	maxExcerpt       = 1 << 10  // bytes of a body that an error quotes
)

// HTTP returns a handler that makes one HTTP request.
//
// The input has url, and may have method (GET by default), query and headers
// (objects of strings), body (a string is sent as it is, anything else as JSON),
// timeout (such as "5s"), accept (statuses that are no failure besides 2xx, such
// as 404 or "4xx"; a redirect with one is not followed) and text (true: the body is text, even if it says that it is
// JSON). The output has status (a number), headers (an object of strings with
// names in lower case, without Set-Cookie) and body: a JSON value if the type of
// the response is JSON, else text; null if it is empty.
//
// A request with a method that is not safe carries the header Idempotency-Key: the
// task's EffectKey, or its SHA-256 in hex if a header cannot hold it. It is the
// same in every attempt.
//
// A status that is not accepted fails the task with http_3xx, http_4xx or
// http_5xx. The statuses 408, 425, 429 and 5xx are retryable, as are CodeHTTPNetwork and
// CodeHTTPTimeout. CodeInvalidInput, CodeHTTPDenied, CodeHTTPBody, CodeHTTPTooLarge and
// any other status are permanent. Retry-After of a status that is retryable takes the
// place of the delay of the retry policy, up to MaxRetryAfter. An exchange for which
// there are too many open files has no code: the engine calls the task again, see
// pawl.Handlers.
func HTTP(o HTTPOptions) func(context.Context, pawl.Task) (any, error) {
	o.Timeout, o.ResponseBytes = time.Duration(positiveOr(int64(o.Timeout), int64(30*time.Second))), positiveOr(o.ResponseBytes, 1<<20)
	if o.MaxRetryAfter == 0 {
		o.MaxRetryAfter = 10 * time.Minute
	}
	h := &requester{options: o}
	if h.options.Transport == nil {
		h.options.Transport = newTransport(o.Private)
	}
	return h.makeRequest
}

func newTransport(private bool) *http.Transport {
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	if !private {
		dialer.Control = refusePrivate
	}
	return &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns: 100, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: maxResponseHeads,
	}
}

type requester struct{ options HTTPOptions }

var errTimeout = errors.New("the timeout of the task's input")

func (h *requester) makeRequest(ctx context.Context, t pawl.Task) (any, error) {
	r, err := readRequest(t.Input, h.options.Timeout)
	if err != nil {
		return nil, err
	}
	if err := h.checkURL(r.url); err != nil {
		return nil, err
	}
	timed, cancel := context.WithTimeoutCause(ctx, r.timeout, errTimeout)
	defer cancel()
	req, err := h.buildRequest(timed, t, r)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: h.options.Transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if r.acceptsStatus(req.Response.StatusCode) {
			return http.ErrUseLastResponse
		}
		return h.checkRedirect(req, via)
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, exchangeFailure(timed, r, err)
	}
	defer resp.Body.Close()
	// A body may outlast the context of its request: that of 101 is the bare
	// connection, and one of a Transport of the host may be anything.
	stop := context.AfterFunc(timed, func() { resp.Body.Close() })
	defer stop()
	return h.readResponse(timed, r, resp)
}

func (h *requester) buildRequest(ctx context.Context, t pawl.Task, r *request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, permanentError(CodeInvalidInput, "input: url: it is not an absolute URL") // the text may hold secrets
	}
	req.Header.Set("User-Agent", "pawl")
	if r.body != nil {
		req.Header.Set("Content-Type", r.contentType)
	}
	if !h.options.NoIdempotencyKey && !isSafeMethod(r.method) {
		req.Header.Set("Idempotency-Key", headerKey(t.EffectKey))
	}
	traceparent.SetHeaders(ctx, req.Header)
	for name, v := range r.headers {
		req.Header.Set(name, v)
	}
	if h.options.Prepare != nil {
		if err := h.options.Prepare(ctx, t, req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// isSafeMethod reports whether a method changes nothing (RFC 9110, section 9.2.1).
func isSafeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// headerKey returns a key as a header can hold it: printable ASCII, at most 255
// bytes.
func headerKey(key string) string {
	plain := key != "" && len(key) <= 255
	for i := range len(key) {
		plain = plain && key[i] > ' ' && key[i] < 0x7f
	}
	if plain {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// A refusal is why a redirect is not followed.
type refusal struct{ pawl.TaskError }

// checkRedirect decides whether a redirect is followed, and takes the headers away
// that another host must not see.
func (h *requester) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return refusal{permanentError("http_3xx", "more than %d redirects", maxRedirects)}
	}
	if err := h.checkURL(req.URL); err != nil {
		return err
	}
	for _, earlier := range via {
		if sameHost(earlier.URL, req.URL) {
			continue
		}
		if !h.options.OtherHosts {
			return refusal{permanentError("http_3xx", "a redirect to another host, %s", redactedURL(req.URL))}
		}
		kept := http.Header{}
		for _, name := range []string{"User-Agent", "Content-Type", "Idempotency-Key"} {
			if v := req.Header.Get(name); v != "" {
				kept.Set(name, v)
			}
		}
		req.Header = kept
	}
	return nil
}

// sameHost reports whether a redirect from one URL to the other stays within
// one host: the same scheme, name and port, or the step from http to https.
func sameHost(from, to *url.URL) bool {
	if normalizedHost(from) != normalizedHost(to) {
		return false
	}
	if from.Scheme == to.Scheme {
		return effectivePort(from) == effectivePort(to)
	}
	return from.Scheme == "http" && effectivePort(from) == "80" && effectivePort(to) == "443"
}

// exchangeFailure returns the error of an exchange without a whole response.
func exchangeFailure(ctx context.Context, r *request, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errTimeout) {
		return fmt.Errorf("%s: %w", r, cause) // withdrawn, or the engine closes
	}
	var task pawl.TaskError
	var refused refusal
	var wrapped *url.Error
	switch {
	case ctx.Err() != nil:
		return retryableError(CodeHTTPTimeout, "%s: no answer within %v", r, r.timeout)
	case errors.As(err, &refused):
		return permanentError(refused.Code, "%s: %s", r, refused.Message)
	case errors.As(err, &task):
		return permanentError(task.Code, "%s: %s", r, task.Message)
	case errors.As(err, &wrapped): // its text has the whole URL
		err = wrapped.Err
	}
	if lacksDescriptors(err) {
		return fmt.Errorf("%s: %w", r, err)
	}
	return retryableError(CodeHTTPNetwork, "%s: %s", r, quotedText.ReplaceAllLiteralString(err.Error(), `"..."`))
}

// lacksDescriptors reports whether too many files are open: the engine calls the task
// again for an error that says so and is no TaskError.
func lacksDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// quotedText is what an error of net/http quotes of an answer that it cannot read: a header
// line, or a Location with its query.
var quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
