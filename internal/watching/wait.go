package watching

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Options say where those who wait look.
type Options struct {
	Dir    Directory
	GoesOn func(workflow.RunID) bool // whether a run is known to be there and unended, so that its end is told
	Still  bool                      // nothing brings a run to its end
	Hook   *testhook.Hook
}

// Waiters are those who wait for something to happen to a run: its end, or
// anything at all.
//
// Each channel holds one value and is sent to once, under the lock; then it is forgotten. A
// sender therefore never blocks, though a reader may have gone.
type Waiters struct {
	o      Options
	mu     sync.Mutex
	ends   map[workflow.RunID]map[chan workflow.Outcome]struct{}
	moves  map[workflow.RunID]map[chan struct{}]struct{}
	closed bool
}

// NewWaiters returns nobody who waits.
func NewWaiters(o Options) *Waiters {
	return &Waiters{o: o, ends: map[workflow.RunID]map[chan workflow.Outcome]struct{}{}, moves: map[workflow.RunID]map[chan struct{}]struct{}{}}
}

// Wait returns a run's outcome when it has ended. Errors: those of the directory, ErrMaintenance, ErrClosed, ErrFailed, the cause of
// ctx.
func (w *Waiters) Wait(ctx context.Context, id workflow.RunID) (workflow.Outcome, error) {
	// The waiter is there before the row is looked at: a run that ends in between is told by
	// the channel, one that had ended by the row.
	end, err := addWaiter(w, w.ends, id)
	if err != nil {
		return workflow.Outcome{}, err
	}
	defer removeWaiter(w, w.ends, id, end)
	if w.o.Still || !w.o.GoesOn(id) { // else it is known to be there, and its end is told
		h, err := w.o.Dir.HeadUntil(ctx, id)
		if err != nil {
			return workflow.Outcome{}, refusal.Closed(err)
		}
		if h.Status.Final() {
			return h.Outcome(), nil
		}
	}
	if w.o.Still {
		return workflow.Outcome{}, fmt.Errorf("run %q: %w", string(id), refusal.ErrMaintenance)
	}
	select {
	case out, ok := <-end:
		if !ok {
			return workflow.Outcome{}, refusal.ErrClosed
		}
		return out, nil
	case <-w.o.Dir.Failed():
		return workflow.Outcome{}, refusal.Closed(w.o.Dir.Err())
	case <-ctx.Done():
		return workflow.Outcome{}, late.Cause(ctx)
	}
}

// addWaiter returns a channel that gets a value when something happens to a run; it is
// closed if the engine closes first.
func addWaiter[T any](w *Waiters, to map[workflow.RunID]map[chan T]struct{}, id workflow.RunID) (chan T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, refusal.ErrClosed
	}
	c := make(chan T, 1)
	if to[id] == nil {
		to[id] = map[chan T]struct{}{}
	}
	to[id][c] = struct{}{}
	return c, nil
}

// removeWaiter forgets a channel that its caller does not read any more; it may have been told
// and forgotten already.
func removeWaiter[T any](w *Waiters, of map[workflow.RunID]map[chan T]struct{}, id workflow.RunID, c chan T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(of[id], c)
	if len(of[id]) == 0 {
		delete(of, id)
	}
}

// Moved tells those who follow a run that it has moved on and, if it has ended,
// gives its outcome to all who wait for that.
//
// It is called after a commit, so that a waiter who is told finds the outcome committed.
func (w *Waiters) Moved(out workflow.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.moves[out.Run] {
		c <- struct{}{}
	}
	delete(w.moves, out.Run)
	if !out.Status.Final() {
		return
	}
	w.o.Hook.Hit("end.tell")
	for c := range w.ends[out.Run] {
		c <- out
	}
	delete(w.ends, out.Run)
}

// Close ends every wait, since the engine closes.
func (w *Waiters) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	closeAll(w.ends)
	closeAll(w.moves)
}

func closeAll[T any](all map[workflow.RunID]map[chan T]struct{}) {
	for _, cs := range all {
		for c := range cs {
			close(c)
		}
	}
	clear(all)
}

// A Sequence is a list of a run whose elements are numbered from 1.
type Sequence[T any] struct {
	List  func(after int64) iter.Seq2[T, error] // what there is behind a number
	SeqOf func(*T) int64
}

// Follow lists a sequence of a run behind a number and, with follow, waits for more until the run has ended or ctx is done.
func Follow[T any](ctx context.Context, w *Waiters, id workflow.RunID, after int64, follow bool, s Sequence[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		after := after
		for {
			moved, err := addWaiter(w, w.moves, id)
			if err != nil {
				yield(none, err)
				return
			}
			h, err := w.o.Dir.HeadUntil(ctx, id)
			more := err == nil
			if err != nil {
				yield(none, refusal.Closed(err))
			}
			if more = more && s.yieldBehind(ctx, &after, yield) && !h.Status.Final(); !more || !follow {
				removeWaiter(w, w.moves, id, moved)
				return
			}
			select {
			case <-moved:
			case <-w.o.Dir.Failed(): // which the next look says
				removeWaiter(w, w.moves, id, moved)
			case <-ctx.Done():
				removeWaiter(w, w.moves, id, moved)
				yield(none, late.Cause(ctx))
				return
			}
		}
	}
}

// yieldBehind yields what has happened so far, and keeps the sequence of the last in after. It
// returns false if there was an error or the caller wants no more.
func (s *Sequence[T]) yieldBehind(ctx context.Context, after *int64, yield func(T, error) bool) bool {
	for x, err := range s.List(*after) {
		if err == nil && ctx.Err() != nil {
			err = late.Cause(ctx)
		}
		if err != nil {
			var none T
			yield(none, refusal.Closed(err))
			return false
		}
		*after = s.SeqOf(&x)
		if !yield(x, nil) {
			return false
		}
	}
	return true
}

var _ Directory = (*store.Dir)(nil)
