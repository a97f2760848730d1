// Package roster knows which runs are active: their actors, the messages between parents and children, and the alarms of runs that
// sleep.
package roster

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/workflow"
)

// A Roster knows the actor of every active run. A run has one at most: a caller
// that asks for a run without an actor starts it, and an idle actor is let go only when
// nobody holds it.
//
// The mutex is what makes it one: Acquire, LetGo and Ended decide under it. An
// actor that is idle asks LetGo before it ends; if somebody has got hold of it in between
// it stays, and takes the message. A caller that acquires an actor releases it, so that held says how
// many may still send.
type Roster struct {
	o     Options
	group sync.WaitGroup

	mu sync.Mutex
	// A slot is there from when the actor starts until it has been let go or has ended; a run
	// in blocked may have none, or have one that nobody gets.
	slots   map[workflow.RunID]*slot
	blocked map[workflow.RunID]chan struct{} // runs that may have no actor; the channel is closed when they may again
	active  map[string]int                   // runs by tenant that do not only wait, if there are limits
	away    map[workflow.RunID]string        // runs without a slot that have tasks out, or are being made, and their tenants
	waiting list.List                        // slots of runs that only wait, the one that came first at the front
	leaving int                              // slots that were taken from there, as their actors are to leave
	closed  bool
}

// A slot is the place of one active run.
type slot struct {
	actor  *actor.Actor
	held   int           // callers that may send to it
	stays  bool          // it was refused its end, because somebody held it, and asks no more unless it is nudged
	tenant string        // of the run; "" until it is loaded
	goesOn bool          // the actor has committed last, or has read, that the run has begun and not ended
	waits  *list.Element // in waiting
	leaves bool          // it is one of leaving

	newcomer *Newcomer     // for which the actor was started; nil for a run that was before
	found    bool          // the actor has read or committed the run
	settled  chan struct{} // closed then, or when the slot goes; nil while nobody waits for that
}

// Options say which runs may be active.
type Options struct {
	// Room returns why no further run of a tenant may be active, if so many are, and so many of the tenant, without those that
	// only wait. It is called with the lock of the roster, for runs that are to be started and have no parent.
	Room     func(tenant string, active, ofTenant int) error
	Most     int   // actors from which on one of a run that only waits makes room for a run that is to be started; 0 is no bound
	ByTenant bool  // the runs of tenants are counted
	Closed   error // what callers get once Refuse was called
}

// A Newcomer is a run that is to be started.
type Newcomer struct {
	Tenant string
	Child  bool // it has a parent: there is always room for it
}

// New returns a roster without runs.
func New(o Options) *Roster {
	return &Roster{
		o: o, active: map[string]int{}, away: map[workflow.RunID]string{}, slots: map[workflow.RunID]*slot{}, blocked: map[workflow.RunID]chan struct{}{},
	}
}

// Acquire returns the actor of a run, started by start if it has none, and keeps
// it from leaving until release. It waits while the run may have no actor, but not
// longer than ctx. b says what is to be started; nil if the run was before.
//
// An actor that was started for another newcomer would begin that one's run with the message of this one, and one that was started
// for a run that was before would find none. So they are waited for: then the run is there, or the actor has left.
//
// The room is checked only for a run that is to be started; one that goes on has been let in
// before, also if a caller starts it again.
func (r *Roster) Acquire(ctx context.Context, id workflow.RunID, b *Newcomer, start func() *actor.Actor) (*actor.Actor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.waitForSlot(ctx, id, b)
	if err != nil {
		return nil, err
	}
	if s == nil {
		tenant, away := r.away[id]
		if !away {
			if err := r.makeRoom(b); err != nil {
				return nil, err
			}
		}
		s = &slot{actor: start(), newcomer: b}
		r.slots[id] = s
		switch {
		case away:
			r.forgetAway(id)
			r.setTenant(s, tenant)
		case b != nil:
			r.setTenant(s, b.Tenant)
		}
	}
	s.held++
	return s.actor, nil
}

// waitForSlot returns the slot of a run; nil if it has none and may have one. A newcomer waits until an actor that was not started
// for it has found the run. The caller holds the lock, which others get meanwhile.
func (r *Roster) waitForSlot(ctx context.Context, id workflow.RunID, b *Newcomer) (*slot, error) {
	for {
		if err := r.waitUntilFree(ctx, id); err != nil {
			return nil, err
		}
		s := r.slots[id]
		if s == nil || s.found || b == nil || s.newcomer == b {
			return s, nil
		}
		if err := r.waitUntilSettled(ctx, s); err != nil {
			return nil, err
		}
	}
}

// waitUntilSettled waits until the actor of a slot has found its run, or the slot is gone. The caller holds the lock, which others
// get meanwhile.
func (r *Roster) waitUntilSettled(ctx context.Context, s *slot) error {
	if s.settled == nil {
		s.settled = make(chan struct{})
	}
	settled := s.settled
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return late.Cause(ctx)
	}
}

// releaseWaiters lets those go on who wait for what the actor finds. The caller holds the lock.
func (s *slot) releaseWaiters() {
	if s.settled != nil {
		close(s.settled)
		s.settled = nil
	}
}

// waitUntilFree waits until a run may have an actor. The caller holds the lock, which others get
// meanwhile.
//
// Several may wait for the same run; each looks again when it has the lock back.
func (r *Roster) waitUntilFree(ctx context.Context, id workflow.RunID) error {
	for blocked := r.blocked[id]; blocked != nil && !r.closed; blocked = r.blocked[id] {
		r.mu.Unlock()
		select {
		case <-blocked:
			r.mu.Lock()
		case <-ctx.Done():
			r.mu.Lock()
			return late.Cause(ctx)
		}
	}
	if r.closed {
		return r.o.Closed
	}
	return nil
}

// NoteStatus notes what the actor of a run has committed last; RunCreated if nobody knows what that is.
func (r *Roster) NoteStatus(id workflow.RunID, status workflow.RunStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[id]; s != nil {
		s.noteStatus(status)
	}
}

func (s *slot) noteStatus(status workflow.RunStatus) {
	if status != workflow.RunCreated {
		s.found = true
		s.releaseWaiters()
	}
	s.goesOn = status != workflow.RunCreated && !status.Final()
}

// GoesOn reports whether a run has an actor that will tell of its end. If not, nobody knows but its row.
func (r *Roster) GoesOn(id workflow.RunID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slots[id]
	return s != nil && s.goesOn
}

// dropSlot forgets the actor of a run, and goes on counting the run if it has tasks out. The caller holds the lock.
func (r *Roster) dropSlot(id workflow.RunID) {
	s := r.slots[id]
	s.releaseWaiters()
	tenant, out := s.tenant, s.goesOn && !s.onlyWaits()
	r.setWaits(s, false)
	r.setTenant(s, "")
	delete(r.slots, id)
	if out {
		r.countAway(id, tenant)
	}
}

// Hold returns the actor of a run, which it keeps from leaving until release; nil if the
// run has none.
func (r *Roster) Hold(id workflow.RunID) *actor.Actor {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slots[id]
	if s == nil {
		return nil
	}
	s.held++
	return s.actor
}

// Reserve waits until a run has no actor and keeps it from getting one until
// release is called.
//
// Purge does so before it forgets a run: no actor may have it in memory, and none may load it
// half forgotten. It waits for an actor to end by itself, which an idle one soon does.
func (r *Roster) Reserve(ctx context.Context, id workflow.RunID) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.slots[id] != nil || r.blocked[id] != nil {
		s := r.slots[id]
		var free <-chan struct{} = r.blocked[id]
		if s != nil {
			free = s.actor.Done()
		}
		r.mu.Unlock()
		select {
		case <-free:
			r.mu.Lock()
			if s != nil && r.slots[id] == s {
				r.dropSlot(id) // it ended of itself
			}
		case <-ctx.Done():
			r.mu.Lock()
			return nil, late.Cause(ctx)
		}
	}
	return r.addBlock(id), nil
}

// TryReserve is Reserve for a caller who does not wait: it returns nil if the run has an actor, or is reserved.
func (r *Roster) TryReserve(id workflow.RunID) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots[id] != nil || r.blocked[id] != nil {
		return nil
	}
	return r.addBlock(id)
}

// Release undoes Acquire.
//
// An actor that was refused its end, and that nobody holds any more, is nudged, so that it looks
// again whether it may go. Others are left alone: a nudge wakes a goroutine, and there is a release
// with every message.
func (r *Roster) Release(a *actor.Actor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[a.ID]; s != nil && s.actor == a {
		if s.held--; s.held == 0 && s.stays {
			s.stays = false
			a.Nudge()
		}
	}
}

// Block keeps a run from getting an actor, and whoever asks for the one that it has waiting,
// until release is called. It waits until nobody else does so, and fails with Options.Closed.
//
// The actor that a run has goes on; only nobody new gets it. A fork blocks the id of the run
// that it makes, until that is committed. An actor that has found no run would not see that one: Block waits until it has left, or
// has begun a run itself.
func (r *Roster) Block(ctx context.Context, id workflow.RunID) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.waitUntilFree(ctx, id); err != nil {
		return nil, err
	}
	release = r.addBlock(id)
	for s := r.slots[id]; s != nil && !s.found; s = r.slots[id] {
		if err := r.waitUntilSettled(ctx, s); err != nil {
			r.removeBlock(id)
			return nil, err
		}
	}
	return release, nil
}

// addBlock keeps a run from getting an actor until release is called. The caller holds the lock.
func (r *Roster) addBlock(id workflow.RunID) (release func()) {
	r.blocked[id] = make(chan struct{})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.removeBlock(id)
	}
}

// removeBlock undoes addBlock. The caller holds the lock.
func (r *Roster) removeBlock(id workflow.RunID) {
	close(r.blocked[id])
	delete(r.blocked, id)
}

// LetGo forgets an idle actor, unless somebody holds it, and reports whether it
// may end.
//
// It is called by the actor itself. Under the lock nobody can get the actor between the
// question whether it is idle and its being forgotten.
func (r *Roster) LetGo(a *actor.Actor) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slots[a.ID]
	if s == nil || s.actor != a {
		return true
	}
	if s.held > 0 {
		s.stays = true
		return false
	}
	if !a.Idle() {
		return false // what waits is its next turn, after which it asks again
	}
	r.dropSlot(a.ID)
	return true
}

// Go runs an actor in a goroutine of its own, for which Wait waits.
func (r *Roster) Go(run func()) { r.group.Go(run) }

// Ended forgets an actor that has ended of itself.
//
// It may have been replaced already, by whoever found it stopped: then the slot is another's,
// and stays.
func (r *Roster) Ended(a *actor.Actor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[a.ID]; s != nil && s.actor == a {
		r.dropSlot(a.ID)
	}
}

// Has reports whether a run has an actor.
func (r *Roster) Has(id workflow.RunID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[id] != nil
}

// Count returns how many runs have one.
func (r *Roster) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.slots)
}

// IDs returns the runs that have one, sorted.
func (r *Roster) IDs() []workflow.RunID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.slots))
}

// Refuse makes Acquire fail from now on.
//
// Close calls it before it waits for actors: none is added behind its back.
func (r *Roster) Refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Wait returns when every actor has ended.
func (r *Roster) Wait() { r.group.Wait() }
