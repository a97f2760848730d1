package roster

import (
	"maps"

	"github.com/pawl-run/pawl/workflow"
)

// Runs that only wait, for an event, an instant, a child or a person, have an actor for a while in case that something comes. They
// are not active for the bounds, and take no memory from others: at Options.Most the actor of one of them is asked to leave for each
// run that is to be started, the one first that waits for longest. That costs a start nothing but a signal; the actor leaves by itself,
// as it would when it has been idle for long enough, and stays if a message has come before.
//
// A run with tasks that are queued, running or pending is active, whether or not it has an actor: an actor that has been idle for long
// enough leaves the memory while a handler works for hours. Such runs are away. Each of them has a task at least in the dispatcher,
// which takes more memory. A run that is made without an actor, as forks are, is away until it gets one.

const (
	// maxLeaving bounds how many actors are about to leave, and by how much there may be more than Options.Most. Each
	// writes the file of its run first.
	maxLeaving = 256
	// maxHeld bounds how many actors that somebody holds are passed over by one start.
	maxHeld = 16
)

// checkRoom returns an error if a run that is no child may not be started now. The caller holds
// the lock.
func (r *Roster) checkRoom(b *Newcomer) error {
	if b == nil || b.Child {
		return nil
	}
	return r.o.Room(b.Tenant, r.countBusy(), r.active[b.Tenant])
}

// makeRoom is checkRoom for a run that is started at once: if there are as many actors as may be, one of a run that only waits is
// to leave. The caller holds the lock.
func (r *Roster) makeRoom(b *Newcomer) error {
	if err := r.checkRoom(b); err != nil {
		return err
	}
	if b == nil || b.Child || r.o.Most == 0 || len(r.slots)-r.leaving < r.o.Most || r.sendAway() {
		return nil
	}
	// As many leave as may, or others hold those that wait.
	return r.o.Room(b.Tenant, len(r.slots), r.active[b.Tenant])
}

// sendAway asks the actor to leave whose run waits for longest and that nobody holds, and reports whether there was one. The caller
// holds the lock.
func (r *Roster) sendAway() bool {
	if r.leaving >= maxLeaving {
		return false
	}
	for range min(r.waiting.Len(), maxHeld) {
		first := r.waiting.Front()
		s := first.Value.(*slot) //nolint:forcetypeassert // it has nothing else
		if s.held > 0 {
			r.waiting.MoveToBack(first)
			continue
		}
		r.waiting.Remove(first)
		s.waits, s.leaves = nil, true
		r.leaving++
		s.actor.Dismiss(true)
		return true
	}
	return false
}

// ReservePlace counts a run that is about to be made without an actor as one that is away, so that others do not get its room before its
// actor comes, and makes room as for a run that is started. It fails if no further run of the tenant may be active now. The caller blocks
// the run, and calls release if it is not made.
func (r *Roster) ReservePlace(id workflow.RunID, tenant string) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.makeRoom(&Newcomer{Tenant: tenant}); err != nil {
		return nil, err
	}
	if _, away := r.away[id]; away || r.slots[id] != nil {
		return func() {}, nil // it counts, and is not made
	}
	if !r.o.ByTenant {
		tenant = ""
	}
	r.countAway(id, tenant)
	return func() { r.Forget(id) }, nil
}

// setTenant counts a slot as one of a tenant; "" for none. The caller holds the lock.
func (r *Roster) setTenant(s *slot, tenant string) {
	if !r.o.ByTenant {
		return
	}
	if !s.onlyWaits() {
		r.countTenant(s.tenant, -1)
		r.countTenant(tenant, 1)
	}
	s.tenant = tenant
}

// countTenant adds d to the active runs of a tenant.
func (r *Roster) countTenant(tenant string, d int) {
	if tenant == "" {
		return
	}
	if r.active[tenant] += d; r.active[tenant] == 0 {
		delete(r.active, tenant)
	}
}

// onlyWaits reports whether the run of a slot does nothing but wait.
func (s *slot) onlyWaits() bool { return s.waits != nil || s.leaves }

// setWaits notes whether the run of a slot only waits. An actor that was to leave stays if its run goes on. The caller holds the lock.
func (r *Roster) setWaits(s *slot, waits bool) {
	switch {
	case waits && s.leaves:
	case waits && s.waits != nil:
		r.waiting.MoveToBack(s.waits)
	case waits:
		s.waits = r.waiting.PushBack(s)
		r.countTenant(s.tenant, -1)
	case s.onlyWaits():
		if s.leaves {
			s.leaves = false
			r.leaving--
			s.actor.Dismiss(false)
		} else {
			r.waiting.Remove(s.waits)
			s.waits = nil
		}
		r.countTenant(s.tenant, 1)
	}
}

// countAway counts a run that has no actor. The caller holds the lock.
func (r *Roster) countAway(id workflow.RunID, tenant string) {
	r.away[id] = tenant
	r.countTenant(tenant, 1)
}

// forgetAway counts a run no more that has no actor, if it was counted. The caller holds the lock.
func (r *Roster) forgetAway(id workflow.RunID) {
	if tenant, away := r.away[id]; away {
		delete(r.away, id)
		r.countTenant(tenant, -1)
	}
}

// Forget forgets a run without an actor, which was purged, was not made, or is not there.
func (r *Roster) Forget(id workflow.RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetAway(id)
}

// CountByTenant returns how many runs of each tenant are active and do not only wait; nothing unless Options.ByTenant is set.
func (r *Roster) CountByTenant() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.active)
}

// CountBusy returns how many runs are active and do not only wait.
func (r *Roster) CountBusy() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.countBusy()
}

func (r *Roster) countBusy() int { return len(r.slots) - r.waiting.Len() - r.leaving + len(r.away) }

// NoteLoaded notes the status of a run that its actor has read, and counts the run as one of its tenant.
func (r *Roster) NoteLoaded(id workflow.RunID, tenant string, status workflow.RunStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[id]; s != nil {
		s.noteStatus(status)
		r.setTenant(s, tenant)
	}
}

// NoteWaits notes whether an active run only waits, in a turn of its actor.
func (r *Roster) NoteWaits(id workflow.RunID, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[id]; s != nil {
		r.setWaits(s, waits)
	}
}
