package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/workflow"
)

// A TokensReport says what a call on many tokens, which wait for people in whichever runs, has come to, token by
// token: each is changed whole, or not at all.
type TokensReport struct {
	Changed int            `json:"changed"`         // tokens that the call has changed
	Left    int            `json:"left"`            // tokens that it left as they were: they waited no longer, or there was nothing to change
	Refused int            `json:"refused"`         // tokens that refused it
	Errors  []TokenRefusal `json:"errors,omitzero"` // why, of the first MaxRefusals

	// Cursor is the last token that was looked at, or that after which the filter begins if none was, if there may be
	// more: the same call goes on with After = Cursor.Run and AfterToken = Cursor.Token of the filter. It is the zero
	// value when all were.
	Cursor Target `json:"cursor,omitzero"`
}

// A TokenRefusal says why one token of many refused a call.
type TokenRefusal struct {
	Run   workflow.RunID   `json:"run"`
	Token workflow.TokenID `json:"token"`
	Err   error            `json:"-"`
	Why   string           `json:"error"` // Err as a text
}

// ActOnDeadLetters gives act every dead letter that fits the filter, one after the other, oldest run first, and reports
// what came of it: act, which usually calls Retry or Skip with Target.Parked, says whether it has changed the token. Each is
// given once, also if it is parked again meanwhile. One of which act returns an error is reported as refused, or as
// left if the error says that it waits no longer, and the others are acted on. Errors that concern all end the
// call, as those of ActOnAll do. Repeating it, from the Cursor of the report or from the beginning, is safe if act is.
func (e *Engine) ActOnDeadLetters(ctx context.Context, f DeadLetterFilter, act func(*DeadLetter) (changed bool, err error)) (TokensReport, error) {
	w := waitingTokens[DeadLetter]{from: Target{Run: f.After, Token: f.AfterToken}, limit: f.Limit, act: act, targetOf: func(l *DeadLetter) (Target, error) {
		return Target{Run: l.Run, Token: l.Token}, troubleError(l.Run, l.Trouble)
	}}
	f.Limit = 0 // one more is looked for, which says whether there is a cursor
	w.list = e.DeadLetters(ctx, f)
	return w.actOnEach(ctx, e)
}

// ActOnApprovals gives act every open approval that fits the filter, as ActOnDeadLetters does dead letters: act usually
// calls Vote.
func (e *Engine) ActOnApprovals(ctx context.Context, f ApprovalFilter, act func(*Approval) (changed bool, err error)) (TokensReport, error) {
	w := waitingTokens[Approval]{from: Target{Run: f.After, Token: f.AfterToken}, limit: f.Limit, act: act, targetOf: func(a *Approval) (Target, error) {
		return Target{Run: a.Run, Token: a.Token}, troubleError(a.Run, a.Trouble)
	}}
	f.Limit = 0
	w.list = e.Approvals(ctx, f)
	return w.actOnEach(ctx, e)
}

// waitingTokens are those of a list on which a call acts.
type waitingTokens[T any] struct {
	list     iter.Seq2[T, error]
	from     Target // after which the list begins
	limit    int    // 0 is all
	act      func(*T) (bool, error)
	targetOf func(*T) (Target, error) // an error is of one that is shown as damaged
}

// actOnEach acts on one token after the other. It looks at one more than the limit, whose error is of what was not asked for.
func (w *waitingTokens[T]) actOnEach(ctx context.Context, e *Engine) (out TokensReport, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return out, err
	}
	if _, err := e.actOf(ctx); err != nil {
		return out, err
	}
	if w.act == nil {
		return out, fmt.Errorf("%w: a function that acts is needed", ErrInvalid)
	}
	out.Cursor = w.from
	for x, err := range w.list {
		if w.limit > 0 && out.Changed+out.Left+out.Refused == w.limit {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		changed := false
		t, err := w.targetOf(&x)
		if err == nil {
			changed, err = w.act(&x)
		}
		if err := out.addResult(t, changed, err, ctx.Err() != nil); err != nil {
			return out, fmt.Errorf("run %q: %w", string(t.Run), err)
		}
	}
	out.Cursor = Target{}
	return out, nil
}

// addResult counts what has come of one token, as ManyReport.addResult does of a run.
func (r *TokensReport) addResult(t Target, changed bool, err error, late bool) error {
	one := ManyReport{}
	if errors.Is(err, ErrNotLive) {
		err = nil // somebody else was first
		changed = false
	}
	if err := one.addResult(t.Run, changed, err, late); err != nil {
		return err
	}
	r.Changed, r.Left, r.Refused = r.Changed+one.Changed, r.Left+one.Left, r.Refused+one.Refused
	if one.Refused > 0 && len(r.Errors) < MaxRefusals {
		r.Errors = append(r.Errors, TokenRefusal{t.Run, t.Token, err, err.Error()})
	}
	r.Cursor = t
	return nil
}
