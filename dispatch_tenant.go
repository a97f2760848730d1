package pawl

import (
	"cmp"
	"slices"

	"github.com/pawl-run/pawl/internal/heap"
)

// A queuedTenant is what the queue of tasks knows of a tenant.
//
// It is there while it has runs in the queue or tasks that run. Its turn in the queue as a
// whole decides which lane is first, its turn in a lane which tenant is first there; both grow
// by takeTurn.
type queuedTenant struct {
	id      string
	limit   TenantLimit
	lanes   []*laneTenant // with tasks of it
	runs    int           // that the queue knows
	ready   int           // of these, those that are ready
	running int           // tasks that the executor has, and with limit.Pending those whose results come later
	turn    int64         // in the queue as a whole, while it may begin a task
	runTurn int64         // of its run whose task was taken last
	may     bool          // it may begin a task: it has a ready run, and fewer tasks run than its limit
}

// A laneTenant has the runs of one tenant in one lane.
type laneTenant struct {
	tenant  *queuedTenant
	lane    *lane
	members int                 // runs with tasks here, those that are backpressured as well
	runs    heap.Heap[*laneRun] // of the others
	runTurn int64               // of the run whose task was taken last
	turn    int64               // in the lane, while it may begin a task here
	place   heap.Place          // in the lane's heap of tenants
	age     heap.Place          // in the lane's heap of the same tenants by their turns in the queue as a whole
}

// isFull says that as many tasks of the tenant run as may.
//
// A limit of zero is none.
func (n *queuedTenant) isFull() bool {
	return n.limit.Concurrency > 0 && n.running >= n.limit.Concurrency
}

// isShared says that turns of tenants, or their limits, matter to the order of lanes.
//
// With one tenant and no limits the lanes of other runs keep their order when a run changes;
// then only the lanes of that run are moved, which keeps the common case cheap.
func (q *taskQueue) isShared() bool { return len(q.tenants) > 1 || len(q.limits) > 0 }

// tenantOf returns what the queue knows of a tenant, made if it knows nothing.
func (q *taskQueue) tenantOf(id string) *queuedTenant {
	n := q.tenants[id]
	if n == nil {
		n = &queuedTenant{id: id, limit: tenantLimitOf(q.limits, id)}
		q.tenants[id] = n
	}
	return n
}

// tenantInLane returns what a tenant has in a lane, made if it has nothing there.
func (q *taskQueue) tenantInLane(n *queuedTenant, l *lane) *laneTenant {
	for _, lt := range n.lanes {
		if lt.lane == l {
			return lt
		}
	}
	lt := q.spareTenants.takeSpare()
	if lt.tenant, lt.lane = n, l; lt.runs.IsZero() {
		lt.runs = heap.New((*laneRun).startsBefore, func(r *laneRun) *heap.Place { return &r.place })
	}
	n.lanes = append(n.lanes, lt)
	return lt
}

// placeTenant puts a tenant that has changed where it belongs in each of its lanes, as placeRun
// does with a run, and these lanes where they belong; where turns of tenants do not matter,
// the lanes of the run that has changed. One that comes to have tasks gets the next turn.
func (q *taskQueue) placeTenant(n *queuedTenant, r *queuedRun) {
	was := n.may
	n.may = n.ready > 0 && !n.isFull()
	if n.may && !was {
		n.turn = q.turn + 1
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
// A tenant that comes into a lane gets the next turn there: having had no tasks for a while is
// no reason to go first for long.
func (q *taskQueue) placeInLane(lt *laneTenant) {
	if lt.tenant.may && lt.runs.Len() > 0 {
		if !lt.place.In() {
			lt.turn = lt.lane.turn + 1
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
func (q *taskQueue) forgetUnused(n *queuedTenant) {
	n.lanes = slices.DeleteFunc(n.lanes, func(lt *laneTenant) bool {
		if lt.members > 0 {
			return false
		}
		q.spareTenants.addSpare(lt, laneTenant{runs: lt.runs.Reuse()})
		return true
	})
	if n.runs == 0 && n.running == 0 {
		delete(q.tenants, n.id)
	}
}

// taskReturned notes that the executor has a task no longer.
//
// The type's limit is free at once. The tenant's is not if the limit counts pending results and
// the result comes later: then releaseTenant is called when the attempt is over.
func (q *taskQueue) taskReturned(t *outTask) {
	l := q.laneOf(t.Task)
	l.running--
	q.placeLane(l)
	if !t.pending || !q.tenantOf(t.Tenant).limit.Pending {
		q.releaseTenant(t)
	}
}

// releaseTenant lets a task count for its tenant no longer, if it does.
//
// counted makes sure that a task is taken off once, whoever comes first.
func (q *taskQueue) releaseTenant(t *outTask) {
	if !t.counted {
		return
	}
	t.counted = false
	n := q.tenantOf(t.Tenant)
	n.running--
	if len(q.limits) > 0 {
		q.placeTenant(n, nil)
	}
	q.forgetUnused(n)
}

// startsBefore orders the tenants that may begin a task in a lane: by their turn there, then as their
// first runs.
func (lt *laneTenant) startsBefore(other *laneTenant) bool {
	a, b := lt.runs.First(), other.runs.First()
	if lt.turn != other.turn {
		return lt.turn < other.turn
	}
	return cmp.Compare(a.tasks.First().order, b.tasks.First().order) < 0
}

// waitsLonger orders tenants by their turns in the queue as a whole.
func (lt *laneTenant) waitsLonger(other *laneTenant) bool {
	return cmp.Or(cmp.Compare(lt.tenant.turn, other.tenant.turn), cmp.Compare(lt.tenant.id, other.tenant.id)) < 0
}
