package pawl

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// Wait returns a run's outcome when it has ended. It needs no handle and works
// after a restart as well. Errors: ErrRunNotFound, ErrClosed, ErrFailed, the cause of ctx.
// That the run failed is no error: see Outcome.Err. A run that is suspended or
// cannot be loaded has not ended, so Wait keeps waiting: Inspect tells why. With Options.Maintenance nothing
// brings a run to its end: ErrMaintenance.
func (e *Engine) Wait(ctx context.Context, id workflow.RunID) (workflow.Outcome, error) {
	if err := e.checkUsable(ctx); err != nil {
		return workflow.Outcome{}, err
	}
	// The waiter is there before the row is looked at: a run that ends in between is told by
	// the channel, one that had ended by the row.
	w, err := e.waiters.addWaiter(id)
	if err != nil {
		return workflow.Outcome{}, err
	}
	defer e.waiters.removeWaiter(id, w)
	if e.options.Maintenance || !e.registry.GoesOn(id) { // else it is known to be there, and its end is told
		h, err := e.dir.HeadUntil(ctx, id)
		if err != nil {
			return workflow.Outcome{}, closedError(err)
		}
		if h.Status.Final() {
			return h.Outcome(), nil
		}
	}
	if e.options.Maintenance {
		return workflow.Outcome{}, fmt.Errorf("run %q: %w", string(id), ErrMaintenance)
	}
	select {
	case out, ok := <-w:
		if !ok {
			return workflow.Outcome{}, ErrClosed
		}
		return out, nil
	case <-e.dir.Failed():
		return workflow.Outcome{}, closedError(e.dir.Err())
	case <-ctx.Done():
		return workflow.Outcome{}, context.Cause(ctx)
	}
}

// waiters are those who wait for something to happen to a run: its end, or
// anything at all.
//
// Each channel holds one value and is sent to once, under the lock; then it is forgotten. A
// sender therefore never blocks, though a reader may have gone.
type waiters struct {
	hook     *testhook.Hook
	mu       sync.Mutex
	ends     map[workflow.RunID]map[chan workflow.Outcome]struct{}
	watchers map[workflow.RunID]map[chan struct{}]struct{}
	closed   bool
}

func newWaiters(hook *testhook.Hook) *waiters {
	return &waiters{
		hook:     hook,
		ends:     map[workflow.RunID]map[chan workflow.Outcome]struct{}{},
		watchers: map[workflow.RunID]map[chan struct{}]struct{}{},
	}
}

// addWaiter returns a channel that gets the outcome of a run when it ends; it is
// closed if the engine closes first.
func (w *waiters) addWaiter(id workflow.RunID) (chan workflow.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	c := make(chan workflow.Outcome, 1)
	addChannel(w.ends, id, c)
	return c, nil
}

// removeWaiter forgets a channel that its caller does not read any more; it may have been told
// and forgotten already.
func (w *waiters) removeWaiter(id workflow.RunID, c chan workflow.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	removeChannel(w.ends, id, c)
}

// addWatcher returns a channel that gets a signal when a run has moved on, or when
// the engine closes.
func (w *waiters) addWatcher(id workflow.RunID) (chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	c := make(chan struct{}, 1)
	addChannel(w.watchers, id, c)
	return c, nil
}

// removeWatcher is removeWaiter for watchers.
func (w *waiters) removeWatcher(id workflow.RunID, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	removeChannel(w.watchers, id, c)
}

// addChannel adds a listener to those of a run.
func addChannel[C comparable](of map[workflow.RunID]map[C]struct{}, id workflow.RunID, c C) {
	if of[id] == nil {
		of[id] = map[C]struct{}{}
	}
	of[id][c] = struct{}{}
}

// removeChannel removes a listener of a run, if it is still one.
func removeChannel[C comparable](of map[workflow.RunID]map[C]struct{}, id workflow.RunID, c C) {
	delete(of[id], c)
	if len(of[id]) == 0 {
		delete(of, id)
	}
}

// runMoved tells those who watch a run that it has moved on and, if it has ended,
// gives its outcome to all who wait for that.
//
// It is called after a commit, so that a waiter who is told finds the outcome committed.
func (w *waiters) runMoved(out workflow.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.watchers[out.Run] {
		c <- struct{}{}
	}
	delete(w.watchers, out.Run)
	if !out.Status.Final() {
		return
	}
	w.hook.Hit("end.tell")
	for c := range w.ends[out.Run] {
		c <- out
	}
	delete(w.ends, out.Run)
}

// closeChannels ends every wait, since the engine closes.
func (w *waiters) closeChannels() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, cs := range w.ends {
		for c := range cs {
			close(c)
		}
	}
	for _, cs := range w.watchers {
		for c := range cs {
			close(c)
		}
	}
	clear(w.ends)
	clear(w.watchers)
}
