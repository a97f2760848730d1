package taskqueue

import (
	"iter"
	"slices"

	"github.com/pawl-run/pawl/internal/heap"
)

// A tenant is what the queue knows of a tenant.
//
// It is there while it has runs in the queue or entries that are out. Its turn in the queue as a
// whole decides which lane is first, its turn in a lane which tenant is first there. A tenant that comes back is
// the last one.
type tenant[T any] struct {
	id      string
	bound   int              // how many of its entries may be out; 0 is no bound
	lanes   []*laneTenant[T] // with entries of it
	runs    int              // that the queue knows
	ready   int              // of these, those that are ready
	out     int              // entries that are out
	turn    int64            // in the queue as a whole, while it may go on
	runTurn int64            // of its run whose entry was taken last
	may     bool             // it may go on: it has a ready run, and fewer entries are out than its bound
}

// A laneTenant has the runs of one tenant in one lane.
type laneTenant[T any] struct {
	tenant  *tenant[T]
	lane    *Lane[T]
	members int                    // runs with entries here, those that are backpressured as well
	runs    heap.Heap[*laneRun[T]] // of the others
	runTurn int64                  // of the run whose entry was taken last
	turn    int64                  // in the lane, while it may go on here
	place   heap.Place             // in the lane's heap of tenants
	age     heap.Place             // in the lane's heap of the same tenants by their turns in the queue as a whole
}

// isFull says that as many entries of the tenant are out as may be.
func (n *tenant[T]) isFull() bool { return n.bound > 0 && n.out >= n.bound }

// isShared says that turns of tenants, or their bounds, matter to the order of lanes.
//
// With one tenant and no bounds the lanes of other runs keep their order when a run changes;
// then only the lanes of that run are moved, which keeps the common case cheap.
func (q *Queue[T]) isShared() bool { return len(q.tenants) > 1 || q.bounded }

// tenantOf returns what the queue knows of the tenant of an entry, made if it knows nothing.
func (q *Queue[T]) tenantOf(e *Entry[T]) *tenant[T] {
	n := q.tenants[e.Tenant]
	if n == nil {
		n = &tenant[T]{id: e.Tenant}
		q.boundTenant(n, e.Bound)
		q.tenants[e.Tenant] = n
	}
	return n
}

// boundTenant sets how many entries of a tenant may be out.
func (q *Queue[T]) boundTenant(n *tenant[T], bound int) {
	n.bound = bound
	q.bounded = q.bounded || bound > 0
}

// tenantInLane returns what a tenant has in a lane, made if it has nothing there.
func (q *Queue[T]) tenantInLane(n *tenant[T], l *Lane[T]) *laneTenant[T] {
	for _, lt := range n.lanes {
		if lt.lane == l {
			return lt
		}
	}
	lt := q.spareTenants.takeSpare()
	if lt.tenant, lt.lane = n, l; lt.runs.IsZero() {
		lt.runs = heap.New((*laneRun[T]).startsBefore, func(r *laneRun[T]) *heap.Place { return &r.place })
	}
	n.lanes = append(n.lanes, lt)
	return lt
}

// placeTenant puts a tenant that has changed where it belongs in each of its lanes, as placeRun
// does with a run, and these lanes where they belong; where turns of tenants do not matter,
// the lanes of the run that has changed. A tenant that comes to have entries that may go is the last.
func (q *Queue[T]) placeTenant(n *tenant[T], r *run[T]) {
	was := n.may
	n.may = n.ready > 0 && !n.isFull()
	if n.may && !was {
		n.turn = q.nextTurn()
	}
	if r == nil || q.isShared() {
		for _, lt := range n.lanes {
			q.placeInLane(lt)
		}
		return
	}
	for _, lr := range r.lanes {
		q.placeInLane(lr.in)
	}
}

// placeInLane puts a tenant into the heap of a lane, or out of it, and the lane where it belongs.
//
// A tenant that comes into a lane is the last one there: having had no entries for a while is
// no reason to go first for long.
func (q *Queue[T]) placeInLane(lt *laneTenant[T]) {
	if lt.tenant.may && lt.runs.Len() > 0 {
		if !lt.place.In() {
			lt.turn = q.nextTurn()
		}
		lt.lane.tenants.Put(lt)
		lt.lane.oldest.Put(lt)
	} else {
		lt.lane.tenants.Remove(lt)
		lt.lane.oldest.Remove(lt)
	}
	q.placeLane(lt.lane)
}

// forgetUnused drops the lanes in which a tenant has nothing, and a tenant that has nothing at all.
func (q *Queue[T]) forgetUnused(n *tenant[T]) {
	n.lanes = slices.DeleteFunc(n.lanes, func(lt *laneTenant[T]) bool {
		if lt.members > 0 {
			return false
		}
		q.spareTenants.addSpare(lt, laneTenant[T]{runs: lt.runs.Reuse()})
		return true
	})
	if n.runs == 0 && n.out == 0 {
		delete(q.tenants, n.id)
	}
}

// ReleaseTenant lets an entry that is out count for its tenant no longer, if it does.
func (q *Queue[T]) ReleaseTenant(e *Entry[T]) {
	n := e.of
	if n == nil {
		return
	}
	e.of = nil
	n.out--
	if q.bounded {
		q.placeTenant(n, nil)
	}
	q.forgetUnused(n)
}

// startsBefore orders the tenants that may go on in a lane, by their turns there.
func (lt *laneTenant[T]) startsBefore(other *laneTenant[T]) bool { return lt.turn < other.turn }

// waitsLonger orders tenants by their turns in the queue as a whole.
func (lt *laneTenant[T]) waitsLonger(other *laneTenant[T]) bool {
	return lt.tenant.turn < other.tenant.turn
}

// Tenants yields, in any order, the tenants that have entries here or out.
func (q *Queue[T]) Tenants() iter.Seq[TenantCount] {
	return func(yield func(TenantCount) bool) {
		for _, n := range q.tenants {
			if !yield(TenantCount{n.id, n.out, n.bound, n.turn}) {
				return
			}
		}
	}
}

// A TenantCount says how many entries of a tenant are out, of how many that may be, 0 without a bound. The tenant
// with the lowest Turn is the next.
type TenantCount struct {
	Tenant     string
	Out, Bound int
	Turn       int64
}
