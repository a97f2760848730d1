package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

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
