package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An Approval is one that waits for people, in whichever run: what Approvals
// lists. Vote on it by Run and Token.
type Approval = store.Approval

// An ApprovalFilter selects approvals. The zero value selects all.
type ApprovalFilter = store.ApprovalFilter

// Approvals lists the open approvals of all runs that fit the filter, from the index, page by page,
// oldest run first. An error ends the list; that of a condition is a *WhereError, and ErrRunNotFound
// says that the run was purged after which the list was to begin.
func (e *Engine) Approvals(ctx context.Context, f ApprovalFilter) iter.Seq2[Approval, error] {
	if err := e.checkUsable(ctx); err != nil {
		return func(yield func(Approval, error) bool) { yield(Approval{}, err) }
	}
	return listUntilDone(ctx, e.dir.Approvals(ctx, f))
}

// A DeadLetter is a task that has used up its attempts and waits for an
// operator, in whichever run: what DeadLetters lists. Retry or Skip it by Run and
// Token.
type DeadLetter = store.DeadLetter

// A DeadLetterFilter selects dead letters. The zero value selects all.
type DeadLetterFilter = store.DeadLetterFilter

// DeadLetters lists the tasks of all runs that wait for an operator (their node
// says exhausted: park), from the index, page by page, oldest run first. An error
// ends the list; that of a condition is a *WhereError, and ErrRunNotFound says that the
// run was purged after which the list was to begin.
func (e *Engine) DeadLetters(ctx context.Context, f DeadLetterFilter) iter.Seq2[DeadLetter, error] {
	if err := e.checkUsable(ctx); err != nil {
		return func(yield func(DeadLetter, error) bool) { yield(DeadLetter{}, err) }
	}
	return listUntilDone(ctx, e.dir.DeadLetters(ctx, f))
}

// IncidentFilter selects, of the runs that fit a filter, those that go on and have an incident: the join of a node
// can no longer be met (CodeJoinUnmet). Runs looks at no others then.
//
// A Where that is no condition stays as it is, so that Runs says what is wrong with it: put into parentheses, texts such as
// "true) || (true" would become one.
func IncidentFilter(f RunFilter) RunFilter {
	const unmet = `code == "` + workflow.CodeJoinUnmet + `"`
	f.Status = []workflow.RunStatus{workflow.RunRunning, workflow.RunPaused}
	switch {
	case CheckWhere(f.Where) != nil:
	case f.Where == "":
		f.Where = unmet
	default:
		f.Where = "(" + f.Where + "\n) && " + unmet
	}
	return f
}

// RetryAll gives every dead letter that fits the filter a fresh budget of
// attempts, as Retry does, and returns how many. One that is parked again
// meanwhile is not retried a second time. Those whose input cannot be evaluated
// anew stay as they are, and the error names them beside the others' number.
func (e *Engine) RetryAll(ctx context.Context, f DeadLetterFilter, o RetryOptions) (int, error) {
	return e.eachDeadLetter(ctx, f, func(l *DeadLetter) error {
		err := e.Retry(ctx, Target{Run: l.Run, Token: l.Token, Parked: true}, o)
		if failure := (*workflow.Failure)(nil); errors.As(err, &failure) {
			return &refusedRetry{err}
		}
		return err
	})
}

// A refusedRetry is a retry that only this dead letter refuses.
type refusedRetry struct{ error }

func (r *refusedRetry) Unwrap() error { return r.error }

// SkipAll completes every dead letter that fits the filter with the given output,
// as Skip does, and returns how many. It stops at one whose node or limits refuse
// that output.
func (e *Engine) SkipAll(ctx context.Context, f DeadLetterFilter, output any) (int, error) {
	return e.eachDeadLetter(ctx, f, func(l *DeadLetter) error {
		return e.Skip(ctx, Target{Run: l.Run, Token: l.Token, Parked: true}, output)
	})
}

// eachDeadLetter acts on dead letters, and counts those that still were there.
func (e *Engine) eachDeadLetter(ctx context.Context, f DeadLetterFilter, act func(*DeadLetter) error) (n int, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return 0, err
	}
	if _, err := e.actOf(ctx); err != nil {
		return 0, err
	}
	var errs []error
	for l, err := range e.DeadLetters(ctx, f) {
		if err != nil {
			return n, err
		}
		err := troubleError(l.Run, l.Trouble)
		if err == nil {
			err = act(&l)
		}
		switch {
		case err == nil:
			n++
		case errors.Is(err, ErrNotLive), errors.Is(err, ErrEnded), errors.Is(err, ErrRunNotFound):
			// somebody else was first
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrVersion), errors.Is(err, ErrSuspended), errors.As(err, new(*refusedRetry)):
			errs = append(errs, fmt.Errorf("run %q: %w", string(l.Run), err)) // the others can be helped
		default:
			return n, errors.Join(append(errs, err)...)
		}
	}
	return n, errors.Join(errs...)
}

// listUntilDone yields a list of the store with the errors of this package, and ends it
// when ctx is done.
func listUntilDone[T any](ctx context.Context, list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for x, err := range list {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				var none T
				yield(none, invalidWhere(closedError(err)))
				return
			}
			if !yield(x, nil) {
				return
			}
		}
	}
}
