package api

import (
	"bufio"
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
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/socket"
	"github.com/pawl-run/pawl/internal/traceparent"
	"github.com/pawl-run/pawl/workflow"
)

// ErrNoEngine says that no engine answers: none has the directory open, or one without Options.Socket.
var ErrNoEngine = socket.ErrNoEngine

// A Client asks an engine of another process. Its methods return refusals as *Error, which errors.Is matches with the error of the
// engine's method. A call that changes something fails with pawl.ErrUnknown if the connection broke, the context ended or a proxy
// answered after it was sent: Journal tells whether the engine took it. A Client may be used from any goroutine. base has no slash at its
// end. A Client keeps nothing between calls but the connections of http.
type Client struct {
	base string
	http *http.Client
}

// Dial returns a client of the engine that has a directory open with Options.Socket. Close it. It fails with ErrNoEngine if no engine
// answers. It asks the engine once, so that a socket which a killed engine has left behind is found here and not by the first act.
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

// NewClient returns a client of a Handler. base is the URL at which it is mounted, such as https://example.com/pawl. h sends the
// requests, and adds the credentials by which the host identifies the caller; nil is http.DefaultClient.
func NewClient(base string, h *http.Client) *Client {
	if h == nil {
		h = http.DefaultClient
	}
	return &Client{strings.TrimSuffix(base, "/"), h}
}

// Close closes idle connections.
func (c *Client) Close() {
	if c != nil && c.http != nil {
		c.http.CloseIdleConnections()
	}
}

var errNoClient = fmt.Errorf("%w: a Client comes from Dial or NewClient", pawl.ErrInvalid)

// A question is one request of a client. acts decides what a failure means: only of a question that
// acts can the outcome be unknown. A dry run does not set it.
type question struct {
	method, path string
	query        url.Values
	accept       string    // typeJSON if it is empty
	body         any       // of JSON; nil for none
	content      io.Reader // of a body that is not JSON; nil for none
	acts         bool      // it changes something
}

// aboutRun asks for a resource of a run. The id stands in the query: proxies may decode it in a
// path. Callers set method, body and acts on it where it is not a plain look.
func aboutRun(id workflow.RunID, resource string) *question {
	return &question{method: http.MethodGet, path: "/v1/runs/" + anyRun + resource, query: url.Values{"run": {string(id)}}}
}

// send returns the answer to a question, whose body is to be closed, or an error, which is pawl.ErrUnknown if nobody knows whether what
// it asks for was done. If no connection was made, nothing was sent, and the error stands as it is. If one was, the request may have
// arrived: only a refusal by the engine itself says that nothing was done. A 5xx whose body is not of this API comes from a proxy, which
// may have passed the request on.
func (c *Client) send(ctx context.Context, q *question) (*http.Response, error) {
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
	body, kind := q.content, typeBytes
	if q.body != nil {
		text, err := encodeJSON(q.body)
		if err != nil {
			return nil, err
		}
		body, kind = bytes.NewReader(text), typeJSON
	}
	r, err := http.NewRequestWithContext(ctx, q.method, c.base+q.path+"?"+q.query.Encode(), body)
	if err == nil && r.URL.Host == "" {
		err = errors.New("it has no host")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the base of a Client is a URL such as https://example.com/pawl: %w", pawl.ErrInvalid, err)
	}
	r.Header.Set("Accept", typeJSON)
	if q.accept != "" {
		r.Header.Set("Accept", q.accept)
	}
	if body != nil {
		r.Header.Set("Content-Type", kind)
	}
	traceparent.SetHeaders(ctx, r.Header)
	a, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, late.Cause(ctx)
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
		text := "the answer is " + a.Status
		if a.StatusCode == http.StatusNotFound || a.StatusCode == http.StatusMethodNotAllowed {
			text += ": no API of pawl answers at " + r.URL.Redacted() + ": is the base of the Client the path at which the Handler is mounted?"
		}
		return nil, &Error{Status: a.StatusCode, Code: codeInternal, Message: text, foreign: a.StatusCode >= http.StatusInternalServerError}
	}
	e.Error.batch = e.Batch
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

// Timings returns how long attempts of tasks have waited and worked, as Engine.Timings does.
func (c *Client) Timings(ctx context.Context, f history.TimingFilter) (t history.Timings, err error) {
	query := url.Values{}
	for name, text := range map[string]string{"workflow": f.Workflow, "by": f.By, "within": f.Within} {
		if text != "" {
			query.Set(name, text)
		}
	}
	err = c.ask(ctx, &question{method: http.MethodGet, path: "/v1/timings", query: query}, &t)
	return t, err
}

// DiskUse returns how many bytes the parts of the engine directory take, as Engine.DiskUse does.
func (c *Client) DiskUse(ctx context.Context) ([]history.DiskUse, error) {
	var out diskUses
	err := c.ask(ctx, &question{method: http.MethodGet, path: "/v1/disk"}, &out)
	return out.Uses, err
}

// Runs lists runs, as Engine.Runs does.
func (c *Client) Runs(ctx context.Context, f pawl.RunFilter) iter.Seq2[pawl.RunSummary, error] {
	return firstOf(listLines[pawl.RunSummary](ctx, c, &question{method: http.MethodGet, path: "/v1/runs", query: queryOf(f)}), f.Limit)
}

// queryOf returns the query that says which runs. Its parameters are those that listRuns reads with query.runFilter, and order; the Limit
// is not in it, since lists of lines and batches treat it in their own ways.
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
	if f.Sort != "" {
		q.Set("sort", f.Sort)
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

// firstOf ends a list after so many entries; 0 lists all. It closes the list, and with it the connection, instead of reading on.
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

// Start starts a run, as Engine.Start does.
func (c *Client) Start(ctx context.Context, id workflow.RunID, s Start) (out pawl.RunSummary, err error) {
	q := aboutRun(id, "")
	q.method, q.body, q.acts = http.MethodPut, s, true
	err = c.ask(ctx, q, &out)
	return out, err
}

// DryRunStart returns the run that Start would make. Nothing is changed.
func (c *Client) DryRunStart(ctx context.Context, id workflow.RunID, s Start) (out DryRunReport, err error) {
	q := aboutRun(id, "")
	q.method, q.body = http.MethodPut, s
	q.query.Set("dryRun", "1")
	err = c.ask(ctx, q, &out)
	return out, err
}

// Do does an operation to a run. An act on a token names the token in its Target.
func (c *Client) Do(ctx context.Context, id workflow.RunID, o Operation) (ActReport, error) {
	return c.doOrDryRun(ctx, id, o, false)
}

// DryRun says what Do would do. Nothing is changed.
func (c *Client) DryRun(ctx context.Context, id workflow.RunID, o Operation) (ActReport, error) {
	return c.doOrDryRun(ctx, id, o, true)
}

func (c *Client) doOrDryRun(ctx context.Context, id workflow.RunID, o Operation, dry bool) (out ActReport, err error) {
	verb := acts.Of(o.Act)
	if verb.Path == "" {
		return out, invalidf("there is no act %q to do", verb.Name)
	}
	path, node := verb.Path, ""
	if t, ok := acts.TargetOf(o.Act); ok {
		target := strconv.FormatInt(int64(t.Token), 10)
		if t.Token == 0 {
			target, node = anyToken, string(t.Node)
		}
		if t.Token == 0 && node == "" {
			return out, invalidf("%s is done to a token: name it, or its node", verb.Name)
		}
		path = strings.Replace(path, "{token}", target, 1)
	}
	body, err := o.bodyOf(false)
	if err != nil {
		return out, invalidf("%v", err)
	}
	q := aboutRun(id, path)
	if node != "" {
		q.query.Set("node", node)
	}
	if q.method, q.body, q.acts = http.MethodPost, json.RawMessage(body), !dry; dry {
		q.query.Set("dryRun", "1")
	}
	err = c.ask(ctx, q, &out)
	return out, err
}

// Fork makes a new run of another one, as Engine.Fork and Engine.Rerun do.
func (c *Client) Fork(ctx context.Context, id workflow.RunID, f Fork) (out ForkReport, err error) {
	q := aboutRun(id, "/forks")
	q.method, q.body, q.acts = http.MethodPost, f, true
	err = c.ask(ctx, q, &out)
	return out, err
}

// DryRunFork returns the run that Fork would make. Nothing is changed.
func (c *Client) DryRunFork(ctx context.Context, id workflow.RunID, f Fork) (out DryRunReport, err error) {
	q := aboutRun(id, "/forks")
	q.method, q.body = http.MethodPost, f
	q.query.Set("dryRun", "1")
	err = c.ask(ctx, q, &out)
	return out, err
}

// Simulate does acts to a copy of a run and reports the Future. Nothing is changed.
func (c *Client) Simulate(ctx context.Context, id workflow.RunID, t Simulate) (out ActReport, err error) {
	q := aboutRun(id, "/simulate")
	q.method, q.body = http.MethodPost, t
	if t.At != 0 {
		q.query.Set("at", strconv.FormatInt(t.At, 10))
	}
	err = c.ask(ctx, q, &out)
	return out, err
}

// Diff says where two runs diverge: the JSON of a replay.Comparison.
func (c *Client) Diff(ctx context.Context, a, b workflow.RunID) (d json.RawMessage, err error) {
	err = c.ask(ctx, &question{method: http.MethodGet, path: "/v1/diff", query: url.Values{"a": {string(a)}, "b": {string(b)}}}, &d)
	return d, err
}

// Publish publishes a definition under its name and version, as Engine.Publish does, and returns its warnings.
func (c *Client) Publish(ctx context.Context, d *workflow.Definition) (PublishReport, error) {
	return c.publishOrDryRun(ctx, d, false)
}

// DryRunPublish says whether Publish would take a definition, and its warnings. Nothing is changed.
func (c *Client) DryRunPublish(ctx context.Context, d *workflow.Definition) (PublishReport, error) {
	return c.publishOrDryRun(ctx, d, true)
}

func (c *Client) publishOrDryRun(ctx context.Context, d *workflow.Definition, dry bool) (out PublishReport, err error) {
	if d == nil {
		return out, invalidf("the definition is nil")
	}
	q := &question{method: http.MethodPut, path: "/v1/definitions/" + url.PathEscape(d.Name) + "/" + strconv.Itoa(max(d.Version, 1)), body: d, acts: !dry}
	if dry {
		q.query = url.Values{"dryRun": {"1"}}
	}
	err = c.ask(ctx, q, &out)
	return out, err
}

// Summary returns how a run stands, as Engine.Summary does.
func (c *Client) Summary(ctx context.Context, id workflow.RunID) (s pawl.RunSummary, err error) {
	err = c.ask(ctx, aboutRun(id, ""), &s)
	return s, err
}

// Wait returns the outcome of a run when it has ended, as Engine.Wait does. It sends requests of at most 5 min until the run has ended or
// ctx is done, also while the run is paused or suspended.
func (c *Client) Wait(ctx context.Context, id workflow.RunID) (workflow.Outcome, error) {
	q := aboutRun(id, "")
	q.query.Set("wait", maxWait.String())
	for {
		var s pawl.RunSummary
		if err := c.ask(ctx, q, &s); err != nil {
			return workflow.Outcome{}, err
		}
		if s.Status.Final() {
			return s.Outcome, nil
		}
	}
}

// Overview returns a run in numbers, as Engine.Overview does.
func (c *Client) Overview(ctx context.Context, id workflow.RunID) (o pawl.Overview, err error) {
	err = c.ask(ctx, aboutRun(id, "/overview"), &o)
	return o, err
}

// Tokens lists tokens of a run, as Engine.Tokens does.
func (c *Client) Tokens(ctx context.Context, id workflow.RunID, f pawl.TokenFilter) iter.Seq2[pawl.Token, error] {
	q := aboutRun(id, "/tokens")
	if f.Node != "" {
		q.query.Set("node", string(f.Node))
	}
	for _, s := range f.Status {
		text := "unknown" // which is refused
		if s <= workflow.Cancelled {
			text = s.String()
		}
		q.query.Add("status", text)
	}
	if f.Group != 0 {
		q.query.Set("group", strconv.FormatInt(int64(f.Group), 10))
	}
	if f.After != 0 {
		q.query.Set("after", strconv.FormatInt(int64(f.After), 10))
	}
	return listLines[pawl.Token](ctx, c, q)
}

// Branches lists branches of a run, as Engine.Branches does.
func (c *Client) Branches(ctx context.Context, id workflow.RunID, f pawl.BranchFilter) iter.Seq2[pawl.BranchView, error] {
	q := aboutRun(id, "/branches")
	q.query.Set("group", strconv.FormatInt(int64(f.Group), 10))
	if f.Status != "" {
		q.query.Set("status", f.Status)
	}
	return listLines[pawl.BranchView](ctx, c, q)
}

// Signals lists the signals that a run keeps, as Engine.Signals does.
func (c *Client) Signals(ctx context.Context, id workflow.RunID) iter.Seq2[pawl.KeptSignal, error] {
	return listLines[pawl.KeptSignal](ctx, c, aboutRun(id, "/signals"))
}

// Data returns the values of a run.
func (c *Client) Data(ctx context.Context, id workflow.RunID) (d Data, err error) {
	err = c.ask(ctx, aboutRun(id, "/data"), &d)
	return d, err
}

// Definition returns the definition that a run has now, and its revision, as Engine.Definition does.
func (c *Client) Definition(ctx context.Context, id workflow.RunID) (*workflow.Definition, int, error) {
	return c.askDefinition(ctx, aboutRun(id, "/definition"))
}

// Events lists the events of a run, as Engine.Events does. If the stream breaks, such as when the engine
// closes, it ends with an error: go on after the last event.
func (c *Client) Events(ctx context.Context, id workflow.RunID, o pawl.EventsOptions) iter.Seq2[history.Event, error] {
	q := aboutRun(id, "/events")
	q.query.Set("after", strconv.FormatInt(o.After, 10))
	if o.Follow {
		return listStream[history.Event](ctx, c, q)
	}
	return listLines[history.Event](ctx, c, q)
}

// Journal lists the records of a run, as Engine.Journal does, and like Events.
func (c *Client) Journal(ctx context.Context, id workflow.RunID, o pawl.EventsOptions) iter.Seq2[Record, error] {
	q := aboutRun(id, "/journal")
	q.query.Set("after", strconv.FormatInt(o.After, 10))
	if o.Follow {
		return listStream[Record](ctx, c, q)
	}
	return listLines[Record](ctx, c, q)
}

// Why says what a run waits for, or why it failed, as Engine.Why does.
func (c *Client) Why(ctx context.Context, id workflow.RunID) (x history.Explanation, err error) {
	err = c.ask(ctx, aboutRun(id, "/why"), &x)
	return x, err
}

// Graph returns a picture of a run on its definition, as SVG of at most width pixels, unless a node is wider; 0 is 1,600.
func (c *Client) Graph(ctx context.Context, id workflow.RunID, width int) ([]byte, error) {
	q := aboutRun(id, "/graph.svg")
	q.query.Set("width", strconv.Itoa(width))
	a, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Body.Close() }() // it was read
	return io.ReadAll(a.Body)
}

// Approvals lists the open approvals of all runs, as Engine.Approvals does.
func (c *Client) Approvals(ctx context.Context, f pawl.ApprovalFilter) iter.Seq2[pawl.Approval, error] {
	return firstOf(listLines[pawl.Approval](ctx, c, &question{method: http.MethodGet, path: "/v1/approvals", query: approvalQuery(f)}), f.Limit)
}

// approvalQuery returns the query that says which approvals, but for the Limit, as queryOf does of runs.
func approvalQuery(f pawl.ApprovalFilter) url.Values {
	return textQuery("run", string(f.Run), "workflow", f.Workflow, "node", string(f.Node), "where", f.Where, "cursor", tokenCursor(pawl.Target{Run: f.After, Token: f.AfterToken}))
}

// DeadLetters lists the tasks of all runs that wait for an operator, as Engine.DeadLetters does.
func (c *Client) DeadLetters(ctx context.Context, f pawl.DeadLetterFilter) iter.Seq2[pawl.DeadLetter, error] {
	return firstOf(listLines[pawl.DeadLetter](ctx, c, &question{method: http.MethodGet, path: "/v1/dead-letters", query: letterQuery(f)}), f.Limit)
}

// letterQuery returns the query that says which dead letters, but for the Limit.
func letterQuery(f pawl.DeadLetterFilter) url.Values {
	return textQuery("run", string(f.Run), "workflow", f.Workflow, "node", string(f.Node), "task", f.Task, "code", f.Code, "where", f.Where,
		"cursor", tokenCursor(pawl.Target{Run: f.After, Token: f.AfterToken}))
}

// listLines yields the lines of the answer to a question. Each use of the list sends the question
// anew. Breaking out of the loop closes the body, which ends the answer at the server.
func listLines[T any](ctx context.Context, c *Client, q *question) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		q.accept = typeLines
		a, err := c.send(ctx, q)
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = a.Body.Close() }() // there is no more to read
		for d := json.NewDecoder(a.Body); ; {
			var line json.RawMessage
			err := d.Decode(&line)
			if errors.Is(err, io.EOF) {
				return
			}
			var x T
			if err == nil {
				x, err = decodeLine[T](line)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// decodeLine decodes an entry of a list, or the error that has ended it. The prefix is what encodeJSON makes of an errorReply, whose
// Status comes first: an entry that has a field called error of its own, as some have, does not begin so.
func decodeLine[T any](text []byte) (x T, err error) {
	var refused errorReply
	if bytes.HasPrefix(text, []byte(`{"error":{"status":`)) && json.Unmarshal(text, &refused) == nil && refused.Error != nil {
		return x, refused.Error
	}
	err = json.Unmarshal(text, &x)
	return x, err
}

// listStream yields the messages of a stream, until it says that it has ended. It reads the part of server-sent events that eventText
// writes: comments are skipped, an event called failed carries an errorReply, and end is the only good ending. A stream that just stops
// is an error, so that nobody takes a broken connection for the end of a run.
func listStream[T any](ctx context.Context, c *Client, q *question) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		q.accept = typeStream
		a, err := c.send(ctx, q)
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = a.Body.Close() }() // there is no more to read
		name := ""
		for lines := bufio.NewReader(a.Body); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				yield(none, streamError(ctx, err))
				return
			}
			field, text, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
			switch {
			case len(line) == 1:
				name = ""
			case string(field) == "event":
				name = string(text)
			case string(field) == "data" && name == "end":
				return
			case string(field) == "data":
				x, err := decodeLine[T](text)
				if !yield(x, err) || err != nil {
					return
				}
			}
		}
	}
}

// streamError says why a stream broke.
func streamError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return late.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the stream of the engine broke: %w", err)
}
