package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// maxOnceKey is the longest key of Once, in bytes.
const maxOnceKey = 255

// Once returns the outcome that is kept under a business key, such as
// "invoice/2026-17", or calls f and keeps what it returns, as a value of the JSON
// model, in the engine's directory. Another attempt, another run or the next life of
// the process does not repeat an effect whose outcome is kept: the pattern is
// the idempotent receiver of Hohpe and Woolf, Enterprise Integration Patterns.
//
// Under a key one call of f runs at a time; further callers wait for it until
// their ctx is done. Only a success is kept: after an error the next caller calls
// f again. Once returns without error only once the outcome is durable. Where the disk is full, or
// a log outside of the directory does not answer, Once waits for that with the outcome in hand,
// as the result of a task waits; when its ctx is done before, the engine goes on trying until Close, and
// callers under the key wait for it. If the process dies, or the engine closes or fails, between f's effect
// and that, f is called again: by itself Once does not keep an effect from happening twice around a
// crash. Let f pass the key on, or look first whether the effect is there.
//
// Outcomes are kept until Forget or ForgetBefore; Purge of a run leaves them. f
// must not call Once with the same key: it would wait for itself.
// Errors: that of f, ErrInvalid (the key is empty, longer than 255 bytes or not
// UTF-8; the outcome is not JSON), *workflow.LimitError (more than 1 MiB),
// ErrUnknown, ErrClosed.
func (e *Engine) Once(ctx context.Context, key string, f func(context.Context) (any, error)) (any, error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	if key == "" || len(key) > maxOnceKey || !utf8.ValidString(key) || strings.HasPrefix(key, ownKeys) {
		return nil, fmt.Errorf("%w: the key %.300q: use 1 to %d bytes of UTF-8 that do not begin with %s", ErrInvalid, key, maxOnceKey, ownKeys)
	}
	return e.onceUnder(ctx, key, f)
}

func (e *Engine) onceUnder(ctx context.Context, key string, f func(context.Context) (any, error)) (any, error) {
	for {
		turn, mine := e.once.enterTurn(key)
		if !mine {
			select {
			case <-turn:
				continue // it may have failed
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return e.onceAlone(ctx, key, turn, f)
	}
}

// onceAlone is Once for the only caller under a key. Its turn ends with it, unless the outcome is still in hand then.
func (e *Engine) onceAlone(ctx context.Context, key string, turn chan struct{}, f func(context.Context) (any, error)) (any, error) {
	inHand := false
	leave := func() { e.once.leaveTurn(key, turn) }
	defer func() {
		if !inHand {
			leave()
		}
	}()
	kept, err := e.dir.Outcome(ctx, key)
	if err == nil {
		return kept, nil
	}
	if !errors.Is(err, store.ErrNoOutcome) {
		return nil, closedError(err)
	}
	if f == nil {
		return nil, fmt.Errorf("%w: nothing is kept under the key, and there is nothing to call", ErrInvalid)
	}
	out, err := f(ctx)
	if err != nil {
		return nil, err
	}
	limit := workflow.DefaultLimits().PayloadBytes
	v, measure, err := value.NormalizeMeasured(out, resultLimits)
	if err != nil {
		return nil, invalidValue(fmt.Sprintf("the outcome under the key %q", key), err)
	}
	if size := measure.Size; size > limit {
		return nil, &workflow.LimitError{Limit: "payloadBytes", Max: int64(limit), Got: int64(size)}
	}
	if inHand, err = e.keepOutcome(ctx, key, v, leave); err != nil {
		return nil, fmt.Errorf("keep the outcome under the key %q: %w", key, closedError(err))
	}
	return v, nil
}

// keepOutcome keeps the outcome of an effect. If that has to wait, it is tried again until the engine closes, and ctx only bounds
// how long the caller waits for it: inHand says that leave is called when that is over.
//
// The effect has been made. An outcome that is dropped because there is no room would make it again.
func (e *Engine) keepOutcome(ctx context.Context, key string, v any, leave func()) (inHand bool, err error) {
	if e.options.Remote.Log == nil { // nothing waits for long
		if err = e.tryOutcome(key, v); !outcomeWaits(err) {
			return false, err
		}
	}
	ended := make(chan error, 1)
	inHand = e.late.startLate(func() {
		defer leave()
		ended <- e.keepUntilClosed(key, v, err)
	})
	if !inHand {
		return false, cmp.Or(err, ErrClosed)
	}
	select {
	case err := <-ended:
		return true, err
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// keepUntilClosed keeps an outcome, again and again after errors that may pass, until the engine closes. err is that of the
// last try; nil if there was none.
func (e *Engine) keepUntilClosed(key string, v any, err error) error {
	for wait, first := time.Duration(0), err == nil; first || outcomeWaits(err); first = false {
		if !first {
			e.logWaitingOutcome(err)
			wait = resultBackoff.Next(wait)
			select {
			case <-time.After(wait):
			case <-e.ctx.Done():
				return e.tryOutcome(key, v) // the last time
			}
		}
		err = e.tryOutcome(key, v)
	}
	return err
}

// tryOutcome keeps an outcome, if that is possible now. It may be repeated, also after an error that leaves open whether it did.
func (e *Engine) tryOutcome(key string, v any) error {
	release, err := e.pinReferences(context.WithoutCancel(e.ctx), v)
	if err != nil {
		return err
	}
	defer release()
	return e.dir.KeepOutcome(key, v, e.hook.Now())
}

// outcomeWaits reports whether an outcome that could not be kept may be kept later: for want of room, of descriptors, of a log or
// a blob store that answers. The handler gets only an error that no waiting mends: its next attempt repeats the effect.
func outcomeWaits(err error) bool {
	var about *blob.Error
	var ref *blob.RefError
	switch {
	case err == nil, errors.As(err, &ref):
		return false
	case errors.As(err, &about):
		return !errors.Is(about, blob.ErrMissing) && !errors.Is(about, blob.ErrDamaged) && !errors.Is(about, blob.ErrSize)
	}
	for _, final := range []error{ErrFailed, ErrFenced, ErrCorrupt, ErrInvalid, ErrRemote, ErrMaintenance, ErrClosed, store.ErrClosed} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// logWaitingOutcome tells the logger that an effect waits for its outcome to be kept.
func (e *Engine) logWaitingOutcome(err error) {
	if !errors.Is(err, ErrNoSpace) {
		e.options.Logger.Warn("pawl: the outcome of an effect cannot be kept now: Once waits for it", "error", err)
	} else {
		e.faults.FullDisk("The outcome of an effect waits for it, and is not lost while the process lives", "error", err)
	}
}

// Forget forgets the outcome that Once keeps under a key. A key without one is no
// error.
func (e *Engine) Forget(ctx context.Context, key string) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	return e.callUntil(ctx, func() error { return closedError(e.dir.ForgetOutcome(key)) })
}

// ForgetBefore forgets the outcomes that Once has kept since before an instant,
// and returns how many.
func (e *Engine) ForgetBefore(ctx context.Context, before time.Time) (int, error) {
	if err := e.checkUsable(ctx); err != nil {
		return 0, err
	}
	var n int
	err := e.callUntil(ctx, func() (err error) {
		n, err = e.dir.ForgetOutcomes(before)
		return closedError(err)
	})
	if err != nil {
		return 0, err // and n may still be written to
	}
	return n, nil
}

// ownKeys is how the keys begin that belong to tasks.
const ownKeys = "pawl:"

// onceKeyOf returns how the keys of a run's tasks begin.
func onceKeyOf(run workflow.RunID) string { return ownKeys + value.Hash(string(run)) + ":" }

// turns let one caller at a time act under a key.
type turns struct {
	mu  sync.Mutex
	now map[string]chan struct{} // closed when the caller is done
}

// enterTurn returns the turn of a key, and whether it is the caller's own.
func (t *turns) enterTurn(key string) (turn chan struct{}, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn := t.now[key]; turn != nil {
		return turn, false
	}
	if t.now == nil {
		t.now = map[string]chan struct{}{}
	}
	turn = make(chan struct{})
	t.now[key] = turn
	return turn, true
}

// leaveTurn ends a turn that enterTurn gave.
func (t *turns) leaveTurn(key string, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.now, key)
	close(turn)
}
