package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/workflow"
)

// aliveEvery is how often a stream says that it lives, and asks whether its caller still has the rights that it had. It also shows a
// caller who is gone, as the write fails, when the run itself is silent.
const aliveEvery = 15 * time.Second

// A frame is one message of a stream. The body is encoded when it is sent.
type frame struct {
	id   int64 // where a stream that broke goes on; 0 if it begins anew
	body any
}

func framesOf[T any](list iter.Seq2[T, error], frameOf func(*T) frame) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		for x, err := range list {
			if err != nil {
				yield(frame{}, err)
				return
			}
			if !yield(frameOf(&x), nil) {
				return
			}
		}
	}
}

func parseSequence(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, invalidf("Last-Event-ID is %q: it must be the id of an event of this stream", text)
	}
	return n, nil
}

// stream answers with server-sent events about a run until the list ends, which is the end of the run, and says so in an event called
// end, or until the caller is gone. The look at the run comes first, so that one which does not exist is 404: an EventSource opens a
// stream again that has begun with 200, for ever.
func (c *call) stream(run workflow.RunID, list func(context.Context) iter.Seq2[frame, error]) error {
	if _, err := c.engine.Summary(c.r.Context(), run); err != nil {
		return err // not in a stream, which callers would open again
	}
	return c.streamFrames(list)
}

// watchRuns answers with a stream of how every run that fits a filter stands after each commit. Its frames have no id: there is no place
// from which a watch could go on. A reader that comes back gets Lost first, and lists the runs.
func (c *call) watchRuns() error {
	q := c.query()
	f := pawl.WatchFilter{
		Workflow: q.textOf("workflow"), Parent: workflow.RunID(q.textOf("parent")), Tenant: q.textOf("tenant"), Prefix: q.textOf("prefix"), Roots: q.flag("roots"), Status: q.runStatuses(),
		Labels: q.labels(), Where: q.textOf("where"),
	}
	if q.err != nil {
		return q.err
	}
	if err := acts.CheckWhere(f.Where); err != nil {
		return err // not in a stream, which callers would open again
	}
	if !c.acceptsType(typeStream) {
		return refusef(http.StatusNotAcceptable, codeNotAccepted, "this is a stream: ask with Accept: %s", typeStream)
	}
	return c.streamFrames(func(ctx context.Context) iter.Seq2[frame, error] {
		return framesOf(c.engine.Watch(ctx, f), func(r *pawl.RunChange) frame { return frame{body: *r} })
	})
}

// streamFrames is stream without a look at the run. One goroutine reads the list, which may be silent for hours, and encodes; the one of
// the request writes, says every 15 s that the stream lives, and checks the caller. texts has no buffer, so a slow caller slows the
// reading and nothing piles up. The error with which the list ends after ctx is sent as well, if the caller is still there.
func (c *call) streamFrames(list func(context.Context) iter.Seq2[frame, error]) error {
	leave, err := c.bounds.Streams.Admit(c.who)
	if err != nil {
		return err
	}
	defer leave()
	if c.r.Method == http.MethodHead {
		setHeaders(c.w, typeStream)
		return nil // the answer has no body that would end
	}
	ctx, cancel := context.WithCancel(c.context())
	defer cancel()
	texts, gone := make(chan []byte), make(chan struct{})
	var panicked any
	go func() { // until the list ends, which it does with ctx, or nobody takes what it says
		defer close(texts)
		defer func() { panicked = recover() }() // in a hook of the host: in this goroutine it would end the process
		send := func(text []byte) bool {
			select {
			case texts <- text:
				return true
			case <-gone:
				return false
			}
		}
		for f, err := range list(ctx) {
			if err != nil {
				send(eventText("failed", 0, errorReply{Error: c.viewerOf("").showRefusal(err)}))
				return
			}
			if !send(eventText("", f.id, f.body)) {
				return
			}
		}
		send(eventText("end", 0, struct{}{}))
	}()
	// From here on an error can only be an event: "failed" with the error, or "end" if the list is over.
	setHeaders(c.w, typeStream)
	c.w.WriteHeader(http.StatusOK)
	c.writeStream(texts, cancel)
	close(gone)
	for range texts { // so that nobody writes when the call has returned
	}
	if panicked != nil {
		panic(panicked) // where the server of the host expects it
	}
	return nil
}

// writeStream writes what comes until no more does, the caller is gone or has lost a right, and ends the list. It cancels ctx in every
// case, upon which the reading goroutine ends and closes texts.
func (c *call) writeStream(texts <-chan []byte, cancel func()) {
	defer cancel()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	// A line that begins with a colon is a comment for the reader. The first one sends the headers
	// at once, before there is anything to tell.
	for text := []byte(":\n\n"); c.writePart(text); {
		more := true
		select {
		case text, more = <-texts:
		case <-alive.C:
			text = []byte(":\n\n")
			if err := c.checkAgain(); err != nil {
				c.writePart(eventText("failed", 0, errorReply{Error: c.viewerOf("").showRefusal(err)}))
				return
			}
		}
		if !more {
			return
		}
	}
}

// writePart writes a part of a stream; false if the caller is gone.
func (c *call) writePart(text []byte) bool {
	crowd.SetWriteTimeout(c.w, c.partTime())
	_, err := c.w.Write(text)
	return err == nil && http.NewResponseController(c.w).Flush() == nil
}

// eventText returns the text of an event. One with a name is not told to those who listen for messages.
func eventText(name string, id int64, body any) []byte {
	var b bytes.Buffer
	if name != "" {
		fmt.Fprintf(&b, "event: %s\n", name)
	}
	if id != 0 {
		fmt.Fprintf(&b, "id: %d\n", id)
	}
	text, err := encodeJSON(body)
	if err != nil {
		text, _ = encodeJSON(errorReply{Error: errorOf(err)})
	}
	fmt.Fprintf(&b, "data: %s\n", text) // which ends with a line feed
	return b.Bytes()
}

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

// listApprovals answers the approvals of all runs that wait for somebody and fit the filter: a page, or all of them a line each.
func (c *call) listApprovals() error {
	q := c.query()
	f, limit := q.approvalFilter(), q.limit()
	if q.err != nil {
		return q.err
	}
	show := func(a *pawl.Approval) any { return c.viewerOf(a.Run).showApproval(a) }
	if c.acceptsType(typeLines, typeJSON) {
		return refuseCursor(c.replyLines(mapList(c.engine.Approvals(c.context(), f), show)))
	}
	f.Effort = c.effort
	page, more, cursor, err := readWaiting(c.engine.Approvals(c.context(), f), limit, func(a *pawl.Approval) pawl.Target { return pawl.Target{Run: a.Run, Token: a.Token} }, show)
	if err != nil {
		return err
	}
	return c.reply(approvalPage{page, more, cursor})
}

// listDeadLetters answers the tasks of all runs whose attempts are used up, as listApprovals does approvals.
func (c *call) listDeadLetters() error {
	q := c.query()
	f, limit := q.deadLetterFilter(), q.limit()
	if q.err != nil {
		return q.err
	}
	show := func(l *pawl.DeadLetter) any { return c.viewerOf(l.Run).showDeadLetter(l) }
	if c.acceptsType(typeLines, typeJSON) {
		return refuseCursor(c.replyLines(mapList(c.engine.DeadLetters(c.context(), f), show)))
	}
	f.Effort = c.effort
	page, more, cursor, err := readWaiting(c.engine.DeadLetters(c.context(), f), limit, func(l *pawl.DeadLetter) pawl.Target { return pawl.Target{Run: l.Run, Token: l.Token} }, show)
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

// approvalFilter returns the filter of what is about approvals: lists and batches share it, as they do runFilter.
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
	at, ok := readTokenCursor(q.textOf("cursor"))
	if !ok {
		q.refuse("cursor", "that of a page or of a batch")
	}
	return at
}

// readTokenCursor reads what tokenCursor writes.
func readTokenCursor(text string) (at pawl.Target, ok bool) {
	if text == "" {
		return at, true
	}
	number, run, ok := strings.Cut(text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	return pawl.Target{Run: workflow.RunID(run), Token: workflow.TokenID(n)}, ok && err == nil && n >= 0 && run != ""
}

// tokenCursor writes what readTokenCursor reads, 7:order-42; "" of the zero value. The number comes
// first, as an id may have a colon in it.
func tokenCursor(t pawl.Target) string {
	if t.Run == "" {
		return ""
	}
	return strconv.FormatInt(int64(t.Token), 10) + ":" + string(t.Run)
}
