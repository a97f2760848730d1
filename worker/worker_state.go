package worker

import (
	"container/list"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/taskqueue"
)

// every is the type that stands for all types.
const every = "*"

// A workerState is what the queue knows of a worker.
//
// places is empty exactly while the worker does not wait; asks is how many tasks it would take then. A
// permanent worker's asks follow its free capacity, see serveWorker. order is its place in queue.seen,
// which is sorted by kept.
type workerState struct {
	id        string
	types     []string
	any       bool // takes every type
	capacity  int
	permanent bool // it need not ask, and its leases do not run out: a worker of this process
	joined    bool // it has registered; one that only holds a key from before a restart has not
	draining  bool // gets nothing new
	leaving   bool // is forgotten when it holds nothing
	taking    bool // counts among those that take its types

	instance string    // the process that has registered last, of those that say which they are
	heard    time.Time // the last contact of that process
	rivalled bool      // the log knows that another one polls

	held   map[pawl.Key]*item
	asks   int            // tasks that it waits for
	turn   int64          // since when it waits, as a number that grows
	places []waitingPlace // where it waits
	seen   time.Time      // its last contact
	kept   time.Time      // when its expiry began to count: then, or when it was found busy
	order  *list.Element  // in queue.seen

	since     time.Time // registered
	processed int64
	failed    int64
	expired   int64
}

// A waitingPlace is an element of a list in which a worker waits.
type waitingPlace struct {
	kind string // every: the list of those that take every type
	at   *list.Element
}

// freeCapacity returns how many tasks the worker may get.
//
// It may hold more than its capacity, by claims or after a registration with a lower one; then it gets
// none until it holds less.
func (s *workerState) freeCapacity() int {
	if s.draining || s.leaving || !s.joined {
		return 0
	}
	return max(s.capacity-len(s.held), 0)
}

// isReplacing reports whether the worker is another process than the one that asks. A process that does not say which it is
// counts as the same: it may be of a version that could not.
func (s *workerState) isReplacing(instance string) bool {
	return s.instance != "" && instance != "" && s.instance != instance
}

// noteInstance notes that a process was heard of, and reports whether that one is the worker.
func (s *workerState) noteInstance(instance string, now time.Time) bool {
	if s.isReplacing(instance) {
		return false
	}
	s.heard = now
	return true
}

// heldItems returns what the worker holds, in the order of the queue.
func (s *workerState) heldItems() []*item {
	return slices.SortedFunc(maps.Values(s.held), func(i, j *item) int {
		switch {
		case i.entry.StartsBefore(&j.entry):
			return -1
		case j.entry.StartsBefore(&i.entry):
			return 1
		}
		return 0
	})
}

// startWaiting lets the worker wait for a task.
//
// A worker waits in one list for each of its types, at the end; whichever has a task first takes it
// out of all. turn tells who came first across lists.
func (q *queue) startWaiting(s *workerState) {
	if s.asks == 0 || len(s.places) > 0 {
		return
	}
	q.turns++
	s.turn = q.turns
	if s.any {
		s.places = append(s.places, waitingPlace{every, q.anyType.PushBack(s)})
		return
	}
	for _, kind := range s.types {
		waiting := q.waiting[kind]
		if waiting == nil {
			waiting = list.New()
			q.waiting[kind] = waiting
		}
		s.places = append(s.places, waitingPlace{kind, waiting.PushBack(s)})
	}
}

// stopWaiting takes the worker out of the lists in which it waits.
func (q *queue) stopWaiting(s *workerState) {
	for _, w := range s.places {
		if w.kind == every {
			q.anyType.Remove(w.at)
			continue
		}
		if q.waiting[w.kind].Remove(w.at); q.waiting[w.kind].Len() == 0 {
			delete(q.waiting, w.kind)
		}
	}
	s.places = s.places[:0]
}

// longestWaiting returns the worker that has waited longest for a task of a type; nil
// if none waits.
func (q *queue) longestWaiting(kind string) (first *workerState) {
	if waiting := q.waiting[kind]; waiting != nil {
		first = waiting.Front().Value.(*workerState)
	}
	if e := q.anyType.Front(); e != nil {
		if s := e.Value.(*workerState); first == nil || s.turn < first.turn {
			first = s
		}
	}
	return first
}

// bestType returns the lane with the worker's next task; nil if no task that it
// may take is ready.
//
// For a worker of every type it is the first of all; for others it takes a look at each of their
// types, at most maxTypes.
func (q *queue) bestType(s *workerState) (first *taskqueue.Lane[*item]) {
	if s.any {
		return q.tasks.ReadyLane()
	}
	for _, kind := range s.types {
		if l := q.tasks.ReadyLaneOf(kind); l != nil && (first == nil || l.StartsBefore(first)) {
			first = l
		}
	}
	return first
}

// noteContact notes that a worker was heard of.
func (q *queue) noteContact(s *workerState, now time.Time) {
	s.seen = now
	q.restartExpiry(s, now)
}

// restartExpiry lets the expiry of a worker begin to count again.
//
// The list seen stays sorted because the time does not go back, and whoever begins to count now is the
// last.
func (q *queue) restartExpiry(s *workerState, now time.Time) {
	s.kept = now
	q.seen.MoveToBack(s.order)
}
