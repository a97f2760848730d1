package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// Cancel ends a run as cancelled: its tokens and tasks are withdrawn. Cancel of
// a run that has ended is no error.
func (e *Engine) Cancel(ctx context.Context, id workflow.RunID, reason string) error {
	return e.ask(ctx, id, workflow.Cancel{Reason: legible(reason, maxMessage)})
}

// Complete delivers the result of an attempt, for an Executor that returned
// ErrPending. It may be repeated: one result counts per key, and a duplicate is
// nil. ErrStale says that the attempt does not run any more, or never did.
func (e *Engine) Complete(ctx context.Context, key Key, output any) error {
	run, token, attempt, epoch, err := key.parse()
	if err != nil {
		return err
	}
	m, err := completion(output)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	m.Token, m.Attempt, m.Epoch = token, attempt, epoch
	return e.report(ctx, run, m)
}

// Fail delivers the error of an attempt, as Execute would have returned it.
func (e *Engine) Fail(ctx context.Context, key Key, cause error) error {
	run, token, attempt, epoch, err := key.parse()
	if err != nil {
		return err
	}
	if cause == nil {
		return fmt.Errorf("%w: Fail needs an error", ErrInvalid)
	}
	return e.report(ctx, run, workflow.TaskFailed{Token: token, Attempt: attempt, Epoch: epoch, Failure: failureOf(cause)})
}

// Heartbeat says that an attempt is alive. ErrStale says that it is no longer
// wanted.
func (e *Engine) Heartbeat(ctx context.Context, key Key) error {
	run, token, attempt, epoch, err := key.parse()
	if err != nil {
		return err
	}
	return e.report(ctx, run, workflow.Heartbeat{Token: token, Attempt: attempt, Epoch: epoch})
}

// report delivers what an executor says. A run that does not exist makes the
// key a stale one.
func (e *Engine) report(ctx context.Context, run workflow.RunID, m workflow.Message) error {
	err := e.ask(ctx, run, m)
	if errors.Is(err, ErrRunNotFound) {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return err
}

// A Target names a token of a run: by its id, or by its node where only one
// token fits.
type Target struct {
	Run   workflow.RunID
	Token workflow.TokenID // or
	Node  workflow.NodeID
}

// Retry gives a parked task a fresh budget of attempts, or ends a back-off at
// once. Errors: ErrNotLive, ErrAmbiguous.
func (e *Engine) Retry(ctx context.Context, t Target) error {
	return e.ask(ctx, t.Run, workflow.Retry{Token: t.Token, Node: t.Node})
}

// Skip completes a task with the given output, in the operator's name. A
// running attempt's key becomes stale. Errors: ErrNotLive, ErrAmbiguous.
func (e *Engine) Skip(ctx context.Context, t Target, output any) error {
	v, err := value.Normalize(output, resultLimits)
	if err != nil {
		return fmt.Errorf("%w: the output is not JSON: %w", ErrInvalid, err)
	}
	return e.ask(ctx, t.Run, workflow.Skip{Token: t.Token, Node: t.Node, Output: v})
}

// Resume lets a run go on that an internal fault suspended, for instance after
// an upgrade: what it waits for is sent again.
func (e *Engine) Resume(ctx context.Context, id workflow.RunID) error {
	return e.ask(ctx, id, workflow.Resume{})
}

// inputError returns an error of the value model as an error about an input.
func inputError(g *workflow.Graph, err error) error {
	var ve *value.Error
	if !errors.As(err, &ve) {
		return &workflow.InputError{Message: err.Error()}
	}
	if ve.Code != value.CodeLimit {
		return &workflow.InputError{Path: ve.Path, Message: ve.Message}
	}
	return &workflow.LimitError{Limit: ve.Limit, Max: int64(g.Limits.PayloadBytes)}
}
