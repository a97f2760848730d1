// Package once keeps the outcomes of effects under business keys, so that no effect is repeated whose outcome is kept.
package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/faults"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/tasklog"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A Directory is the engine directory as outcomes see it; *store.Dir is one.
type Directory interface {
	Outcome(ctx context.Context, key string) (any, error)
	KeepOutcome(key string, v any, now time.Time) error
	HeadUntil(ctx context.Context, id workflow.RunID) (store.Head, error)
	HistoryUntil(ctx context.Context, id workflow.RunID, after int64) decision.History
}

// Blobs keep what a value refers to; *keeping.Keeper is one.
type Blobs interface {
	PinReferences(ctx context.Context, v any, as ...workflow.Artifact) (release func(), err error)
}

// Options say where outcomes are kept. All fields are needed.
type Options struct {
	ConfirmLog func(context.Context) error // fails unless the log outside of the directory, if there is one, is this engine's

	Dir    Directory
	Blobs  Blobs
	Late   *late.Calls
	Remote bool            // a commit may wait long, for a log outside of the directory
	Alive  context.Context //nolint:containedctx // done when the engine closes
	Limits value.Limits    // of what is normalised
	Faults *faults.Log
	Logger *slog.Logger
	Now    func() time.Time

	FirstEpoch state.Epoch        // of this life of the engine
	Epoch      func() state.Epoch // of the tasks that are dispatched from now on
}

// Outcomes are those of an engine.
type Outcomes struct {
	o Options

	mu  sync.Mutex
	now map[string]chan struct{} // keys under which somebody acts; closed when the caller is done

	purging sync.RWMutex // purges of runs hold it, and, to read, whoever looks at a run and keeps an outcome of its task
}

// New returns the outcomes of a directory.
func New(o Options) *Outcomes { return &Outcomes{o: o, now: map[string]chan struct{}{}} }

// backoff is the pause between two tries to keep an outcome.
var backoff = timeout.Backoff{First: 10 * time.Millisecond, Max: time.Second}

// Do returns the outcome that is kept under a key, or calls f and keeps what it returns.
func (t *Outcomes) Do(ctx context.Context, key string, f func(context.Context) (any, error)) (any, error) {
	return t.performOnce(ctx, keyed{key: key}, f)
}

func (t *Outcomes) performOnce(ctx context.Context, k keyed, f func(context.Context) (any, error)) (any, error) {
	for {
		turn, mine := t.enterTurn(k.key)
		if !mine {
			select {
			case <-turn:
				continue // it may have failed
			case <-ctx.Done():
				return nil, late.Cause(ctx)
			}
		}
		return t.onceAlone(ctx, k, turn, f)
	}
}

// onceAlone is Do for the only caller under a key. Its turn ends with it, unless the outcome is still in hand then.
func (t *Outcomes) onceAlone(ctx context.Context, k keyed, turn chan struct{}, f func(context.Context) (any, error)) (any, error) {
	inHand := false
	leave := func() { t.leaveTurn(k.key, turn) }
	defer func() {
		if !inHand {
			leave()
		}
	}()
	if err := t.checkRun(ctx, k); err != nil {
		return nil, err
	}
	kept, err := t.o.Dir.Outcome(ctx, k.key)
	if err == nil {
		return kept, nil
	}
	if !errors.Is(err, store.ErrNoOutcome) {
		return nil, refusal.Closed(err)
	}
	if f == nil {
		return nil, fmt.Errorf("%w: nothing is kept under the key, and there is nothing to call", refusal.ErrInvalid)
	}
	if err := t.confirmLog(ctx); err != nil {
		return nil, refusal.Closed(err)
	}
	out, err := f(ctx)
	if err != nil {
		return nil, err
	}
	if out, err = value.ReadAll(out, t.o.Limits.Bytes); err != nil {
		return nil, err
	}
	limit := workflow.DefaultLimits().PayloadBytes
	taken, err := value.Take(out, t.o.Limits)
	if err != nil {
		return nil, refusal.InvalidPayload(fmt.Sprintf("the outcome under the key %q", k.key), err)
	}
	if size := taken.Measure.Size; size > limit {
		return nil, &workflow.LimitError{Limit: "payloadBytes", Max: int64(limit), Got: int64(size)}
	}
	if inHand, err = t.keepOutcome(ctx, k, taken.Value, leave); err != nil {
		return nil, fmt.Errorf("keep the outcome under the key %q: %w", k.key, refusal.Closed(err))
	}
	return taken.Value, nil
}

// confirmLog returns once the log outside of the directory is known to be this engine's: another engine that has taken it may have kept
// the outcome. A log without room is asked again, as it is for the outcome.
func (t *Outcomes) confirmLog(ctx context.Context) error {
	for wait := time.Duration(0); !isMade(ctx); {
		err := t.o.ConfirmLog(ctx)
		if !errors.Is(err, store.ErrNoSpace) {
			return err
		}
		t.logWaitingOutcome(ctx, err)
		wait = backoff.Next(wait)
		select {
		case <-time.After(wait):
		case <-t.o.Alive.Done():
			return refusal.ErrClosed
		case <-ctx.Done():
			return late.Cause(ctx)
		}
	}
	return nil
}

type madeKey struct{}

// WithMade returns a context for Do and DoTask whose function makes nothing, and returns the outcome of an effect that is made already.
func WithMade(ctx context.Context) context.Context { return context.WithValue(ctx, madeKey{}, true) }

func isMade(ctx context.Context) bool { return ctx.Value(madeKey{}) != nil }

// keepOutcome keeps the outcome of an effect. If that has to wait, it is tried again until the engine closes, and ctx only bounds
// how long the caller waits for it: inHand says that leave is called when that is over.
//
// The effect has been made. An outcome that is dropped because there is no room would make it again.
func (t *Outcomes) keepOutcome(ctx context.Context, k keyed, v any, leave func()) (inHand bool, err error) {
	if !t.o.Remote { // nothing waits for long
		if err = t.tryOutcome(k, v); !outcomeWaits(err) {
			return false, err
		}
	}
	ended, last := make(chan error, 1), err // the caller may leave with another error meanwhile
	inHand = t.o.Late.Start(func() {
		defer leave()
		ended <- t.keepUntilClosed(ctx, k, v, last)
	})
	if !inHand {
		return false, cmp.Or(err, refusal.ErrClosed)
	}
	select {
	case err := <-ended:
		return true, err
	case <-ctx.Done():
		return true, late.Cause(ctx)
	}
}

// keepUntilClosed keeps an outcome, again and again after errors that may pass, until the engine closes. err is that of the
// last try; nil if there was none. ctx says who waits, and ends nothing.
func (t *Outcomes) keepUntilClosed(ctx context.Context, k keyed, v any, err error) error {
	for wait, first := time.Duration(0), err == nil; first || outcomeWaits(err); first = false {
		if !first {
			t.logWaitingOutcome(ctx, err)
			wait = backoff.Next(wait)
			select {
			case <-time.After(wait):
			case <-t.o.Alive.Done():
				return t.tryOutcome(k, v) // the last time
			}
		}
		err = t.tryOutcome(k, v)
	}
	return err
}

// tryOutcome keeps an outcome, if that is possible now. It may be repeated, also after an error that leaves open whether it did.
func (t *Outcomes) tryOutcome(k keyed, v any) error {
	release, err := t.o.Blobs.PinReferences(context.WithoutCancel(t.o.Alive), v)
	if err != nil {
		return err
	}
	defer release()
	t.purging.RLock()
	defer t.purging.RUnlock()
	if err := t.checkRun(t.o.Alive, k); errors.Is(err, store.ErrRunNotFound) { // else the effect, which was made, counts
		return err
	}
	return t.o.Dir.KeepOutcome(k.key, v, t.o.Now())
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
	for _, final := range []error{store.ErrFailed, store.ErrFenced, store.ErrCorrupt, refusal.ErrInvalid, store.ErrRemote, refusal.ErrMaintenance, refusal.ErrClosed, store.ErrClosed, store.ErrRunNotFound} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// logWaitingOutcome tells the logger that an effect waits for its outcome to be kept.
func (t *Outcomes) logWaitingOutcome(ctx context.Context, err error) {
	args := append(tasklog.ArgsIn(ctx), tasklog.Error, err)
	if !errors.Is(err, store.ErrNoSpace) {
		t.o.Logger.Warn("pawl: the outcome of an effect cannot be kept now: Once waits for it", args...)
	} else {
		t.o.Faults.FullDisk("The outcome of an effect waits for it, and is not lost while the process lives", args...)
	}
}

// enterTurn returns the turn of a key, and whether it is the caller's own.
func (t *Outcomes) enterTurn(key string) (turn chan struct{}, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn := t.now[key]; turn != nil {
		return turn, false
	}
	turn = make(chan struct{})
	t.now[key] = turn
	return turn, true
}

// leaveTurn ends a turn that enterTurn gave.
func (t *Outcomes) leaveTurn(key string, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.now, key)
	close(turn)
}
