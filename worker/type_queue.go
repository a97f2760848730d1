package worker

import (
	"container/list"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/rate"
)

// An item is a task that the queue knows: it waits in the queue of its type, or a worker
// holds it.
// holder is nil exactly while the item waits; then until is zero and it is in no heap of leases.
type item struct {
	task  pawl.Task
	known bool      // the engine has dispatched it; a claim before that has only a key
	owner int64     // which call of Execute it is from
	since time.Time // in the queue, or held

	place heap.Place // among those of its tenant in the queue of its type

	holder    *workerState // the worker that holds it; nil if it waits
	until     time.Time    // the end of the lease; zero if it does not run out
	lease     heap.Place   // among the leases
	closing   bool         // its result is being committed: the lease is suspended
	withdrawn bool         // the engine let go of it; its holder does not know yet
}

// startsBefore says which of two tasks of a tenant is handed out first.
// A lower priority is first; among equal ones, the order in which the engine dispatched them. That
// order is kept by a task that comes back, which is why it is handed out before all that came later.
func (i *item) startsBefore(j *item) bool {
	if i.task.Priority != j.task.Priority {
		return i.task.Priority < j.task.Priority
	}
	return i.task.Order < j.task.Order
}

// A typeQueue holds the tasks of one type that wait, and the workers that wait for one.
// Tenants take turns at it (round robin: Nagle, RFC 970, 1985), whatever they have at other
// types. Between types, the one is next in which the tenant waits whose last turn, at whatever
// type, was the longest ago: who has tasks of many types gets little more than who
// has some of one, and no tenant waits for more than one task of each type of another.
type typeQueue struct {
	kind    string
	queued  int                     // tasks that wait
	turns   list.List               // of *tenantItems: those that may be handed out, the next one first
	tenants heap.Heap[*tenantItems] // the same, by their last turn at any type
	waiting list.List               // of *workerState; workers that take every type wait in queue.anyType
	held    int                     // tasks of this type that workers hold
	limit   pawl.TypeLimit
	rate    rate.Bucket
	place   heap.Place // in queue.ready
}

// newTypeQueue returns an empty queue of a type. A limit of zeros is no limit.
func newTypeQueue(kind string, limit pawl.TypeLimit) *typeQueue {
	return &typeQueue{
		kind: kind, limit: limit, rate: rate.NewBucket(limit.Rate, limit.Burst),
		tenants: heap.New((*tenantItems).startsBefore, func(w *tenantItems) *heap.Place { return &w.place }),
	}
}

// firstItem returns the task that is next: the first of the tenant that has the turn. There must
// be one.
func (l *typeQueue) firstItem() *item { return l.turns.Front().Value.(*tenantItems).items.First() }

// startsBefore says which of two types a worker that takes both is handed a task of: by the
// tenants that have waited longest, or by the tasks of one tenant.
func (l *typeQueue) startsBefore(other *typeQueue) bool {
	a, b := l.tenants.First(), other.tenants.First()
	if a.tenant != b.tenant {
		return a.startsBefore(b)
	}
	return a.items.First().startsBefore(b.items.First())
}

// nextHandout returns when the rate of the type allows its next task to be handed out,
// and false if no task waits, or only those of full tenants, or the type's bound of held tasks is
// reached.
func (l *typeQueue) nextHandout() (time.Time, bool) {
	if l.turns.Len() == 0 || l.limit.Concurrency > 0 && l.held >= l.limit.Concurrency {
		return time.Time{}, false
	}
	return l.rate.NextEvent(), true
}

// isUnused reports whether nothing is lost when the type queue is forgotten.
func (l *typeQueue) isUnused() bool {
	return l.queued == 0 && l.waiting.Len() == 0 && l.held == 0 && l.rate.IsUnused()
}
