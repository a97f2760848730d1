package pawl

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/workflow"
)

// A registry knows the actor of every active run. A run has one at most: who
// asks for a run that has none starts it, and an idle actor is let go only when
// nobody holds it.
type registry struct {
	most  int
	group sync.WaitGroup

	mu     sync.Mutex
	slots  map[workflow.RunID]*slot
	barred map[workflow.RunID]chan struct{} // runs that may have no actor; closed when they may again
	closed bool
}

type slot struct {
	actor *actor.Actor
	held  int // callers that may send to it
}

func newRegistry(most int) *registry {
	return &registry{most: most, slots: map[workflow.RunID]*slot{}, barred: map[workflow.RunID]chan struct{}{}}
}

// hold returns the actor of a run, started by start if it has none, and keeps
// it from leaving until release. It waits while the run may have no actor, but not
// longer than ctx.
func (r *registry) hold(ctx context.Context, id workflow.RunID, fresh bool, start func() *actor.Actor) (*actor.Actor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for bar := r.barred[id]; bar != nil && !r.closed; bar = r.barred[id] {
		r.mu.Unlock()
		select {
		case <-bar:
			r.mu.Lock()
		case <-ctx.Done():
			r.mu.Lock()
			return nil, context.Cause(ctx)
		}
	}
	if r.closed {
		return nil, ErrClosed
	}
	s := r.slots[id]
	if s == nil {
		if fresh && len(r.slots) >= r.most {
			return nil, fmt.Errorf("%w: %d runs are active", ErrBusy, len(r.slots))
		}
		s = &slot{actor: start()}
		r.slots[id] = s
	}
	s.held++
	return s.actor, nil
}

// reserve waits until a run has no actor and keeps it from getting one until
// release is called.
func (r *registry) reserve(ctx context.Context, id workflow.RunID) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.slots[id] != nil || r.barred[id] != nil {
		s := r.slots[id]
		var free <-chan struct{} = r.barred[id]
		if s != nil {
			free = s.actor.Done()
		}
		r.mu.Unlock()
		select {
		case <-free:
			r.mu.Lock()
			if s != nil && r.slots[id] == s {
				delete(r.slots, id) // it ended of itself
			}
		case <-ctx.Done():
			r.mu.Lock()
			return nil, context.Cause(ctx)
		}
	}
	bar := make(chan struct{})
	r.barred[id] = bar
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.barred, id)
		close(bar)
	}, nil
}

// release ends a hold.
func (r *registry) release(a *actor.Actor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[a.ID]; s != nil && s.actor == a {
		if s.held--; s.held == 0 {
			a.Nudge()
		}
	}
}

// leave lets an idle actor go, if nobody holds it.
func (r *registry) leave(a *actor.Actor) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slots[a.ID]
	if s == nil || s.actor != a {
		return true
	}
	if s.held > 0 || !a.Idle() {
		return false
	}
	delete(r.slots, a.ID)
	return true
}

// gone forgets an actor that has ended of itself.
func (r *registry) gone(a *actor.Actor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[a.ID]; s != nil && s.actor == a {
		delete(r.slots, a.ID)
	}
}

// has reports whether a run has an actor.
func (r *registry) has(id workflow.RunID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[id] != nil
}

// close lets nobody hold an actor any more.
func (r *registry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// wait returns when every actor has ended.
func (r *registry) wait() { r.group.Wait() }
