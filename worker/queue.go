package worker

import (
	"container/list"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/heap"
)

// A queue is the coordinator's state: tasks that wait, workers, and leases. It has
// no lock, no goroutine and no clock: the caller passes the time, which must not
// go back, and takes the tasks that were handed out from out, and the keys of those
// that were let go from freed. After every method no task waits that a waiting worker
// could take.
//
// An item is in items from addTask or claimKey until it is completed or withdrawn and nobody holds it.
// If it has no holder it is in the heap of its tenant and type; if a worker that can expire holds it,
// and no completion is under way, it is in leases. A type queue is in ready, in paced or in neither,
// as refreshReady says. The counters processed, failed and expired only grow.
type queue struct {
	lease   time.Duration             // of a task
	expiry  time.Duration             // of a worker without contact
	limits  map[string]pawl.TypeLimit // by type; "*" for those without one of their own
	limitOf func(pawl.Task) int       // how many tasks of its tenant workers may hold; 0 is no bound

	items   map[pawl.Key]*item
	types   map[string]*typeQueue
	tenants map[string]*tenantState
	limited bool                    // a tenant has had a limit
	ready   heap.Heap[*typeQueue]   // those that may hand out a task now
	paced   map[*typeQueue]struct{} // those that wait for their rate
	leases  heap.Heap[*item]
	workers map[string]*workerState
	anyType list.List // of *workerState: those that wait and take every type
	seen    list.List // of *workerState: all of them, by kept
	turns   int64     // that workers and tenants have been given
	ended   completedKeys

	drained bool // nothing is handed out any more
	out     []assignment
	freed   []pawl.Key // that a worker has let go of

	unserved // types

	processed, failed, expired int64
}

// An assignment is a task that has been handed out.
// The worker holds the item already when the assignment is made; Pool.deliverTasks brings it there.
type assignment struct {
	worker *workerState
	item   *item
}

// newQueue returns an empty queue. limitOf is a field so that tests can give tenants limits without an
// engine.
func newQueue(lease, expiry time.Duration, limits map[string]pawl.TypeLimit) *queue {
	return &queue{
		lease: lease, expiry: expiry, limits: limits, limitOf: func(t pawl.Task) int { return t.TenantLimit().Concurrency },
		unserved: newUnserved(),
		items:    map[pawl.Key]*item{}, types: map[string]*typeQueue{}, tenants: map[string]*tenantState{}, paced: map[*typeQueue]struct{}{}, workers: map[string]*workerState{},
		ready: heap.New(
			(*typeQueue).startsBefore,
			func(l *typeQueue) *heap.Place { return &l.place },
		),
		leases: heap.New(
			func(a, b *item) bool { return a.until.Before(b.until) },
			func(i *item) *heap.Place { return &i.lease },
		),
	}
}

// addTask takes a task that the engine has dispatched. A key that is known keeps its
// holder; owner says which of several adds of a key the last one was.
//
// Three cases: the key is new, and waits; it waits already, from an earlier call, and is placed again,
// since its priority may have changed; or somebody holds it, by a claim or from a dispatch before, and
// keeps it. Since a claim knows no type and no tenant, the counts of held tasks move from the empty
// names to the right ones. A limit comes with each task: the last one counts.
func (q *queue) addTask(t pawl.Task, owner int64, now time.Time) {
	q.advanceTo(now)
	i := q.items[t.Key]
	if i == nil {
		i = &item{since: now}
		q.items[t.Key] = i
	}
	limit := q.limitOf(t)
	q.limited = q.limited || limit > 0
	i.owner, i.known, i.withdrawn = owner, true, false
	var queues []*typeQueue
	if i.holder != nil { // a claim, whose type and tenant were not known
		queues = q.changeTenant(i, now, func(w *tenantItems) { w.countHeld(-1) })
		i.task = t
		queues = append(queues, q.changeTenant(i, now, func(w *tenantItems) {
			w.tenant.limit = limit
			w.countHeld(1)
		})...)
	} else {
		i.task = t
		queues = q.changeTenant(i, now, func(w *tenantItems) {
			w.tenant.limit = limit
			w.putItem(i)
		})
	}
	q.handOut(now, queues)
}

// withdrawTask removes a task that is over. A worker that holds it keeps it until it is
// told; that worker is returned, nil if nobody holds the task.
//
// A holder keeps the task until it is told because its function still works on it, and its capacity is
// used by it. If owner is not that of the last addTask, the task was dispatched again meanwhile, and
// stays.
func (q *queue) withdrawTask(k pawl.Key, owner int64, now time.Time) *workerState {
	q.advanceTo(now)
	i := q.items[k]
	if i == nil || i.owner != owner {
		return nil
	}
	if i.holder != nil {
		i.withdrawn = true
		return i.holder
	}
	delete(q.items, k)
	q.handOut(now, q.changeTenant(i, now, func(w *tenantItems) { w.removeItem(i) }))
	return nil
}

// ensureType returns the queue of a type, made if it is missing. Types come from tasks and from
// registrations, so there is no list of them beforehand.
func (q *queue) ensureType(kind string) *typeQueue {
	l := q.types[kind]
	if l == nil {
		limit, ok := q.limits[kind]
		if !ok {
			limit = q.limits[every]
		}
		l = newTypeQueue(kind, limit)
		q.types[kind] = l
	}
	return l
}

// forgetUnused forgets a type queue that nobody needs.
//
// Types are texts of definitions and of workers: without this the map would grow for ever in an engine
// that is open for long.
func (q *queue) forgetUnused(l *typeQueue) {
	if l.isUnused() && q.types[l.kind] == l {
		delete(q.types, l.kind)
		delete(q.paced, l)
	}
}

// refreshReady puts a type queue among those that may hand out a task now, or among
// those that wait for their rate, or among neither.
//
// It must follow every change to what waits or is held of the type; changeTenant and advanceTo see to
// that.
func (q *queue) refreshReady(l *typeQueue, now time.Time) {
	q.noteServed(l, now)
	at, some := l.nextHandout()
	delete(q.paced, l)
	switch {
	case !some:
		q.ready.Remove(l)
	case at.After(now):
		q.ready.Remove(l)
		q.paced[l] = struct{}{}
	default:
		q.ready.Put(l)
	}
}

// handOut hands out the tasks of some type queues for which a worker waits, and then
// the tasks that some permanent workers can take. Every method that may have made a
// task or a worker free ends with it.
//
// Each turn takes the type that comes first by tenants and priorities among those that somebody waits
// for, and of the workers that wait for it the one that has waited longest. A remote worker gets one
// task this way and then has to ask again; its answer is on its way and can take no more. Permanent
// workers ask for nothing: whatever is free of their capacity is filled.
func (q *queue) handOut(now time.Time, queues []*typeQueue, workers ...*workerState) {
	for !q.drained {
		var first *typeQueue
		for _, l := range queues {
			if l.place.In() && (first == nil || l.startsBefore(first)) && q.longestWaiting(l) != nil {
				first = l
			}
		}
		if first == nil {
			break
		}
		s := q.longestWaiting(first)
		q.assignFirst(first, s, now)
		if !s.permanent {
			s.asks = 0 // what it asked for is on its way
		}
		q.stopWaiting(s)
		q.startWaiting(s)
	}
	for _, s := range workers {
		if s.permanent && q.workers[s.id] == s {
			q.serveWorker(s, now)
			q.startWaiting(s)
		}
	}
	for _, l := range queues {
		q.forgetUnused(l)
	}
}

// serveWorker hands a worker the tasks that it asks for, as far as there are any.
//
// It leaves the lists first, and the caller puts it back with startWaiting if it still asks: while it
// is served it must not be found by longestWaiting.
func (q *queue) serveWorker(s *workerState, now time.Time) {
	q.stopWaiting(s)
	if s.permanent {
		s.asks = s.freeCapacity()
	}
	s.asks = min(s.asks, s.freeCapacity())
	for s.asks > 0 && !q.drained {
		l := q.bestType(s)
		if l == nil {
			break
		}
		q.assignFirst(l, s, now)
	}
}

// assignFirst gives the first task of a type queue to a worker.
//
// The type queue must be ready. The event is counted before the item moves, for takeItem looks at the
// rate to decide whether the type is ready for another one.
func (q *queue) assignFirst(l *typeQueue, s *workerState, now time.Time) {
	i := l.firstItem()
	l.rate.CountEvent(now)
	q.takeItem(i, s, now)
	s.asks--
	q.out = append(q.out, assignment{s, i})
}

// takeItem makes a worker the holder of a task that waits.
//
// It is used for tasks that are handed out and for those that a worker claims; a turn of the tenant is
// spent by both. The lease begins here.
func (q *queue) takeItem(i *item, s *workerState, now time.Time) {
	q.changeTenant(i, now, func(w *tenantItems) {
		w.removeItem(i)
		w.countHeld(1)
		q.takeTurn(w)
	})
	i.holder, i.since = s, now
	s.held[i.task.Key] = i
	i.task.ReportWorker(s.id)
	q.renewLease(i, now)
}

// renewLease lets the lease of a held task begin again.
// The leases of permanent workers do not run out. An item that is in the heap finds its place again.
func (q *queue) renewLease(i *item, now time.Time) {
	if i.holder.permanent {
		return
	}
	i.until = now.Add(q.lease)
	q.leases.Put(i)
}

// freeItem takes a task from its holder and returns the type queues in which something may be
// handed out now. The task goes back to the head of those of its tenant, or is forgotten if it is
// over or was only claimed.
//
// Every way out of a worker's hands leads through it: result, lease, leave, withdrawal. It reports the
// key in freed, so that Drain and the turns of Once hear of it. A worker that is leaving and holds
// nothing more is forgotten with its last task. The caller has to call handOut with the queues that it
// returns.
func (q *queue) freeItem(i *item, requeue bool, now time.Time) []*typeQueue {
	s := i.holder
	delete(s.held, i.task.Key)
	q.freed = append(q.freed, i.task.Key)
	i.task.ReportWorker("")
	q.leases.Remove(i)
	i.holder, i.until, i.closing = nil, time.Time{}, false
	requeue = requeue && i.known && !i.withdrawn
	queues := q.changeTenant(i, now, func(w *tenantItems) {
		w.countHeld(-1)
		if requeue {
			w.putItem(i) // it keeps its order: it is before all that came later
		}
	})
	if requeue {
		i.since = now
	} else {
		delete(q.items, i.task.Key)
	}
	if s.leaving && len(s.held) == 0 {
		q.forgetWorker(s, now)
	}
	return queues
}

// advanceTo brings the queue to now: leases expire, workers without contact are
// forgotten, and type queues whose rate allows it hand out their next task.
//
// Every method that is given the time calls it first, so that nothing is decided on a lease that has
// run out. Leases come before rates and rates before workers: a worker whose last lease has just run
// out holds nothing, and may be forgotten. A worker that holds a task or waits in an open poll is
// not silent, and its expiry begins again.
func (q *queue) advanceTo(now time.Time) {
	var queues []*typeQueue
	for q.leases.Len() > 0 && !q.leases.First().until.After(now) {
		i := q.leases.First()
		i.holder.expired++
		q.expired++
		queues = append(queues, q.freeItem(i, true, now)...)
	}
	for l := range q.paced { // in any order: each is looked at alone
		if at, some := l.nextHandout(); some && !at.After(now) {
			q.refreshReady(l, now)
			queues = append(queues, l)
		}
	}
	for e := q.seen.Front(); e != nil; e = q.seen.Front() {
		s := e.Value.(*workerState)
		if s.kept.Add(q.expiry).After(now) {
			break
		}
		if s.permanent || len(s.held) > 0 || len(s.places) > 0 {
			q.restartExpiry(s, now)
			continue
		}
		q.forgetWorker(s, now)
	}
	q.tellUnserved(now)
	if queues != nil {
		q.handOut(now, queues)
	}
}

// nextDue returns when something will be due, zero if never.
//
// Pool.deliverTasks sets its timer by it. It may name a time that has passed, or one at which there
// turns out to be nothing to do; then the next call names another one.
func (q *queue) nextDue() time.Time {
	var first time.Time
	earlier := func(t time.Time) {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	if q.leases.Len() > 0 {
		earlier(q.leases.First().until)
	}
	if e := q.seen.Front(); e != nil {
		earlier(e.Value.(*workerState).kept.Add(q.expiry))
	}
	for l := range q.paced {
		if at, some := l.nextHandout(); some {
			earlier(at)
		}
	}
	for _, since := range q.missing {
		earlier(since.Add(unservedAfter))
	}
	return first
}
