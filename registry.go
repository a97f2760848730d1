package pawl

import (
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
	closed bool
}

type slot struct {
	actor *actor.Actor
	held  int // callers that may send to it
}

func newRegistry(most int) *registry {
	return &registry{most: most, slots: map[workflow.RunID]*slot{}}
}

// hold returns the actor of a run, started by start if it has none, and keeps
// it from leaving until release.
func (r *registry) hold(id workflow.RunID, fresh bool, start func() *actor.Actor) (*actor.Actor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
