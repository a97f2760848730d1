package pawl

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

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
	return e.once.Do(ctx, key, f)
}

// Forget forgets the outcome that Once keeps under a key. A key without one is no
// error; that of a schedule is ErrInvalid.
func (e *Engine) Forget(ctx context.Context, key string) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	if strings.HasPrefix(key, store.ScheduleKeys) {
		return fmt.Errorf("%w: the key %.300q is that of a schedule: use Schedules.Delete", ErrInvalid, key)
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
