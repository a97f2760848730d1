package pawl

import (
	"cmp"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/rate"
)

// A lane holds the tasks of a type that has a limit, or those of all types that have
// none, and what the limit knows.
type lane struct {
	kind    string
	limit   TypeLimit
	rate    rate.Bucket
	queued  int                    // tasks here, those of backpressured runs as well
	running int                    // tasks of this type that the executor has
	tenants heap.Heap[*laneTenant] // that may begin a task, by their turns here
	oldest  heap.Heap[*laneTenant] // the same, by their turns in the queue as a whole
	turn    int64                  // of the tenant whose task was taken last
	place   heap.Place             // among the ready lanes
}

func newLane(kind string, limit TypeLimit) *lane {
	return &lane{
		kind: kind, limit: limit, rate: rate.NewBucket(limit.Rate, limit.Burst),
		tenants: heap.New((*laneTenant).startsBefore, func(t *laneTenant) *heap.Place { return &t.place }),
		oldest:  heap.New((*laneTenant).waitsLonger, func(t *laneTenant) *heap.Place { return &t.age }),
	}
}

// countTask counts a task that was taken out to begin.
func (l *lane) countTask(now time.Time) {
	l.queued--
	l.running++
	l.rate.CountEvent(now)
}

// isFull says that as many tasks of the type run as may.
func (l *lane) isFull() bool { return l.limit.Concurrency > 0 && l.running >= l.limit.Concurrency }

// startsBefore orders lanes: by the tenant that waits in them whose turn in the queue as a whole it is, whether or not it has the
// next turn in the lane: else one that is the next in every lane would keep all others waiting. For one tenant,
// by priority, the turn of the run among those of its tenant, and arrival.
func (l *lane) startsBefore(other *lane) bool {
	m, n := l.oldest.First(), other.oldest.First()
	if m.tenant != n.tenant { // the turns of their runs are not to be compared
		return m.waitsLonger(n)
	}
	r, s := m.runs.First(), n.runs.First()
	a, b := r.tasks.First(), s.tasks.First()
	return cmp.Or(cmp.Compare(a.Node.Priority, b.Node.Priority), cmp.Compare(r.run.turn, s.run.turn), cmp.Compare(a.order, b.order)) < 0
}

// laneOf returns the lane of a task type, made if there is none.
func (q *taskQueue) laneOf(kind string) *lane {
	limit := typeLimitOf(q.types, kind)
	if limit.isNone() {
		return q.free
	}
	l := q.lanes[kind]
	if l == nil {
		l = newLane(kind, limit)
		q.lanes[kind] = l
	}
	return l
}

// placeLane puts a lane that has changed among those that may begin a task, or among
// those that wait for their rate, or among neither. One that holds nothing is forgotten.
func (q *taskQueue) placeLane(l *lane) {
	delete(q.paced, l)
	switch {
	case l.tenants.Len() == 0 || l.isFull():
		q.ready.Remove(l)
	case l.rate.NextEvent().After(q.latest):
		q.ready.Remove(l)
		q.paced[l] = struct{}{}
	default:
		q.ready.Put(l)
	}
	if l.queued == 0 && l.running == 0 && l.rate.IsUnused() {
		delete(q.lanes, l.kind)
	}
}

// advanceTo lets the types go on whose rate allows it now.
func (q *taskQueue) advanceTo(now time.Time) {
	q.latest = now
	for l := range q.paced { // in any order: each is looked at alone
		q.placeLane(l)
	}
}

// nextDue returns when the rate of a type allows its next task; zero if none waits for
// that.
func (q *taskQueue) nextDue() (first time.Time) {
	for l := range q.paced {
		if at := l.rate.NextEvent(); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// isLimited says that a task that is in the queue waits for the limit of its type, or
// its tenant.
func (q *taskQueue) isLimited(t *outTask) bool {
	l := q.laneOf(t.Task)
	return l.isFull() || q.tenantOf(t.Tenant).isFull() || l.rate.NextEvent().After(q.latest)
}
