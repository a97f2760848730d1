package worker

import (
	"time"

	"github.com/pawl-run/pawl"
)

// A keyState says what a key is to a worker.
type keyState int

const (
	keyUnknown          keyState = iota // the queue does not know the key
	keyHeld                             // the worker holds it
	keyHeldByOther                      // another worker holds it
	keyCompleted                        // the worker has completed it
	keyCompletedByOther                 // another worker has completed it
)

// registerWorker adds a worker, or changes what one takes. It keeps what it holds, and
// asks for nothing yet, unless it is permanent.
//
// It begins with stopWaiting, since the lists in which the worker waits are those of its old types,
// and with setTaking, for the same reason.
func (q *queue) registerWorker(r Registration, permanent bool, now time.Time) *workerState {
	q.advanceTo(now)
	s := q.ensureWorker(r.ID, now)
	q.stopWaiting(s)
	q.setTaking(s, false, now)
	s.types, s.any, s.capacity = r.Types, false, r.Capacity
	for _, kind := range r.Types {
		s.any = s.any || kind == every
	}
	if !s.joined {
		s.since = now
	}
	s.joined, s.draining, s.leaving, s.permanent, s.asks = true, false, false, permanent, 0
	q.noteContact(s, now)
	q.setTaking(s, true, now)
	q.handOut(now, s)
	return s
}

// ensureWorker returns what the queue knows of a worker, made if there is nothing.
//
// A worker that is made here has not joined: it has no types and no capacity, and gets nothing until
// it registers.
func (q *queue) ensureWorker(id string, now time.Time) *workerState {
	s := q.workers[id]
	if s == nil {
		s = &workerState{id: id, held: map[pawl.Key]*item{}, since: now, seen: now, kept: now}
		s.order = q.seen.PushBack(s)
		q.workers[id] = s
	}
	return s
}

// forgetWorker removes a worker, which must hold nothing.
//
// Its counts are forgotten as well; the totals of the queue keep them.
func (q *queue) forgetWorker(s *workerState, now time.Time) {
	q.stopWaiting(s)
	q.setTaking(s, false, now)
	q.seen.Remove(s.order)
	delete(q.workers, s.id)
}

// removeWorker removes a worker. The tasks that it holds go back to the heads of their
// queues; those of a permanent worker do so when it lets go of them.
//
// A task whose completion is under way is left to it: finishCompletion or undoCompletion decides, and
// the worker is forgotten with its last one. Items are freed in the order of the queue, so the same
// events always give the same order.
func (q *queue) removeWorker(s *workerState, now time.Time) {
	q.advanceTo(now)
	q.stopWaiting(s)
	s.leaving, s.asks = true, 0
	q.setTaking(s, false, now)
	if !s.permanent {
		for _, i := range s.heldItems() {
			if !i.closing {
				q.freeItem(i, true, now)
			}
		}
	}
	if q.workers[s.id] == s && len(s.held) == 0 {
		q.forgetWorker(s, now)
	}
	q.handOut(now)
}

// drainWorker lets a worker get nothing new until it registers again.
// It keeps what it holds, and finishes it. It no longer counts as one that takes its types, so the log
// tells of tasks that nobody else takes.
func (q *queue) drainWorker(s *workerState, now time.Time) {
	q.stopWaiting(s)
	s.draining, s.asks = true, 0
	q.setTaking(s, false, now)
}

// requestTasks hands a worker up to n tasks now, and lets it wait for one if there are
// none.
//
// A worker that got something does not wait for more, even if it asked for more: its answer leaves at
// once. asks stays above 0 only for one that waits.
func (q *queue) requestTasks(s *workerState, n int, now time.Time) {
	q.advanceTo(now)
	q.noteContact(s, now)
	s.asks = n
	before := len(q.out)
	q.serveWorker(s, now)
	if len(q.out) > before {
		s.asks = 0
	}
	q.startWaiting(s)
}

// cancelRequest ends the wait that requestTasks began.
// It is for a poll that has ended, with tasks or without: nothing is handed to a worker that does not
// listen.
func (q *queue) cancelRequest(s *workerState, now time.Time) {
	q.advanceTo(now)
	q.noteContact(s, now)
	q.stopWaiting(s)
	s.asks = 0
}

// holdKey notes that a worker works on a key: its lease begins again. If nobody
// holds the key, the worker does from now on. The holder of a task that was withdrawn
// keeps it: the task may be over, or the engine may be closed and about to dispatch it
// again, and only the engine knows.
//
// It is how heartbeats, polls and completions find out what a key is to their worker. While a
// completion is under way the lease is suspended, and is not renewed here.
func (q *queue) holdKey(id string, k pawl.Key, now time.Time) keyState {
	q.advanceTo(now)
	i := q.items[k]
	switch {
	case i == nil:
		by, ok := q.ended.of[k]
		switch {
		case !ok:
			return keyUnknown
		case by != id:
			return keyCompletedByOther
		}
		return keyCompleted
	case i.holder == nil:
		q.adoptItem(i, id, now)
	case i.holder.id != id:
		return keyHeldByOther
	}
	q.noteContact(i.holder, now)
	if !i.closing {
		q.renewLease(i, now)
	}
	return keyHeld
}

// claimKey makes a worker the holder of a key that the engine has not dispatched
// yet in this life, but knows.
//
// The item has only its key until addTask brings the task, and counts for the type "" and the tenant
// "". If the engine never dispatches it, because it is over, the lease runs out and freeItem forgets
// it.
func (q *queue) claimKey(id string, k pawl.Key, now time.Time) {
	q.advanceTo(now)
	if q.items[k] != nil {
		return
	}
	i := &item{task: pawl.Task{Key: k}}
	i.describeEntry(0)
	q.items[k] = i
	q.adoptItem(i, id, now)
}

// adoptItem gives a task to a worker that says that it has it.
//
// The worker may come to hold more than its capacity: it works on the task anyway, and to refuse would
// make another one do it as well.
func (q *queue) adoptItem(i *item, id string, now time.Time) {
	s := q.ensureWorker(id, now)
	q.tasks.Hold(&i.entry)
	q.holdItem(i, s, now)
	s.asks = min(s.asks, s.freeCapacity())
	if s.asks == 0 {
		q.stopWaiting(s)
	}
}

// beginCompletion starts the completion of a key that a worker holds, or that nobody
// holds. Its lease is suspended until finishCompletion or undoCompletion.
func (q *queue) beginCompletion(id string, k pawl.Key, now time.Time) keyState {
	at := q.holdKey(id, k, now)
	if at == keyHeld {
		i := q.items[k]
		i.closing = true
		q.leases.Remove(i)
	}
	return at
}

// finishCompletion ends a completion that beginCompletion began. counted says that the
// result was taken, and failed that it is an error.
//
// counted is false for a result that was refused, or a heartbeat of an attempt that is over: the key
// is let go and not counted; if a run has refused the result and was resumed since, the task waits again. The worker may hold it no more, if it left in the meantime; then only the
// counting happens. A worker that is not known any more counts into a state that is thrown away, and
// into the totals.
func (q *queue) finishCompletion(id string, k pawl.Key, counted, failed bool, now time.Time) {
	q.advanceTo(now)
	i := q.items[k]
	if counted && q.ended.addKey(k, id) {
		s := q.workers[id]
		if s == nil {
			s = &workerState{}
		}
		s.processed++
		q.processed++
		if failed {
			s.failed++
			q.failed++
		}
	}
	switch {
	case i == nil:
	case i.holder != nil && i.holder.id == id:
		s := i.holder
		q.freeItem(i, i.again && !counted, now)
		q.handOut(now, s)
	case i.holder == nil && counted: // dispatched while the result was committed, and over
		q.removeWaiting(i, now)
	}
}

// undoCompletion undoes beginCompletion: the result could not be committed for now.
// The worker keeps the task for another lease, in which it sends the result again.
func (q *queue) undoCompletion(k pawl.Key, now time.Time) {
	q.advanceTo(now)
	if i := q.items[k]; i != nil && i.closing {
		i.closing, i.again = false, false
		q.renewLease(i, now)
	}
}

// releaseTask gives a task back that a worker has not done.
//
// The task waits again, unless it was withdrawn or only claimed; freeItem decides that.
func (q *queue) releaseTask(k pawl.Key, now time.Time) {
	q.advanceTo(now)
	if i := q.items[k]; i != nil && i.holder != nil {
		s := i.holder
		q.freeItem(i, true, now)
		q.handOut(now, s)
	}
}

// maxEnded is how many completed keys the queue remembers. The engine knows the outcomes of older
// ones, but not their workers.
const maxEnded = 1 << 14

// completedKeys remember by whom the latest keys were completed.
// ring has the keys of the map of in the order in which they came; at is the oldest one once the ring
// is full. The zero value is empty.
type completedKeys struct {
	of   map[pawl.Key]string
	ring []pawl.Key
	at   int
}

// addKey notes by whom a key was completed, and says whether that is new.
func (m *completedKeys) addKey(k pawl.Key, by string) bool {
	if _, known := m.of[k]; known {
		return false
	}
	if m.of == nil {
		m.of = map[pawl.Key]string{}
	}
	if len(m.ring) < maxEnded {
		m.ring = append(m.ring, k)
	} else {
		delete(m.of, m.ring[m.at])
		m.ring[m.at] = k
		m.at = (m.at + 1) % maxEnded
	}
	m.of[k] = by
	return true
}
