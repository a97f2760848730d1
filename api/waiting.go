package api

import (
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// An approvalPage lists open approvals, oldest run first.
type approvalPage struct {
	Approvals []any  `json:"approvals"`
	More      bool   `json:"more"`
	Cursor    string `json:"cursor,omitzero"` // of the next page; "" if this is the last
}

// A deadLetterPage lists tasks that wait for an operator, oldest run first.
type deadLetterPage struct {
	DeadLetters []any  `json:"deadLetters"`
	More        bool   `json:"more"`
	Cursor      string `json:"cursor,omitzero"` // of the next page; "" if this is the last
}

// listApprovals answers the approvals of all runs that wait for somebody and fit the filter: a
// page, or all of them a line each.
func (c *call) listApprovals() error {
	q := c.query()
	f, limit := q.approvalFilter(), q.limit()
	if q.err != nil {
		return q.err
	}
	show := func(a *pawl.Approval) any { return c.viewerOf(a.Run).showApproval(a) }
	if !c.acceptsType(typeLines) {
		f.Effort = c.effort
	}
	list := c.engine.Approvals(c.context(), f)
	if c.acceptsType(typeLines) {
		return refuseCursor(c.replyLines(mapList(list, show)))
	}
	page, more, cursor, err := readWaiting(list, limit, func(a *pawl.Approval) pawl.Target { return pawl.Target{Run: a.Run, Token: a.Token} }, show)
	if err != nil {
		return err
	}
	return c.reply(approvalPage{page, more, cursor})
}

// listDeadLetters answers the tasks of all runs whose attempts are used up, as listApprovals does
// approvals.
func (c *call) listDeadLetters() error {
	q := c.query()
	f, limit := q.deadLetterFilter(), q.limit()
	if q.err != nil {
		return q.err
	}
	show := func(l *pawl.DeadLetter) any { return c.viewerOf(l.Run).showDeadLetter(l) }
	if !c.acceptsType(typeLines) {
		f.Effort = c.effort
	}
	list := c.engine.DeadLetters(c.context(), f)
	if c.acceptsType(typeLines) {
		return refuseCursor(c.replyLines(mapList(list, show)))
	}
	page, more, cursor, err := readWaiting(list, limit, func(l *pawl.DeadLetter) pawl.Target { return pawl.Target{Run: l.Run, Token: l.Token} }, show)
	if err != nil {
		return err
	}
	return c.reply(deadLetterPage{page, more, cursor})
}

// readWaiting returns a page of what waits for people, and the cursor of the next one. The last
// entry of a page can be answered meanwhile, since the next page begins behind its place and not
// behind the entry itself; only if its run was purged is the cursor refused.
func readWaiting[T any](list iter.Seq2[T, error], limit int, targetOf func(*T) pawl.Target, show func(*T) any) (page []any, more bool, cursor string, err error) {
	found, more, err := readPage(list, limit)
	stopped := (*pawl.EffortError)(nil)
	if err != nil && !errors.As(err, &stopped) {
		return nil, false, "", refuseCursor(err)
	}
	page = make([]any, len(found))
	for i := range found {
		page[i] = show(&found[i])
	}
	switch {
	case more:
		cursor = tokenCursor(targetOf(&found[len(found)-1]))
	case stopped != nil:
		more, cursor = true, tokenCursor(pawl.Target{Run: stopped.Run, Token: stopped.Token})
	}
	return page, more, cursor, nil
}

// refuseCursor says of the error of a list or of a batch that its cursor is what was not found. The
// code is that of the engine in any form of the answer, so that a client tells it as in the process.
func refuseCursor(err error) error {
	if errors.Is(err, pawl.ErrRunNotFound) {
		return refusef(http.StatusNotFound, "run_not_found", "the cursor is of a run that was purged: begin anew")
	}
	return err
}

// approvalFilter returns the filter of what is about approvals: lists and batches share it, as
// they do runFilter.
func (q *query) approvalFilter() pawl.ApprovalFilter {
	at := q.tokenAfter()
	return pawl.ApprovalFilter{
		Run: workflow.RunID(q.textOf("run")), Workflow: q.textOf("workflow"), Node: workflow.NodeID(q.textOf("node")), Where: q.textOf("where"),
		After: at.Run, AfterToken: at.Token,
	}
}

// deadLetterFilter returns the filter of what is about dead letters.
func (q *query) deadLetterFilter() pawl.DeadLetterFilter {
	at := q.tokenAfter()
	return pawl.DeadLetterFilter{
		Run: workflow.RunID(q.textOf("run")), Workflow: q.textOf("workflow"), Node: workflow.NodeID(q.textOf("node")), Where: q.textOf("where"),
		Task: q.textOf("task"), Code: q.textOf("code"), After: at.Run, AfterToken: at.Token,
	}
}

// tokenAfter returns the token of a cursor; the zero value without a cursor. Token 0 is before the
// first of its run, as in the filter of a Go program that has After alone.
func (q *query) tokenAfter() pawl.Target {
	text := q.textOf("cursor")
	if text == "" {
		return pawl.Target{}
	}
	number, run, ok := strings.Cut(text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || n < 0 || run == "" {
		q.refuse("cursor", "that of a page or of a batch")
	}
	return pawl.Target{Run: workflow.RunID(run), Token: workflow.TokenID(n)}
}

// tokenCursor writes what tokenAfter reads, 7:order-42; "" of the zero value. The number comes
// first, as an id may have a colon in it.
func tokenCursor(t pawl.Target) string {
	if t.Run == "" {
		return ""
	}
	return strconv.FormatInt(int64(t.Token), 10) + ":" + string(t.Run)
}
