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
	"github.com/pawl-run/pawl/workflow"
)

// actsOnMany returns the names of what may be done to many with one request. A patch is for the revision that
// each run has. Acts of a token or of a group are not done to many runs, since one number or name
// means something else in each run.
func actsOnMany(of acts.Many) (names []string) {
	for _, v := range acts.All() {
		if v.Many == of {
			names = append(names, v.Name)
		}
	}
	return names
}

// A Batch says what one request has done to runs that fit a filter and have not ended, or would do.
// Runs is the sum of Changed, Left and len(Refused): one request comes to at most maxLimit runs,
// which are no more than the refusals that the engine lists (pawl.MaxRefusals). After a dry run
// Changed and Left are 0, and Runs counts all that fit. The Client adds several answers up to one
// Batch.
type Batch struct {
	Applied bool         `json:"applied"`         // false: nothing was changed
	Runs    int          `json:"runs"`            // those that it was done to, or would be
	Changed int          `json:"changed"`         // runs that took it
	Left    int          `json:"left"`            // runs that had ended meanwhile, or were purged
	Refused []RunRefusal `json:"refused"`         // runs that did not take it
	Cursor  string       `json:"cursor,omitzero"` // with which the same request goes on; "" when all runs are done
}

// A RunRefusal says why a run did not take what was done to many. The others of the batch were
// acted on all the same; an error that concerns all runs is no RunRefusal but ends the batch.
type RunRefusal struct {
	Run   workflow.RunID `json:"run"`
	Error *Error         `json:"error"`
}

// doBatch does an act to the runs that fit a filter, one after the other, the oldest first: to at
// most as many as the limit says, or for so long. Where the query says dryRun it counts them all.
// Each run takes the act in a commit of its own: a crash in the middle leaves a part of the runs
// changed, and the caller, who has no cursor then, begins anew. That is safe where the act is: a
// run that was cancelled does not fit any more, and a signal with an ID is taken once.
func (c *call) doBatch() error {
	q := c.query()
	f, limit, dry, all := q.runFilter(), q.limit(), q.flag("dryRun"), q.flag("all")
	if q.err != nil {
		return q.err
	}
	if slices.ContainsFunc(f.Status, workflow.RunStatus.Final) {
		return invalidf("runs that have ended cannot be changed: status must be running, paused or suspended")
	}
	// The body comes after the query, so that a filter which cannot fit is refused before megabytes
	// of a patch are read.
	a, err := c.readBatchAct()
	if err != nil {
		return err
	}
	if !dry && !all && !c.choosesRuns() {
		return invalidf("this would be done to every run that has not ended: choose, such as by workflow, or say all=1; dryRun=1 counts them")
	}
	// Unlike an act of one run, a batch ends with its caller: nobody would read the cursor. The run
	// that is being acted on is finished, by the context of actOnOne.
	ctx, cancel := context.WithTimeout(c.r.Context(), batchTime)
	defer cancel()
	act := func(r *pawl.RunSummary) (bool, error) { return true, c.actOnOne(r.Run, *a) }
	// A dry run returns false for every run, which ActOnAll counts as Left: batchOf adds the three
	// figures up.
	if f.Limit = limit; dry {
		f.Limit, act = 0, func(*pawl.RunSummary) (bool, error) { return false, nil }
	}
	report, err := c.engine.ActOnAll(ctx, f, act)
	runs := report.Changed + report.Left + report.Refused
	return c.replyBatch(ctx, err, batchAnswer{
		done: runs, dry: dry, noun: "runs", advice: "choose by what an index has, such as workflow and status",
		attach: func(e *Error) { e.batch = batchOf(&report, false) }, answer: batchOf(&report, dry),
	})
}

// A batchAnswer is what a batch has to say: of runs, or of tokens that wait for people.
type batchAnswer struct {
	done         int // that were looked at
	dry          bool
	noun, advice string       // what they are, and how to choose so that they are found
	attach       func(*Error) // puts what was done until then beside an error
	answer       any
}

// replyBatch answers a batch that has ended with an error, or with none.
//
// A batch that is late has still done something, and answers as one that has reached its limit, with a cursor. Without
// anything done there is no cursor that would bring the next request any further, so that is refused. Only the time of
// the batch itself, which ctx bounds, makes it late: an outcome that is unknown ends it as an error even if the time
// is over as well.
func (c *call) replyBatch(ctx context.Context, err error, b batchAnswer) error {
	late := err != nil && ctx.Err() != nil && !errors.Is(err, pawl.ErrUnknown)
	switch {
	case errors.Is(err, pawl.ErrRunNotFound):
		return refuseCursor(err)
	case late && b.dry:
		return refusef(http.StatusServiceUnavailable, codeTimeout, "there are more than %d %s: choose fewer", b.done, b.noun)
	case late && b.done == 0:
		return refusef(http.StatusServiceUnavailable, codeTimeout, "no %s were found in %v: %s", b.noun, batchTime, b.advice)
	case err != nil && !late && b.dry:
		return err
	case err != nil && !late:
		e := *errorOf(err)
		b.attach(&e)
		return &e
	}
	return c.reply(b.answer)
}

// choosesRuns reports whether the query has a parameter of a filter that leaves something out. An
// empty text and a flag that is false fit everything, as if they were not there: a script whose
// variable is empty must not act on all runs.
func (c *call) choosesRuns() bool {
	q := c.query()
	for name := range q.values {
		if slices.Contains([]string{"limit", "cursor", "dryRun", "all"}, name) || q.textOf(name) == "" {
			continue
		}
		if name != "roots" || q.flag(name) {
			return true
		}
	}
	return false
}

// batchOf returns what a report says, or, if nothing was to be changed, how many runs there are.
// dry says that the report comes of acts which changed nothing, and so has no refusals and no
// cursor worth telling.
func batchOf(r *pawl.ManyReport, dry bool) *Batch {
	out := &Batch{Applied: !dry, Runs: r.Changed + r.Left + r.Refused, Changed: r.Changed, Refused: []RunRefusal{}}
	if dry {
		return out
	}
	out.Left, out.Cursor = r.Left, string(r.Cursor)
	for _, one := range r.Errors {
		out.Refused = append(out.Refused, RunRefusal{one.Run, errorOf(one.Err)})
	}
	return out
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

// readBatchAct reads what is to be done, and in whose name. The right Define is checked here, not
// by the route, since the body decides whether the batch is a patch. A Base is refused: the
// revisions of many runs differ, and actOnOne takes that of each.
func (c *call) readBatchAct() (*Operation, error) {
	text, err := c.readBody(c.mostBatch())
	if err != nil {
		return nil, err
	}
	a, err := decodeAct(text, "")
	switch {
	case err != nil:
		return nil, err
	case acts.Of(a.Act).Many != acts.Runs:
		return nil, invalidf("%s is not done to many runs: %s are", acts.Of(a.Act).Name, strings.Join(actsOnMany(acts.Runs), ", "))
	}
	patch, _ := a.Act.(pawl.Patch)
	switch {
	case patch.Base != 0:
		return nil, invalidf("a patch of many runs has no base: it is for the revision that each of them has")
	case acts.Of(a.Act).Defines:
		if err := c.requireRights(Define); err != nil {
			return nil, err
		}
	}
	return a, c.signAct(&a.By, a.Reason)
}

// actOnOne does the act to one run. a is a copy, so that the revision of one run does not stand in
// the patch of the next.
func (c *call) actOnOne(run workflow.RunID, a Operation) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), commitTime)
	defer cancel()
	// Somebody may patch the run between this look and the commit: then the engine refuses the
	// base, and the run is told as refused.
	if patch, ok := a.Act.(pawl.Patch); ok {
		var err error
		if _, patch.Base, err = c.engine.Definition(ctx, run); err != nil {
			return err
		}
		a.Act = patch
	}
	p := &performer{engine: c.engine, run: run}
	return unknownIfLate(p.performAct(ctx, &a))
}

// DoAll does something to the runs that fit a filter and have not ended, the oldest first, to at
// most as many as its Limit says, and adds up what the requests have come to. The Cursor is ""
// unless an error or the limit has stopped it: with an error, what was done until then is returned
// too, and DoAll goes on with it from the Cursor as RunFilter.After, "" being the beginning. The act
// is a Cancel, Pause, Resume, Signal or Patch. If a refusal carries a Batch, its figures are added
// before the error is returned: they say what was done of this request. Without a Batch nothing is
// known to have been done, and the cursor stays where the request began.
func (c *Client) DoAll(ctx context.Context, f pawl.RunFilter, o Operation) (Batch, error) {
	sum := Batch{Applied: true, Refused: []RunRefusal{}}
	for {
		// A Limit of 0 asks for as many as the server does at once; else only for those that are
		// left of it, so that DoAll never acts on one run too many.
		step := f
		step.Limit = min(max(0, f.Limit-sum.Runs), maxLimit)
		next, err := c.askBatch(ctx, step, o, false)
		if e := (*Error)(nil); errors.As(err, &e) && e.batch != nil {
			next = *e.batch
		} else if err != nil {
			sum.Cursor = string(step.After)
			return sum, err
		}
		sum.Runs, sum.Changed, sum.Left = sum.Runs+next.Runs, sum.Changed+next.Changed, sum.Left+next.Left
		sum.Refused, sum.Cursor = append(sum.Refused, next.Refused...), next.Cursor
		if err != nil {
			return sum, err
		}
		if next.Cursor == "" || f.Limit > 0 && sum.Runs >= f.Limit {
			return sum, nil
		}
		f.After = workflow.RunID(next.Cursor)
	}
}

// CountAll says to how many runs DoAll would do something. Nothing is changed. The server counts
// all that fit, whatever the Limit; so the figure is cut here to what DoAll would come to.
func (c *Client) CountAll(ctx context.Context, f pawl.RunFilter, o Operation) (Batch, error) {
	out, err := c.askBatch(ctx, f, o, true)
	if f.Limit > 0 {
		out.Runs = min(out.Runs, f.Limit)
	}
	return out, err
}

// askBatch sends one request of a batch, and asks for all that the server does at once unless f has
// a Limit. A dry run is no act (acts is false): if its answer does not come, nothing was changed,
// and the error is what it is.
func (c *Client) askBatch(ctx context.Context, f pawl.RunFilter, o Operation, dry bool) (out Batch, err error) {
	q := &question{method: http.MethodPost, path: "/v1/batch", query: queryOf(f), body: o, acts: !dry}
	q.query.Set("all", "1") // a filter of a Go program is no parameter that was forgotten
	if dry {
		q.query.Set("dryRun", "1")
	} else if f.Limit > 0 {
		q.query.Set("limit", strconv.Itoa(f.Limit))
	}
	err = c.ask(ctx, q, &out)
	return out, err
}

// A TokenBatch says what one request has done to tokens that wait for people in whichever runs, dead
// letters or approvals that fit a filter, or would do. Tokens is the sum of Changed, Left and
// len(Refused); of a dry run Changed and Left are 0, and Tokens counts all that fit. The Client adds
// several answers up to one TokenBatch.
type TokenBatch struct {
	Applied bool           `json:"applied"`         // false: nothing was changed
	Tokens  int            `json:"tokens"`          // those that it was done to, or would be
	Changed int            `json:"changed"`         // tokens that took it
	Left    int            `json:"left"`            // tokens that waited no longer: somebody else was first
	Refused []TokenRefusal `json:"refused"`         // tokens that did not take it
	Cursor  string         `json:"cursor,omitzero"` // with which the same request goes on; "" when all are done
}

// A TokenRefusal says why a token did not take what was done to many. The others of the batch were
// acted on all the same.
type TokenRefusal struct {
	Run   workflow.RunID   `json:"run"`
	Token workflow.TokenID `json:"token"`
	Error *Error           `json:"error"`
}

// A tokenAct is asked for by a batch, once for each token: it reports whether it has changed it.
type tokenAct func(pawl.Target) (changed bool, err error)

// actOnLetters retries or skips the dead letters that fit a filter.
func (c *call) actOnLetters() error {
	q := c.query()
	f := q.deadLetterFilter()
	return c.doTokenBatch(q, acts.DeadLetters, func(ctx context.Context, limit int, act tokenAct) (pawl.TokensReport, error) {
		f.Limit = limit
		return c.engine.ActOnDeadLetters(ctx, f, func(l *pawl.DeadLetter) (bool, error) {
			return act(pawl.Target{Run: l.Run, Token: l.Token, Parked: true})
		})
	})
}

// voteOnApprovals votes on the approvals that fit a filter.
func (c *call) voteOnApprovals() error {
	q := c.query()
	f := q.approvalFilter()
	return c.doTokenBatch(q, acts.Approvals, func(ctx context.Context, limit int, act tokenAct) (pawl.TokensReport, error) {
		f.Limit = limit
		return c.engine.ActOnApprovals(ctx, f, func(a *pawl.Approval) (bool, error) { return act(pawl.Target{Run: a.Run, Token: a.Token}) })
	})
}

// doTokenBatch does an act to tokens that wait, as doBatch does to runs, with the same bounds: one
// after the other, each in a commit of its own. To begin anew after a crash is safe: a task that was
// retried and is parked again gets new attempts once more, and who has voted is refused.
func (c *call) doTokenBatch(q *query, may acts.Many, each func(context.Context, int, tokenAct) (pawl.TokensReport, error)) error {
	limit, dry, all := q.limit(), q.flag("dryRun"), q.flag("all")
	if q.err != nil {
		return q.err
	}
	a, err := c.readTokenAct(may)
	if err != nil {
		return err
	}
	if !dry && !all && !c.choosesRuns() {
		return invalidf("this would be done to everything that waits: choose, such as by workflow, or say all=1; dryRun=1 counts them")
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), batchTime)
	defer cancel()
	act := func(t pawl.Target) (bool, error) {
		one := *a
		one.Act = acts.At(a.Act, t)
		return true, c.actOnOne(t.Run, one)
	}
	if dry {
		limit, act = 0, func(pawl.Target) (bool, error) { return false, nil }
	}
	report, err := each(ctx, limit, act)
	return c.replyBatch(ctx, err, batchAnswer{
		done: report.Changed + report.Left + report.Refused, dry: dry, noun: "tokens", advice: "choose by run, or with another condition",
		attach: func(e *Error) { e.tokens = tokenBatchOf(&report, false) }, answer: tokenBatchOf(&report, dry),
	})
}

// readTokenAct reads what is to be done, and in whose name. A body that names a token or a node is
// refused: the filter of the query chooses.
func (c *call) readTokenAct(may acts.Many) (*Operation, error) {
	text, err := c.readBody(valueBody)
	if err != nil {
		return nil, err
	}
	a, err := decodeAct(text, "")
	if err != nil {
		return nil, err
	}
	switch t, _ := acts.TargetOf(a.Act); {
	case acts.Of(a.Act).Many != may:
		return nil, invalidf("%s is not done here: %s is", acts.Of(a.Act).Name, strings.Join(actsOnMany(may), " or "))
	case t.Token != 0 || t.Node != "":
		return nil, invalidf("the body names a token or a node: the query chooses those that it is done to")
	}
	if err := c.signAct(&a.By, a.Reason); err != nil {
		return nil, err
	}
	return a, nil
}

// tokenBatchOf returns what a report says, as batchOf does.
func tokenBatchOf(r *pawl.TokensReport, dry bool) *TokenBatch {
	out := &TokenBatch{Applied: !dry, Tokens: r.Changed + r.Left + r.Refused, Changed: r.Changed, Refused: []TokenRefusal{}}
	if dry {
		return out
	}
	out.Left, out.Cursor = r.Left, tokenCursor(r.Cursor)
	for _, one := range r.Errors {
		out.Refused = append(out.Refused, TokenRefusal{one.Run, one.Token, errorOf(one.Err)})
	}
	return out
}

// ActOnDeadLetters retries or skips, as o says, the dead letters that fit a filter, at most as
// many as its Limit says, and adds up what the requests have come to, as DoAll does.
func (c *Client) ActOnDeadLetters(ctx context.Context, f pawl.DeadLetterFilter, o Operation) (TokenBatch, error) {
	q := letterQuery(f)
	return c.doTokens(ctx, "/v1/dead-letters/batch", q, f.Limit, o)
}

// VoteOnApprovals votes, as o says, on the approvals that fit a filter, as ActOnDeadLetters retries
// dead letters.
func (c *Client) VoteOnApprovals(ctx context.Context, f pawl.ApprovalFilter, o Operation) (TokenBatch, error) {
	return c.doTokens(ctx, "/v1/approvals/batch", approvalQuery(f), f.Limit, o)
}

// CountDeadLetters says to how many tokens ActOnDeadLetters would do something. Nothing is changed.
func (c *Client) CountDeadLetters(ctx context.Context, f pawl.DeadLetterFilter, o Operation) (TokenBatch, error) {
	return c.countTokens(ctx, "/v1/dead-letters/batch", letterQuery(f), f.Limit, o)
}

// CountApprovals says on how many approvals VoteOnApprovals would vote. Nothing is changed.
func (c *Client) CountApprovals(ctx context.Context, f pawl.ApprovalFilter, o Operation) (TokenBatch, error) {
	return c.countTokens(ctx, "/v1/approvals/batch", approvalQuery(f), f.Limit, o)
}

// doTokens repeats the request of a batch until nothing is left. The figures that a refusal carries
// are of what was done of that request.
func (c *Client) doTokens(ctx context.Context, path string, query url.Values, limit int, o Operation) (TokenBatch, error) {
	sum := TokenBatch{Applied: true, Refused: []TokenRefusal{}}
	for {
		query.Set("all", "1") // a filter of a Go program is no parameter that was forgotten
		query.Set("limit", strconv.Itoa(maxLimit))
		if limit > 0 {
			query.Set("limit", strconv.Itoa(min(limit-sum.Tokens, maxLimit)))
		}
		var next TokenBatch
		err := c.ask(ctx, &question{method: http.MethodPost, path: path, query: query, body: o, acts: true}, &next)
		if e := (*Error)(nil); errors.As(err, &e) && e.tokens != nil {
			next = *e.tokens
		} else if err != nil {
			sum.Cursor = query.Get("cursor")
			return sum, err
		}
		sum.Tokens, sum.Changed, sum.Left = sum.Tokens+next.Tokens, sum.Changed+next.Changed, sum.Left+next.Left
		sum.Refused, sum.Cursor = append(sum.Refused, next.Refused...), next.Cursor
		if err != nil || next.Cursor == "" || limit > 0 && sum.Tokens >= limit {
			return sum, err
		}
		query.Set("cursor", next.Cursor)
	}
}

// countTokens asks for a dry run, which counts all that fit, and cuts the figure to the limit.
func (c *Client) countTokens(ctx context.Context, path string, query url.Values, limit int, o Operation) (out TokenBatch, err error) {
	query.Set("dryRun", "1")
	err = c.ask(ctx, &question{method: http.MethodPost, path: path, query: query, body: o}, &out)
	if limit > 0 {
		out.Tokens = min(out.Tokens, limit)
	}
	return out, err
}
