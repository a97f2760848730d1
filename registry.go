package pawl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/workflow"
)

// A registry knows the actor of every active run. A run has one at most: who
// asks for a run that has none starts it, and an idle actor is let go only when
// nobody holds it.
//
// The mutex is what makes it one: acquireActor, letActorGo and actorEnded decide under it. An
// actor that is idle asks letActorGo before it ends; if somebody has got hold of it in between
// it stays, and takes the message. Whoever acquires an actor releases it, so that held says how
// many may still send.
type registry struct {
	most   int                    // runs that may be active at once
	limits map[string]TenantLimit // by tenant
	bytes  func(tenant string) int64
	group  sync.WaitGroup

	mu sync.Mutex
	// A slot is there from when the actor starts until it has been let go or has ended; a run
	// in blocked may have none, or have one that nobody gets.
	slots   map[workflow.RunID]*slot
	blocked map[workflow.RunID]chan struct{} // runs that may have no actor; the channel is closed when they may again
	active  map[string]int                   // runs by tenant, if there are limits
	closed  bool
}

// A slot is the place of one active run.
type slot struct {
	actor  *actor.Actor
	held   int    // callers that may send to it
	stays  bool   // it was refused its end, because somebody held it, and asks no more unless it is nudged
	tenant string // of the run; "" until it is loaded
	goesOn bool   // the actor has committed last that the run has begun and not ended
}

// newRegistry returns a registry of at most so many runs. bytes tells how many bytes those of a tenant take.
func newRegistry(most int, limits map[string]TenantLimit, bytes func(tenant string) int64) *registry {
	return &registry{most: most, limits: limits, bytes: bytes, active: map[string]int{}, slots: map[workflow.RunID]*slot{}, blocked: map[workflow.RunID]chan struct{}{}}
}

// acquireActor returns the actor of a run, started by start if it has none, and keeps
// it from leaving until release. It waits while the run may have no actor, but not
// longer than ctx. b is the run to be started; nil if it was before.
//
// The room is checked only for a run that is to be started; one that goes on has been let in
// before.
func (r *registry) acquireActor(ctx context.Context, id workflow.RunID, b *birth, start func() *actor.Actor) (*actor.Actor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.waitUntilFree(ctx, id); err != nil {
		return nil, err
	}
	s := r.slots[id]
	if s == nil {
		if err := r.checkRoom(b); err != nil {
			return nil, err
		}
		s = &slot{actor: start()}
		r.slots[id] = s
		if b != nil {
			r.countSlot(s, b.tenant)
		}
	}
	s.held++
	return s.actor, nil
}

// waitUntilFree waits until a run may have an actor. The caller holds the lock, which others get
// meanwhile.
//
// Several may wait for the same run; each looks again when it has the lock back.
func (r *registry) waitUntilFree(ctx context.Context, id workflow.RunID) error {
	for blocked := r.blocked[id]; blocked != nil && !r.closed; blocked = r.blocked[id] {
		r.mu.Unlock()
		select {
		case <-blocked:
			r.mu.Lock()
		case <-ctx.Done():
			r.mu.Lock()
			return context.Cause(ctx)
		}
	}
	if r.closed {
		return ErrClosed
	}
	return nil
}

// checkRoom returns ErrBusy if a run that is no child may not be started now. The caller holds
// the lock.
func (r *registry) checkRoom(b *birth) error {
	if b == nil || b.parent != nil {
		return nil
	}
	if len(r.slots) >= r.most {
		return fmt.Errorf("%w: %d runs are active", ErrBusy, len(r.slots))
	}
	limit := tenantLimitOf(r.limits, b.tenant)
	if n := r.active[b.tenant]; limit.Active > 0 && n >= limit.Active {
		return &TenantBusyError{Tenant: b.tenant, Active: n, Max: limit.Active}
	}
	// Counting bytes costs a look into the index, and is done last.
	if limit.Bytes == 0 {
		return nil
	}
	if n := r.bytes(b.tenant); n >= limit.Bytes {
		return &TenantFullError{Tenant: b.tenant, Bytes: n, Max: limit.Bytes}
	}
	return nil
}

// checkRoomFor returns ErrBusy if no further run of a tenant may be active now.
//
// It is asked by calls that make runs without an actor, before they do their work.
func (r *registry) checkRoomFor(tenant string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checkRoom(&birth{tenant: tenant})
}

// countSlot counts a slot as one of a tenant. The caller holds the lock.
func (r *registry) countSlot(s *slot, tenant string) {
	if len(r.limits) == 0 {
		return
	}
	r.uncountSlot(s)
	s.tenant = tenant
	if tenant != "" {
		r.active[tenant]++
	}
}

// uncountSlot undoes countSlot.
func (r *registry) uncountSlot(s *slot) {
	if s.tenant == "" {
		return
	}
	if r.active[s.tenant]--; r.active[s.tenant] == 0 {
		delete(r.active, s.tenant)
	}
	s.tenant = ""
}

// noteTenant counts an active run as one of its tenant, which is known when it is loaded.
func (r *registry) noteTenant(id workflow.RunID, tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[id]; s != nil {
		r.countSlot(s, tenant)
	}
}

// noteStatus notes what the actor of a run has committed last; RunCreated if nobody knows what that is.
func (r *registry) noteStatus(id workflow.RunID, status workflow.RunStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[id]; s != nil {
		s.goesOn = status != workflow.RunCreated && !status.Final()
	}
}

// goesOn reports whether a run has an actor that will tell of its end. If not, nobody knows but its row.
func (r *registry) goesOn(id workflow.RunID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slots[id]
	return s != nil && s.goesOn
}

// dropSlot forgets the actor of a run. The caller holds the lock.
func (r *registry) dropSlot(id workflow.RunID) {
	r.uncountSlot(r.slots[id])
	delete(r.slots, id)
}

// holdActor returns the actor of a run, which it keeps from leaving until release; nil if the
// run has none.
func (r *registry) holdActor(id workflow.RunID) *actor.Actor {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slots[id]
	if s == nil {
		return nil
	}
	s.held++
	return s.actor
}

// reserveRun waits until a run has no actor and keeps it from getting one until
// release is called.
//
// Purge does so before it forgets a run: no actor may have it in memory, and none may load it
// half forgotten. It waits for an actor to end by itself, which an idle one soon does.
func (r *registry) reserveRun(ctx context.Context, id workflow.RunID) (release func(), err error) {
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
			return nil, context.Cause(ctx)
		}
	}
	return r.addBlock(id), nil
}

// tryReserve is reserveRun for who does not wait: it returns nil if the run has an actor, or is reserved.
func (r *registry) tryReserve(id workflow.RunID) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots[id] != nil || r.blocked[id] != nil {
		return nil
	}
	return r.addBlock(id)
}

// releaseActor undoes acquireActor.
//
// An actor that was refused its end, and that nobody holds any more, is nudged, so that it looks
// again whether it may go. Others are left alone: a nudge wakes a goroutine, and there is a release
// with every message.
func (r *registry) releaseActor(a *actor.Actor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[a.ID]; s != nil && s.actor == a {
		if s.held--; s.held == 0 && s.stays {
			s.stays = false
			a.Nudge()
		}
	}
}

// blockRun keeps a run from getting an actor, and whoever asks for the one that it has waiting,
// until release is called. It waits until nobody else does so, and fails with ErrClosed.
//
// The actor that a run has goes on; only nobody new gets it. A fork blocks the id of the run
// that it makes, until that is committed.
func (r *registry) blockRun(ctx context.Context, id workflow.RunID) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.waitUntilFree(ctx, id); err != nil {
		return nil, err
	}
	return r.addBlock(id), nil
}

// addBlock keeps a run from getting an actor until release is called. The caller holds the lock.
func (r *registry) addBlock(id workflow.RunID) (release func()) {
	blocked := make(chan struct{})
	r.blocked[id] = blocked
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.blocked, id)
		close(blocked)
	}
}

// letActorGo forgets an idle actor, unless somebody holds it, and reports whether it
// may end.
//
// It is called by the actor itself. Under the lock nobody can get the actor between the
// question whether it is idle and its being forgotten.
func (r *registry) letActorGo(a *actor.Actor) bool {
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

// actorEnded forgets an actor that has ended of itself.
//
// It may have been replaced already, by whoever found it stopped: then the slot is another's,
// and stays.
func (r *registry) actorEnded(a *actor.Actor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[a.ID]; s != nil && s.actor == a {
		r.dropSlot(a.ID)
	}
}

// hasActor reports whether a run has an actor.
func (r *registry) hasActor(id workflow.RunID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[id] != nil
}

// countActors returns how many runs have one.
func (r *registry) countActors() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.slots)
}

// actorIDs returns the runs that have one, sorted.
func (r *registry) actorIDs() []workflow.RunID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.slots))
}

// countActive returns how many runs are active.
func (r *registry) countActive() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.slots)
}

// refuseActors makes acquireActor fail from now on.
//
// Close calls it before it waits for actors: none is added behind its back.
func (r *registry) refuseActors() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// waitForActors returns when every actor has ended.
func (r *registry) waitForActors() { r.group.Wait() }
