package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// maxWait bounds how long a request waits for a run to end. The Client asks again as long as the
// run goes on, so Client.Wait has no bound of its own.
const maxWait = 5 * time.Minute

// A runPage is a page of runs.
type runPage struct {
	Runs   []any  `json:"runs"`
	Cursor string `json:"cursor,omitzero"` // of the next page; "" if this is the last
}

// listRuns answers the runs that fit a filter: a page, or all of them a line each. A cursor is the
// id of the last run of a page. That run can be purged before the next page is asked for; then
// nobody knows where the list was, and the caller lists anew.
func (c *call) listRuns() error {
	q := c.query()
	f := q.runFilter()
	switch q.textOf("order") {
	case "", "oldest":
	case "newest":
		f.Newest = true
	default:
		q.refuse("order", "oldest or newest")
	}
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	show := func(s *pawl.RunSummary) any { return c.viewerOf(s.Run).showSummary(s) }
	if c.acceptsType(typeLines) {
		// A list of lines has no default limit, as it is read while it is sent.
		if q.textOf("limit") != "" {
			f.Limit = limit
		}
		return refuseCursor(c.replyLines(mapList(c.engine.Runs(c.context(), f), show)))
	}
	f.Limit, f.Effort = limit+1, c.effort
	page, more, err := readPage(c.engine.Runs(c.context(), f), limit)
	stopped := (*pawl.EffortError)(nil)
	if err != nil && !errors.As(err, &stopped) {
		return refuseCursor(err)
	}
	out := runPage{Runs: make([]any, len(page))}
	for i := range page {
		out.Runs[i] = show(&page[i])
	}
	switch {
	case more:
		out.Cursor = string(page[limit-1].Run)
	case stopped != nil:
		out.Cursor = string(stopped.Run)
	}
	return c.reply(out)
}

// showRun answers how a run stands, when it has ended or the time to wait for that is over. A wait
// that is over is no error: the answer is the run as it stands, and the caller sees by its status
// whether it has ended.
func (c *call) showRun() error {
	q := c.query()
	wait := min(q.duration("wait"), maxWait)
	if q.err != nil {
		return q.err
	}
	id := c.runID()
	if err := c.awaitEnd(id, wait); err != nil {
		return err
	}
	if wait > 0 {
		if err := c.checkAgain(); err != nil {
			return err
		}
	}
	s, err := c.readSummary(id)
	if err != nil {
		return err
	}
	return c.replyTagged(http.StatusOK, c.viewerOf(id).showSummary(&s))
}

// awaitEnd waits for a run to end, for so long. The engine tells the end of a run only after it is
// committed, so a summary that is read next shows it.
func (c *call) awaitEnd(id workflow.RunID, wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.context(), wait)
	defer cancel()
	_, err := c.engine.Wait(ctx, id)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// context returns the context of a request that may take long. It ends when the socket is closed. A
// handler of a host has no closing: there the context of the request is all, and the host ends its
// own streams. The cause tells a stream that the engine closes, in place of a caller who is gone.
func (c *call) context() context.Context {
	if c.closing == nil {
		return c.r.Context()
	}
	ctx, cancel := context.WithCancelCause(c.r.Context())
	go func() { // until the request has ended
		select {
		case <-c.closing:
			cancel(pawl.ErrClosed)
		case <-ctx.Done():
		}
	}()
	return ctx
}

// showOverview answers a run in numbers: tokens counted at each node, and not one by one.
func (c *call) showOverview() error {
	id := c.runID()
	o, err := c.readOverview(id)
	if err != nil {
		return err
	}
	o.Outcome = c.viewerOf(id).showOutcome(o.Outcome)
	return c.replyTagged(http.StatusOK, o)
}

// A tokenPage is a page of the tokens of a run.
type tokenPage struct {
	Tokens []any            `json:"tokens"`
	After  workflow.TokenID `json:"after,omitzero"` // of the next page; 0 if this is the last
}

// listTokens answers tokens that fit a filter: a page, or all of them a line each. Tokens come by
// their number, and new ones have higher numbers: pages by After repeat none while the run goes on.
func (c *call) listTokens() error {
	q := c.query()
	f := pawl.TokenFilter{
		Node: workflow.NodeID(q.textOf("node")), Status: q.tokenStatuses(), Group: workflow.GroupID(q.number("group")), After: workflow.TokenID(q.number("after")),
	}
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	id := c.runID()
	show := c.viewerOf(id).showToken
	tokens, err := c.readTokens(id, f)
	if err != nil {
		return err
	}
	if c.acceptsType(typeLines) {
		return c.replyLines(mapList(tokens, show))
	}
	page, more, err := readPage(tokens, limit)
	if err != nil {
		return err
	}
	out := tokenPage{Tokens: make([]any, len(page))}
	for i := range page {
		out.Tokens[i] = show(&page[i])
	}
	if more {
		out.After = page[limit-1].ID
	}
	return c.reply(out)
}

// Data are the values of a run.
type Data struct {
	Seq         int64          `json:"record"` // the last one
	Input       map[string]any `json:"input,omitzero"`
	State       map[string]any `json:"state,omitzero"`
	Output      map[string]any `json:"output,omitzero"`      // of a run that has completed
	OutputSoFar map[string]any `json:"outputSoFar,omitzero"` // what a run that has not ended has written to its output
}

// showData answers the values of a run. It reads the whole of the run, which is why it is among
// wholeRunPaths.
func (c *call) showData() error {
	id := c.runID()
	s, err := c.readSnapshot(id)
	if err != nil {
		return err
	}
	v := c.viewerOf(id)
	return c.replyTagged(http.StatusOK, Data{
		Seq: s.Seq, Input: v.showObject("input", s.Input), State: v.showObject("state", s.State),
		Output: v.showObject("output", s.Output), OutputSoFar: v.showObject("output", s.OutputSoFar),
	})
}

// A RunDefinition is the definition that a run has now, or had at a revision.
type RunDefinition struct {
	Revision   int                  `json:"revision"` // 1, and one more for every patch
	Definition *workflow.Definition `json:"definition"`
}

// showDefinition answers the definition that the run has, or had, with its revision: a patch
// changes that of one run, and not what is published.
func (c *call) showDefinition() error {
	d, revision, err := c.readDefinition(c.runID())
	if err != nil {
		return err
	}
	return c.reply(RunDefinition{revision, d})
}

// An eventPage is a page of the events of a run.
type eventPage struct {
	Events []any `json:"events"`
	After  int64 `json:"after"` // sequence of the last one: what comes next has a higher one
	More   bool  `json:"more"`  // whether there are more now
}

// A recordPage is a page of the journal of a run.
type recordPage struct {
	Records []any `json:"records"`
	After   int64 `json:"after"` // sequence of the last one
	More    bool  `json:"more"`
}

// listEvents answers events behind a sequence: a page, or a stream until the run has ended.
func (c *call) listEvents() error {
	return listEntries(c, c.engine.Events, entryKind[pawl.Event]{
		show:   c.viewerOf(c.runID()).showEvent,
		seqOf:  func(e *pawl.Event) (seq, record int64) { return e.Seq, e.Record },
		pageOf: func(events []any, after int64, more bool) any { return eventPage{events, after, more} },
	})
}

// listJournal answers records behind a sequence: a page, or a stream until the run has ended.
func (c *call) listJournal() error {
	return listEntries(c, c.engine.JournalAfter, entryKind[pawl.Record]{
		show:   c.viewerOf(c.runID()).showRecord,
		seqOf:  func(r *pawl.Record) (seq, record int64) { return r.Seq, r.Seq },
		pageOf: func(records []any, after int64, more bool) any { return recordPage{records, after, more} },
	})
}

// An entryKind says how one kind of entries that a run has in sequence is answered. Events and
// records differ in little else than their types and in that an event has a sequence of its own and
// another of its record; one record makes several events, or none.
type entryKind[E any] struct {
	show   func(*E) any
	seqOf  func(*E) (seq, record int64) // its own sequence, and that of the record that made it
	pageOf func(entries []any, after int64, more bool) any
}

// listEntries answers the entries of a run behind a sequence: a stream until the run has ended, or
// what stands there now, a line each or as a page. The query parameter at names a record in both
// cases, while after and the cursor are in the sequence of the entries themselves.
func listEntries[E any](c *call, read func(context.Context, workflow.RunID, pawl.EventsOptions) iter.Seq2[E, error], kind entryKind[E]) error {
	id := c.runID()
	after, limit, err := c.readPosition()
	if err != nil {
		return err
	}
	last, err := c.lastRecord(id)
	if err != nil {
		return err
	}
	// The id of a frame is what a browser sends back as Last-Event-ID when the stream has broken,
	// and readPosition begins behind it.
	if c.acceptsType(typeStream) {
		return c.stream(id, func(ctx context.Context) iter.Seq2[frame, error] {
			return framesOf(read(ctx, id, pawl.EventsOptions{After: after, Follow: true}), func(e *E) frame {
				seq, _ := kind.seqOf(e)
				return frame{seq, kind.show(e)}
			})
		})
	}
	entries := firstEntries(read(c.context(), id, pawl.EventsOptions{After: after}), func(e *E) bool {
		_, record := kind.seqOf(e)
		return record <= last
	})
	if c.acceptsType(typeLines) {
		return c.replyLines(mapList(entries, kind.show))
	}
	page, more, err := readPage(entries, limit)
	if err != nil {
		return err
	}
	out := make([]any, len(page))
	for i := range page {
		out[i] = kind.show(&page[i])
		after, _ = kind.seqOf(&page[i])
	}
	return c.reply(kind.pageOf(out, after, more))
}

// readPosition returns behind which sequence a page or a stream begins, and how long a page is. The
// header wins over the query: an EventSource opens the same URL again, with the after that it had
// at first.
func (c *call) readPosition() (after int64, limit int, err error) {
	q := c.query()
	after, limit = q.number("after"), q.limit()
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		if after, err = parseSequence(last); err != nil {
			return 0, 0, err
		}
	}
	return after, limit, q.err
}
