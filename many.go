package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/pawl-run/pawl/workflow"
)

// A ManyReport says what a call on many runs has come to, run by run: each is changed whole, or
// not at all.
type ManyReport struct {
	Changed int          `json:"changed"`         // runs that the call has changed
	Left    int          `json:"left"`            // runs that it left as they were: they had ended meanwhile, or there was nothing to change
	Refused int          `json:"refused"`         // runs that refused it
	Errors  []RunRefusal `json:"errors,omitzero"` // why, of the first MaxRefusals

	// Cursor is the last run that was looked at, or RunFilter.After if none was, if there may be more: the same call
	// goes on with RunFilter.After = Cursor. It is "" when all were.
	Cursor workflow.RunID `json:"cursor,omitzero"`
}

// A RunRefusal says why one run of many refused a call.
type RunRefusal struct {
	Run workflow.RunID `json:"run"`
	Err error          `json:"-"`
	Why string         `json:"error"` // Err as a text
}

// MaxRefusals bounds the errors that a ManyReport has.
const MaxRefusals = 1000

// CancelAll cancels every run that fits the filter and has not ended, as ActOnAll goes through them, each as Cancel does.
func (e *Engine) CancelAll(ctx context.Context, f RunFilter, reason string) (ManyReport, error) {
	return e.ActOnAll(ctx, f, func(r *RunSummary) (bool, error) {
		return true, e.Cancel(ctx, r.Run, reason)
	})
}

// patchTries is how often PatchAll patches a run that others patch at the same time.
const patchTries = 5

// PatchAll patches every run that fits the filter and has not ended, as ActOnAll goes through them, each as Patch does,
// whole or not at all. patch gets the definition that the run has, which is its own copy, and returns the
// operations, none to leave the run as it is; it is asked again if somebody else patches the run meanwhile.
func (e *Engine) PatchAll(ctx context.Context, f RunFilter, patch func(*workflow.Definition) []any) (ManyReport, error) {
	if patch == nil {
		return ManyReport{}, fmt.Errorf("%w: PatchAll needs a function that says what to patch", ErrInvalid)
	}
	return e.ActOnAll(ctx, f, func(r *RunSummary) (changed bool, err error) {
		for range patchTries {
			d, revision, err := e.Definition(ctx, r.Run)
			if err != nil {
				return false, err
			}
			ops := patch(d)
			if len(ops) == 0 {
				return false, nil
			}
			if _, err = e.Patch(ctx, r.Run, Patch{Base: revision, Ops: ops}); !errors.Is(err, ErrConflict) {
				return true, err
			}
		}
		return false, ErrConflict
	})
}

// ActOnAll gives act every run that fits the filter and has not ended, one after the other, and reports what came of it: act
// says whether it has changed the run. The oldest come first, or the newest if the filter says Newest and has a Limit.
// Runs that begin after the call has passed are not among them. If act returns an error for a run, the run is reported as
// refused, or as left if the error says that it has ended meanwhile or was purged, and the others are acted on. Errors that
// concern all runs end the call, with a report of what was done until then: ErrClosed, ErrNoSpace, ErrFailed, ErrFenced,
// ErrUnknown, ErrMaintenance, ErrRemote, a *WhereError (of the filter), that of ctx. Repeating it, from the Cursor of the
// report or from the beginning, is safe if act is.
func (e *Engine) ActOnAll(ctx context.Context, f RunFilter, act func(*RunSummary) (changed bool, err error)) (out ManyReport, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return out, err
	}
	if _, err := e.actOf(ctx); err != nil {
		return out, err
	}
	if act == nil {
		return out, fmt.Errorf("%w: ActOnAll needs a function that acts", ErrInvalid)
	}
	if f.Status = unendedOf(f.Status); len(f.Status) == 0 {
		return out, CheckWhere(f.Where)
	}
	if f.Limit <= 0 { // also if it goes on from a Cursor, so that both calls go the same way
		f.Newest = false // parents before their children, which would end them in another way
	}
	limit := f.Limit
	out.Cursor = f.After
	f.Limit = 0 // one more is looked for, which says whether there is a cursor
	for r, err := range e.Runs(ctx, f) {
		if limit > 0 && out.Changed+out.Left+out.Refused == limit {
			return out, nil // an error is of what was not asked for: whoever goes on sees it
		}
		if err != nil {
			return out, err
		}
		changed, err := false, troubleError(r.Run, r.Trouble)
		if err == nil {
			changed, err = act(&r)
		}
		if err := out.addResult(r.Run, changed, err, ctx.Err() != nil); err != nil {
			return out, fmt.Errorf("run %q: %w", string(r.Run), err)
		}
	}
	out.Cursor = ""
	return out, nil
}

// troubleError returns the error of what a list shows as damaged; nil of what is not. Nobody knows whether that fits a filter, so nothing
// is done to it.
func troubleError(run workflow.RunID, trouble string) error {
	if trouble == "" {
		return nil
	}
	return &CorruptError{Run: run, File: "pawl.db", What: trouble}
}

// addResult counts what has come of one run. It returns an error that concerns all of them; whose time was up, that of the call
// or that of this run alone, late says.
func (m *ManyReport) addResult(run workflow.RunID, changed bool, err error, late bool) error {
	switch {
	case err == nil && changed:
		m.Changed++
	case err == nil, errors.Is(err, ErrEnded), errors.Is(err, ErrRunNotFound):
		m.Left++
	case concernsAll(err), late && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return err
	default:
		if m.Refused++; len(m.Errors) < MaxRefusals {
			m.Errors = append(m.Errors, RunRefusal{run, err, err.Error()})
		}
	}
	m.Cursor = run
	return nil
}

// unendedOf returns those statuses of a filter that a run has before it ends. A filter without statuses has all.
func unendedOf(wanted []workflow.RunStatus) (out []workflow.RunStatus) {
	for s := workflow.RunCreated; !s.Final(); s++ {
		if len(wanted) == 0 || slices.Contains(wanted, s) {
			out = append(out, s)
		}
	}
	return out
}

// concernsAll reports whether an error says something of the engine or of the caller, not of one run alone.
func concernsAll(err error) bool {
	for _, of := range []error{ErrClosed, ErrNoSpace, ErrFailed, ErrFenced, ErrUnknown, ErrMaintenance, ErrRemote} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

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
// given once, also if it is parked again meanwhile. If act returns an error for a token, the token is reported as refused,
// or as left if the error says that it waits no longer, and the others are acted on. Errors that concern all end the call,
// as those of ActOnAll do. Repeating it, from the Cursor of the report or from the beginning, is safe if act is.
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
