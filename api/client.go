package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/socket"
	"github.com/pawl-run/pawl/workflow"
)

// ErrNoEngine says that nobody answers: no engine has the directory open, or one without Options.Socket.
var ErrNoEngine = socket.ErrNoEngine

// A Client asks an engine of another process. Refusals are of type *Error, and for errors.Is what
// the engine's method would have returned. A call that changes something fails with pawl.ErrUnknown
// if the connection broke, the context ended or a proxy answered when it was sent: Journal tells
// whether it was taken. It may be used from any goroutine. base has no slash at its end. A Client
// keeps nothing between calls but what http does, its connections.
type Client struct {
	base string
	http *http.Client
}

// Dial returns a client of the engine that has a directory open with Options.Socket. Close it. It
// fails with ErrNoEngine if no engine answers. It asks the engine once, so that a socket which a
// killed engine has left behind is found here and not by the first act.
func Dial(ctx context.Context, dir string) (*Client, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx, dir) }
	c := NewClient("http://localhost", &http.Client{Transport: &http.Transport{DialContext: dial, IdleConnTimeout: 30 * time.Second}})
	if _, err := c.Engine(ctx); err != nil {
		c.Close()
		if asked := (*url.Error)(nil); errors.As(err, &asked) && (errors.Is(err, ErrNoEngine) || errors.Is(err, fs.ErrPermission)) {
			return nil, asked.Err // nothing was asked: which request it was to be says nothing
		}
		return nil, err
	}
	return c, nil
}

// NewClient returns a client of a Handler. base is where it is mounted, such as
// https://example.com/pawl; h does the requests, and adds what lets the host identify the caller; nil is
// http.DefaultClient.
func NewClient(base string, h *http.Client) *Client {
	if h == nil {
		h = http.DefaultClient
	}
	return &Client{strings.TrimSuffix(base, "/"), h}
}

// Close closes connections that nothing goes on over.
func (c *Client) Close() {
	if c != nil && c.http != nil {
		c.http.CloseIdleConnections()
	}
}

var (
	errNoClient  = fmt.Errorf("%w: a Client comes from Dial or NewClient", pawl.ErrInvalid)
	errNoContext = fmt.Errorf("%w: the context is nil", pawl.ErrInvalid)
)

// A question is one request of a client. acts decides what a failure means: only of a question that
// acts can the outcome be unknown. A dry run does not set it.
type question struct {
	method, path string
	query        url.Values
	accept       string // typeJSON if it is empty
	body         any    // of JSON; nil for none
	acts         bool   // it changes something
}

// aboutRun asks for a resource of a run. The id stands in the query: proxies may decode it in a
// path. Callers set method, body and acts on it where it is not a plain look.
func aboutRun(id workflow.RunID, resource string) *question {
	return &question{method: http.MethodGet, path: "/v1/runs/" + anyRun + resource, query: url.Values{"run": {string(id)}}}
}

// send returns the answer to a question, whose body is to be closed, or an error, which is
// pawl.ErrUnknown if nobody knows whether what it asks for was done. If no connection was made,
// nothing was sent, and the error stands as it is. If one was, the request may have arrived: only a
// refusal by the engine itself says that nothing was done. A 5xx whose body is not of this API
// comes from a proxy, which may have passed the request on.
func (c *Client) send(ctx context.Context, q *question) (*http.Response, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	a, err := c.sendOnce(ctx, q)
	if e := (*Error)(nil); err == nil || !q.acts || !connected.Load() || errors.As(err, &e) && !e.foreign {
		return a, err
	}
	return nil, unknownOutcome(err)
}

// An unknownError is pawl.ErrUnknown of a call whose answer did not come.
type unknownError struct{ error }

func unknownOutcome(err error) error { return &unknownError{err} }

// Error says why there is no answer.
func (e *unknownError) Error() string {
	return "the outcome is unknown, it may have been done: " + e.error.Error()
}

// Is reports whether target is pawl.ErrUnknown.
func (e *unknownError) Is(target error) bool { return target == pawl.ErrUnknown }

// Unwrap returns why there is no answer.
func (e *unknownError) Unwrap() error { return e.error }

// sendOnce sends one request, without any retry, and returns an answer of a good status or an
// error. Whether an act may be repeated is for the caller to know.
func (c *Client) sendOnce(ctx context.Context, q *question) (*http.Response, error) {
	if c == nil || c.http == nil {
		return nil, errNoClient
	}
	var body io.Reader
	if q.body != nil {
		text, err := encodeJSON(q.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, c.base+q.path+"?"+q.query.Encode(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", typeJSON)
	if q.accept != "" {
		r.Header.Set("Accept", q.accept)
	}
	if body != nil {
		r.Header.Set("Content-Type", typeJSON)
	}
	a, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	// The body of a good answer is left open for the caller, who may read it as a stream.
	if a.StatusCode < http.StatusMultipleChoices {
		return a, nil
	}
	defer func() { _ = a.Body.Close() }() // it was read
	var e errorReply
	if err := json.NewDecoder(io.LimitReader(a.Body, maxRefusal)).Decode(&e); err != nil || e.Error == nil {
		return nil, &Error{Status: a.StatusCode, Code: codeInternal, Message: "the answer is " + a.Status, foreign: a.StatusCode >= http.StatusInternalServerError}
	}
	e.Error.batch, e.Error.tokens = e.Batch, e.Tokens
	return nil, e.Error
}

// maxRefusal bounds the body of a refusal, in bytes: that of a batch has the refusals of a thousand runs.
const maxRefusal = 32 << 20

// ask decodes the answer to a question into out. An answer that breaks off after a good status
// leaves the outcome of an act unknown as well: it was probably done, but its result is not known.
func (c *Client) ask(ctx context.Context, q *question, out any) error {
	a, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }() // it was read
	if err = json.NewDecoder(a.Body).Decode(out); err == nil {
		return nil
	}
	if err = fmt.Errorf("read the answer of the engine: %w", err); q.acts {
		err = unknownOutcome(err)
	}
	return err
}

// Engine returns which engine answers.
func (c *Client) Engine(ctx context.Context) (info EngineInfo, err error) {
	err = c.ask(ctx, &question{method: http.MethodGet, path: "/v1/engine"}, &info)
	return info, err
}

// Workers returns who performs the tasks of the engine now, with the 1,000 tasks that workers have held longest.
func (c *Client) Workers(ctx context.Context) (w Workers, err error) {
	err = c.ask(ctx, &question{method: http.MethodGet, path: "/v1/workers", query: url.Values{"limit": {"1000"}}}, &w)
	return w, err
}

// Runs lists runs, as Engine.Runs does.
func (c *Client) Runs(ctx context.Context, f pawl.RunFilter) iter.Seq2[pawl.RunSummary, error] {
	return firstOf(listLines[pawl.RunSummary](ctx, c, &question{method: http.MethodGet, path: "/v1/runs", query: queryOf(f)}), f.Limit)
}

// queryOf returns the query that says which runs. Its parameters are those that listRuns reads with
// query.runFilter, and order; the Limit is not in it, since lists of lines and batches treat it in
// their own ways.
func queryOf(f pawl.RunFilter) url.Values {
	q := filterQuery(pawl.WatchFilter{Workflow: f.Workflow, Parent: f.Parent, Tenant: f.Tenant, Roots: f.Roots, Prefix: f.Prefix, Status: f.Status, Labels: f.Labels, Where: f.Where})
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until, "endedSince": f.EndedSince, "endedUntil": f.EndedUntil} {
		if !at.IsZero() {
			q.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if f.Newest {
		q.Set("order", "newest")
	}
	if f.ForkedFrom != "" {
		q.Set("forkedFrom", string(f.ForkedFrom))
	}
	if f.After != "" {
		q.Set("cursor", string(f.After))
	}
	return q
}

// filterQuery returns what lists and streams of runs have in common.
func filterQuery(f pawl.WatchFilter) url.Values {
	q := url.Values{}
	for name, text := range map[string]string{"workflow": f.Workflow, "parent": string(f.Parent), "tenant": f.Tenant, "prefix": f.Prefix, "where": f.Where} {
		if text != "" {
			q.Set(name, text)
		}
	}
	for _, s := range f.Status {
		// Left out, a status that does not exist would choose all.
		text := "unknown" // which is refused
		if s <= workflow.RunCancelled {
			text = s.String()
		}
		q.Add("status", text)
	}
	for key, value := range f.Labels {
		q.Add("label", key+"="+value)
	}
	if f.Roots {
		q.Set("roots", "1")
	}
	return q
}

// Watch tells how every run that fits the filter stands after each commit, as Engine.Watch does.
func (c *Client) Watch(ctx context.Context, f pawl.WatchFilter) iter.Seq2[pawl.RunChange, error] {
	return listStream[pawl.RunChange](ctx, c, &question{method: http.MethodGet, path: "/v1/watch", query: filterQuery(f)})
}

// firstOf ends a list after so many entries; 0 lists all. It closes the list, and with it the
// connection, instead of reading on.
func firstOf[T any](list iter.Seq2[T, error], limit int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n := 0
		for x, err := range list {
			if !yield(x, err) || err != nil {
				return
			}
			if n++; n == limit {
				return
			}
		}
	}
}

// textQuery returns parameters, given as names and texts; empty ones are left out.
func textQuery(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}
