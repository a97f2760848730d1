package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/workflow"
)

// A batchReply is a pawl.Report as the answer to a batch: one request comes to at most maxLimit runs or tokens, which are no
// more than the refusals that the engine lists. A dry run counts all that fit.
type batchReply struct {
	pawl.Report
	Refused []refusalReply `json:"refused"`
	Cursor  string         `json:"cursor,omitzero"` // with which the same request goes on; "" when all are done
}

// A refusalReply is a pawl.Refusal with what a request about it alone would have been refused with.
type refusalReply struct {
	Run   workflow.RunID   `json:"run"`
	Token workflow.TokenID `json:"token,omitzero"`
	Error *Error           `json:"error"`
}

// batchOf returns what a report says, with its errors as they are shown.
func batchOf(r *pawl.Report, show func(error) *Error) *batchReply {
	out := &batchReply{Report: *r, Refused: []refusalReply{}, Cursor: string(r.Cursor.Run)}
	if r.Cursor.Token != 0 {
		out.Cursor = tokenCursor(r.Cursor)
	}
	for _, one := range r.Refused {
		out.Refused = append(out.Refused, refusalReply{one.Run, one.Token, show(one.Err)})
	}
	return out
}

// reportOf returns the report of an answer.
func (b *batchReply) reportOf(of batched) pawl.Report {
	out := b.Report
	out.Cursor = pawl.Target{Run: workflow.RunID(b.Cursor)}
	if of.many != acts.Runs {
		out.Cursor, _ = readTokenCursor(b.Cursor)
	}
	for _, one := range b.Refused {
		out.Refused = append(out.Refused, pawl.Refusal{Run: one.Run, Token: one.Token, Err: one.Error, Why: one.Error.Error()})
	}
	return out
}

// batched is what a batch is done to, in words.
type batched struct {
	many                    acts.Many
	path, noun, all, advice string // advice is how to choose so that they are found
}

func batchOn(many acts.Many) batched {
	switch many {
	case acts.DeadLetters:
		return batched{many, "/v1/dead-letters/batch", "tokens", "everything that waits", "choose by run, or with another condition"}
	case acts.Approvals:
		return batched{many, "/v1/approvals/batch", "tokens", "everything that waits", "choose by run, or with another condition"}
	default:
		return batched{many, "/v1/batch", "runs", "every run that has not ended", "choose by what an index has, such as workflow and status"}
	}
}

// readSelection returns what the query chooses.
func (q *query) readSelection(of batched) (s pawl.Selection) {
	limit := q.limit()
	if s.DryRun = q.flag("dryRun"); s.DryRun {
		limit = 0 // all are counted
	}
	switch of.many {
	case acts.DeadLetters:
		f := q.deadLetterFilter()
		f.Limit, s.DeadLetters = limit, &f
	case acts.Approvals:
		f := q.approvalFilter()
		f.Limit, s.Approvals = limit, &f
	default:
		f := q.runFilter()
		f.Limit, s.Runs = limit, &f
		if slices.ContainsFunc(f.Status, workflow.RunStatus.Final) && q.err == nil {
			q.err = invalidf("runs that have ended cannot be changed: status must be running, paused or suspended")
		}
	}
	return s
}

// batchPerforms returns what does an act to the runs that fit a filter and have not ended, or to the dead letters or approvals that fit
// one, one after the other, the oldest first: to at most as many as the limit says, or for so long. Where the query says dryRun it counts
// them all. Each takes the act in a commit of its own: a crash in the middle leaves a part of them changed, and the caller, who has no
// cursor then, begins anew. That is safe where the act is: a run that was cancelled does not fit any more, a
// signal with an ID is taken once, and a second vote of one person is refused.
func batchPerforms(many acts.Many) func(*call) error {
	of := batchOn(many)
	return func(c *call) error {
		q := c.query()
		s, all := q.readSelection(of), q.flag("all")
		if q.err != nil {
			return q.err
		}
		// The body comes after the query, so that a filter which cannot fit is refused before megabytes of a patch are read.
		o, err := c.readBatchAct(of)
		if err != nil {
			return err
		}
		if !s.DryRun && !all && !c.choosesRuns() {
			return invalidf("this would be done to %s: choose, such as by workflow, or say all=1; dryRun=1 counts them", of.all)
		}
		// Unlike an act of one run, a batch ends with its caller: nobody would read the cursor.
		ctx, cancel := context.WithTimeout(c.r.Context(), batchTime)
		defer cancel()
		report, err := c.engine.DoAll(o.nameIn(ctx), s, o.Act)
		if err == nil && len(report.Targets) > 0 {
			err = c.tryAct(o.nameIn(ctx), o.Act, report.Targets[0])
		}
		return c.replyBatch(ctx, err, of, &report)
	}
}

// tryAct tries on a copy an act that a dry run has only counted. It returns an error that would end the batch, such as that of a signal
// without a name; another one is of that run alone.
func (c *call) tryAct(ctx context.Context, a pawl.Act, at pawl.Target) error {
	copied, err := c.engine.Simulate(ctx, pawl.OfRun{Run: at.Run})
	if err == nil {
		err = copied.Do(ctx, acts.At(a, at))
	}
	if err != nil && refusal.ConcernsAll(err) {
		return err
	}
	return nil
}

// replyBatch answers a batch that has ended with an error, or with none.
//
// A batch that is late has still done something, and answers as one that has reached its limit, with a cursor. Without anything done
// there is no cursor that would bring the next request any further, so that is refused. Only the time of the batch itself, which ctx
// bounds, makes it late: an outcome that is unknown ends it as an error even if the time is over as well.
func (c *call) replyBatch(ctx context.Context, err error, of batched, r *pawl.Report) error {
	late := err != nil && ctx.Err() != nil && !errors.Is(err, pawl.ErrUnknown)
	switch {
	case errors.Is(err, pawl.ErrRunNotFound):
		return refuseCursor(err)
	case late && !r.Applied:
		return refusef(http.StatusServiceUnavailable, codeTimeout, "there are more than %d %s: choose fewer", r.Found, of.noun)
	case late && r.Found == 0:
		return refusef(http.StatusServiceUnavailable, codeTimeout, "no %s were found in %v: %s", of.noun, batchTime, of.advice)
	case err != nil && !late && (!r.Applied || r.Found == 0 && errors.Is(err, pawl.ErrInvalid)):
		return err
	case err != nil && !late:
		e := *errorOf(err)
		e.batch = batchOf(r, c.viewerOf("").showRefusal)
		return &e
	}
	return c.reply(batchOf(r, c.viewerOf("").showRefusal))
}

// choosesRuns reports whether the query has a parameter of a filter that leaves something out: a flag that is false does not.
func (c *call) choosesRuns() bool {
	q := c.query()
	for name := range q.values {
		if !slices.Contains([]string{"limit", "cursor", "dryRun", "all"}, name) && (name != "roots" || q.flag(name)) {
			return true
		}
	}
	return false
}

// batchTime is how long one request goes on with the next run. It is less than the 30 s or the
// minute after which proxies commonly give up, so that the answer comes through with its cursor.
const batchTime = 20 * time.Second

// mostBatch bounds the body of a batch: only who may patch sends a definition.
func (c *call) mostBatch() int64 {
	if c.rights&Define != 0 {
		return maxBody
	}
	return valueBody
}

// readBatchAct reads what is to be done, and in whose name. The right Define is checked here, not by the route, since the body decides
// whether the batch is a patch. A body that names a token or a node is refused: the filter of the query chooses.
func (c *call) readBatchAct(of batched) (*Operation, error) {
	text, err := c.readBody(c.mostBatch())
	if err != nil {
		return nil, err
	}
	o, err := decodeAct(text, "")
	if err != nil {
		return nil, err
	}
	verb := acts.Of(o.Act)
	switch t, _ := acts.TargetOf(o.Act); {
	case verb.Many != of.many:
		return nil, invalidf("%s is not done to many %s here: %s can be", verb.Name, of.noun, strings.Join(acts.NamesOf(of.many), ", "))
	case t.Token != 0 || t.Node != "":
		return nil, invalidf("the body names a token or a node: the query chooses those that it is done to")
	case verb.Defines:
		if err := c.requireRights(Define); err != nil {
			return nil, err
		}
	}
	return o, c.signAct(&o.By, o.Reason)
}

// DoAll does an operation to all runs or tokens that a selection chooses, as Engine.DoAll does. It sends several requests and adds up
// their reports. The Err of a pawl.Refusal is an *Error. With an error DoAll also returns the report so far; to continue, pass its
// Cursor as Selection.After, where the zero value is the beginning. If the error does not say how much of its request was done, the
// report does not count that request, and the Cursor is where the request began.
func (c *Client) DoAll(ctx context.Context, s pawl.Selection, o Operation) (pawl.Report, error) {
	of, query, limit := queryOfSelection(s)
	if query == nil {
		return pawl.Report{Applied: !s.DryRun}, invalidf("a selection has one of Runs, DeadLetters and Approvals")
	}
	query.Set("all", "1") // a filter of a Go program is no parameter that was forgotten
	if s.DryRun {
		// The server counts all that fit, whatever the limit.
		query.Set("dryRun", "1")
		next, err := c.askBatch(ctx, of, query, o, false)
		if limit > 0 {
			next.Found = min(next.Found, limit)
		}
		return next, err
	}
	sum := pawl.Report{Applied: true}
	for {
		// Only as many are asked for as are left of the limit, so that DoAll never acts on one too many.
		query.Set("limit", strconv.Itoa(maxLimit))
		if limit > 0 {
			query.Set("limit", strconv.Itoa(min(limit-sum.Found, maxLimit)))
		}
		next, err := c.askBatch(ctx, of, query, o, true)
		sum.Found, sum.Changed, sum.Left, sum.Cursor = sum.Found+next.Found, sum.Changed+next.Changed, sum.Left+next.Left, next.Cursor
		sum.Refused = append(sum.Refused, next.Refused...)
		if err != nil || next.Cursor.Run == "" || limit > 0 && sum.Found >= limit {
			return sum, err
		}
		query.Set("cursor", batchOf(&next, errorOf).Cursor)
	}
}

// queryOfSelection returns the parameters that choose what a selection does, nil if it is none.
func queryOfSelection(s pawl.Selection) (of batched, query url.Values, limit int) {
	switch {
	case s.Runs != nil && s.DeadLetters == nil && s.Approvals == nil:
		of, query, limit = batchOn(acts.Runs), queryOf(*s.Runs), s.Runs.Limit
	case s.DeadLetters != nil && s.Runs == nil && s.Approvals == nil:
		of, query, limit = batchOn(acts.DeadLetters), letterQuery(*s.DeadLetters), s.DeadLetters.Limit
	case s.Approvals != nil && s.Runs == nil && s.DeadLetters == nil:
		of, query, limit = batchOn(acts.Approvals), approvalQuery(*s.Approvals), s.Approvals.Limit
	}
	if s.After.Run != "" && query != nil {
		query.Set("cursor", tokenCursor(s.After))
		if of.many == acts.Runs {
			query.Set("cursor", string(s.After.Run))
		}
	}
	return of, query, limit
}

// askBatch sends one request of a batch. A dry run is no act (done is false): if its answer does not come, nothing was changed,
// and the error is what it is. With an error the report has what was done until then, and the cursor of the request.
func (c *Client) askBatch(ctx context.Context, of batched, query url.Values, o Operation, done bool) (pawl.Report, error) {
	var out batchReply
	err := c.ask(ctx, &question{method: http.MethodPost, path: of.path, query: query, body: o, acts: done}, &out)
	if e := (*Error)(nil); errors.As(err, &e) && e.batch != nil {
		out = *e.batch
	} else if err != nil {
		out = batchReply{Report: pawl.Report{Applied: done}, Cursor: query.Get("cursor")}
	}
	return out.reportOf(of), err
}
