package api

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// Summary returns how a run stands, as Engine.Summary does.
func (c *Client) Summary(ctx context.Context, id workflow.RunID) (s pawl.RunSummary, err error) {
	err = c.ask(ctx, aboutRun(id, ""), &s)
	return s, err
}

// Wait returns the outcome of a run when it has ended, as Engine.Wait does. One request waits for
// maxWait at most; it is asked again until the run has ended, or ctx is done. A run that is paused
// or suspended is waited for.
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

// Events lists the events of a run, as Engine.Events does. A stream that breaks, when the engine closes,
// is an error: go on after the last event.
func (c *Client) Events(ctx context.Context, id workflow.RunID, o pawl.EventsOptions) iter.Seq2[pawl.Event, error] {
	q := aboutRun(id, "/events")
	q.query.Set("after", strconv.FormatInt(o.After, 10))
	if o.Follow {
		return listStream[pawl.Event](ctx, c, q)
	}
	return listLines[pawl.Event](ctx, c, q)
}

// Journal lists the records of a run, as Engine.JournalAfter does, and like Events.
func (c *Client) Journal(ctx context.Context, id workflow.RunID, o pawl.EventsOptions) iter.Seq2[Record, error] {
	q := aboutRun(id, "/journal")
	q.query.Set("after", strconv.FormatInt(o.After, 10))
	if o.Follow {
		return listStream[Record](ctx, c, q)
	}
	return listLines[Record](ctx, c, q)
}

// Why says what a run waits for, or why it failed, as Engine.Why does.
func (c *Client) Why(ctx context.Context, id workflow.RunID) (x pawl.Explanation, err error) {
	err = c.ask(ctx, aboutRun(id, "/why"), &x)
	return x, err
}

// Graph returns a picture of a run on its definition, as SVG, at most so many pixels wide; 0 is 1,600.
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

// approvalQuery returns the query that says which approvals, but for the Limit, as queryOf does of
// runs.
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
