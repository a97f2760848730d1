package worker

import (
	"container/list"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/internal/taskqueue"
)

// A queue is the coordinator's state: tasks that wait, workers, and leases. It has
// no lock, no goroutine and no clock: the caller passes the time, which must not
// go back, and takes the tasks that were handed out from out, and the keys of those
// that were let go from freed. After every method no task waits that a waiting worker
// could take.
//
// An item is in items from addTask or claimKey until it is completed or withdrawn and nobody holds it.
// If it has no holder it waits in tasks, which orders what waits; else it is out there. If a worker that can expire holds it,
// and no completion is under way, it is in leases. The counters processed, failed and expired only grow.
type queue struct {
	lease   time.Duration       // of a task
	expiry  time.Duration       // of a worker without contact
	limitOf func(pawl.Task) int // how many tasks of its tenant workers may hold, 0 without a bound; nil asks the engine of the task

	items   map[pawl.Key]*item
	tasks   *taskqueue.Queue[*item]
	leases  heap.Heap[*item]
	workers map[string]*workerState
	waiting map[string]*list.List // of *workerState, by type: those that wait and take the type; none is empty
	anyType list.List             // of *workerState: those that wait and take every type
	seen    list.List             // of *workerState: all of them, by kept
	turns   int64                 // that workers have been given
	ended   completedKeys

	drained bool // nothing is handed out any more
	out     []assignment
	freed   []pawl.Key // that a worker has let go of

	unserved // types

	processed, failed, expired int64
}

// An item is a task that the queue knows: it waits in the queue of its type, or a worker
// holds it.
// holder is nil exactly while the item waits; then until is zero and it is in no heap of leases.
type item struct {
	task  pawl.Task
	host  serving.Host // the engine of the task; nil before it is known
	known bool         // the engine has dispatched it; a claim before that has only a key
	owner int64        // which call of Execute it is from
	since time.Time    // in the queue, or held

	// entry is what the queue of tasks knows of it. A tenant is one run there: its tasks are handed out by priority and then in
	// the order in which the engine dispatched them. That order is kept by a task that comes back, which is why it is
	// handed out before all that came later.
	entry taskqueue.Entry[*item]

	holder    *workerState // the worker that holds it; nil if it waits
	until     time.Time    // the end of the lease; zero if it does not run out
	lease     heap.Place   // among the leases
	closing   bool         // its result is being committed: the lease is suspended
	again     bool         // the engine has dispatched it again meanwhile
	withdrawn bool         // the engine let go of it; its holder does not know yet
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
	types := map[string]taskqueue.Limit{}
	for kind, l := range limits {
		types[kind] = taskqueue.Limit(l)
	}
	return &queue{
		lease: lease, expiry: expiry,
		unserved: newUnserved(),
		items:    map[pawl.Key]*item{}, tasks: taskqueue.New[*item](taskqueue.Options{Types: types, Apart: true}),
		workers: map[string]*workerState{}, waiting: map[string]*list.List{},
		leases: heap.New(
			func(a, b *item) bool { return a.until.Before(b.until) },
			func(i *item) *heap.Place { return &i.lease },
		),
	}
}

// reportWorker tells the engine who holds the task.
func (i *item) reportWorker(name string) {
	if i.host != nil {
		i.host.ReportWorker(string(i.task.Key), name)
	}
}

// limitOfItem returns how many tasks of a task's tenant workers may hold.
func (q *queue) limitOfItem(i *item) int {
	if q.limitOf != nil {
		return q.limitOf(i.task)
	}
	return i.host.TenantConcurrency(i.task.Tenant)
}

// addTask takes a task that the engine has dispatched. A key that is known keeps its
// holder; owner says which of several adds of a key the last one was.
//
// Three cases: the key is new, and waits; it waits already, from an earlier call, and is placed again,
// since its priority may have changed; or somebody holds it, by a claim or from a dispatch before, and
// keeps it. Since a claim knows no type and no tenant, the counts of held tasks move from the empty
// names to the right ones. A limit comes with each task: the last one counts.
func (q *queue) addTask(host serving.Host, t pawl.Task, owner int64, now time.Time) {
	q.advanceTo(now)
	i := q.items[t.Key]
	if i == nil {
		i = &item{since: now}
		q.items[t.Key] = i
	}
	i.task, i.host, i.owner, i.known, i.withdrawn, i.again = t, host, owner, true, false, i.closing
	switch limit := q.limitOfItem(i); {
	case i.entry.Waits():
		q.tasks.Change(&i.entry, t.Priority, t.Order, limit)
	case i.holder != nil: // a claim, whose type and tenant were not known
		q.tasks.Release(&i.entry)
		i.describeEntry(limit)
		q.tasks.Hold(&i.entry)
		i.reportWorker(i.holder.id) // the engine has not heard of it in this life
	default:
		i.describeEntry(limit)
		q.tasks.Put(&i.entry)
	}
	q.noteServed(t.Type, now)
	q.handOut(now)
}

// describeEntry tells the queue of tasks what it has to know of an item that it does not have, with the limit of its tenant.
func (i *item) describeEntry(limit int) {
	t := &i.task
	i.entry = taskqueue.Entry[*item]{Item: i, Type: t.Type, Tenant: t.Tenant, Run: t.Tenant, Priority: t.Priority, Order: t.Order, Bound: limit}
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
	q.removeWaiting(i, now)
	return nil
}

// removeWaiting forgets a task that waits and is over.
func (q *queue) removeWaiting(i *item, now time.Time) {
	delete(q.items, i.task.Key)
	q.tasks.Remove(&i.entry)
	q.noteServed(i.task.Type, now)
	q.handOut(now)
}

// handOut hands out the tasks of the types that have changed for which a worker waits, and then
// the tasks that some permanent workers can take. Every method that may have made a
// task or a worker free ends with it.
//
// Each turn takes the type that comes first by tenants and priorities among those that somebody waits
// for, and of the workers that wait for it the one that has waited longest. A remote worker gets one
// task this way and then has to ask again; its answer is on its way and can take no more. Permanent
// workers ask for nothing: whatever is free of their capacity is filled.
func (q *queue) handOut(now time.Time, workers ...*workerState) {
	lanes := q.tasks.Changed()
	for !q.drained {
		var first *taskqueue.Lane[*item]
		for _, l := range lanes {
			if l.IsReady() && (first == nil || l.StartsBefore(first)) && q.longestWaiting(l.Type) != nil {
				first = l
			}
		}
		if first == nil {
			break
		}
		s := q.longestWaiting(first.Type)
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

// assignFirst gives the first task of a type, which must be ready, to a worker.
func (q *queue) assignFirst(l *taskqueue.Lane[*item], s *workerState, now time.Time) {
	i := q.tasks.TakeFrom(l).Item
	q.holdItem(i, s, now)
	s.asks--
	q.out = append(q.out, assignment{s, i})
}

// holdItem makes a worker the holder of a task that is out. The lease begins here.
func (q *queue) holdItem(i *item, s *workerState, now time.Time) {
	q.noteServed(i.task.Type, now)
	i.holder, i.since = s, now
	s.held[i.task.Key] = i
	i.reportWorker(s.id)
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

// freeItem takes a task from its holder. The task goes back to the head of those of its tenant, or is forgotten if it is
// over or was only claimed.
//
// Every way out of a worker's hands leads through it: result, lease, leave, withdrawal. It reports the
// key in freed, so that Drain and the turns of Once hear of it. A worker that is leaving and holds
// nothing more is forgotten with its last task. The caller has to call handOut.
func (q *queue) freeItem(i *item, requeue bool, now time.Time) {
	s := i.holder
	delete(s.held, i.task.Key)
	q.freed = append(q.freed, i.task.Key)
	i.reportWorker("")
	q.leases.Remove(i)
	i.holder, i.until, i.closing, i.again = nil, time.Time{}, false, false
	q.tasks.Release(&i.entry)
	if requeue && i.known && !i.withdrawn {
		q.tasks.Put(&i.entry) // it keeps its order: it is before all that came later
		q.noteServed(i.task.Type, now)
		i.since = now
	} else {
		delete(q.items, i.task.Key)
	}
	if s.leaving && len(s.held) == 0 {
		q.forgetWorker(s, now)
	}
}

// advanceTo brings the queue to now: leases expire, workers without contact are
// forgotten, and type queues whose rate allows it hand out their next task.
//
// Every method that is given the time calls it first, so that nothing is decided on a lease that has
// run out. Leases come before rates and rates before workers: a worker whose last lease has just run
// out holds nothing, and may be forgotten. A worker that holds a task or waits in an open poll is
// not silent, and its expiry begins again.
func (q *queue) advanceTo(now time.Time) {
	for q.leases.Len() > 0 && !q.leases.First().until.After(now) {
		i := q.leases.First()
		i.holder.expired++
		q.expired++
		q.freeItem(i, true, now)
	}
	q.tasks.AdvanceTo(now)
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
	q.handOut(now)
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
	if at := q.tasks.NextDue(); !at.IsZero() {
		earlier(at)
	}
	for _, since := range q.missing {
		earlier(since.Add(unservedAfter))
	}
	return first
}
