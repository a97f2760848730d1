package taskqueue

import (
	"cmp"
	"iter"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/rate"
)

// A Limit bounds how the entries of one type go. The zero value of each field is no bound.
type Limit struct {
	Concurrency int     // entries that are out at once
	Rate        float64 // entries that go per second, on average
	Burst       int     // how many may go at once after a pause; 1 by default
}

// limitOf returns the limit of a type, which "*" has for those without one.
func (o *Options) limitOf(kind string) Limit {
	l, ok := o.Types[kind]
	if !ok {
		l = o.Types["*"]
	}
	return l
}

// A Lane holds the entries of a type, or those of all types without a limit, and what the limit knows.
type Lane[T any] struct {
	Type    string // "" of the one that types share
	limit   Limit
	rate    rate.Bucket
	waiting int                       // entries here, those of backpressured runs as well
	out     int                       // entries of this type that are out
	tenants heap.Heap[*laneTenant[T]] // that may go on, by their turns here
	oldest  heap.Heap[*laneTenant[T]] // the same, by their turns in the queue as a whole
	place   heap.Place                // among the ready lanes
	pace    heap.Place                // among the paced lanes
	rest    heap.Place                // among the resting lanes
	noted   bool                      // it is in Queue.changed
}

func newLane[T any](kind string, limit Limit) *Lane[T] {
	return &Lane[T]{
		Type: kind, limit: limit, rate: rate.NewBucket(limit.Rate, limit.Burst),
		tenants: heap.New((*laneTenant[T]).startsBefore, func(t *laneTenant[T]) *heap.Place { return &t.place }),
		oldest:  heap.New((*laneTenant[T]).waitsLonger, func(t *laneTenant[T]) *heap.Place { return &t.age }),
	}
}

// IsReady reports whether an entry of the lane may go now.
func (l *Lane[T]) IsReady() bool { return l.place.In() }

// isFull says that as many entries of the type are out as may be.
func (l *Lane[T]) isFull() bool { return l.limit.Concurrency > 0 && l.out >= l.limit.Concurrency }

// firstRun returns the run whose entry is next in a lane, which has one.
func (l *Lane[T]) firstRun() *laneRun[T] { return l.tenants.First().runs.First() }

// StartsBefore orders lanes that are ready: by the *global* turn of their tenants that have waited longest, not by the turn
// of the tenant that is next in the lane, as one that is next in every lane would keep all others waiting. For one tenant,
// by priority, the turn of the run among those of its tenant, and arrival.
func (l *Lane[T]) StartsBefore(other *Lane[T]) bool {
	m, n := l.oldest.First(), other.oldest.First()
	if m.tenant != n.tenant { // the turns of their runs are not to be compared
		return m.waitsLonger(n)
	}
	r, s := m.runs.First(), n.runs.First()
	a, b := r.entries.First(), s.entries.First()
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(r.run.turn, s.run.turn), cmp.Compare(a.Order, b.Order)) < 0
}

// laneOf returns the lane of a type, and makes it if it is missing.
func (q *Queue[T]) laneOf(kind string) *Lane[T] {
	if l := q.lanes[kind]; l != nil {
		return l
	}
	limit := q.o.limitOf(kind)
	if !q.o.Apart && limit.Concurrency == 0 && limit.Rate == 0 {
		return q.shared
	}
	l := newLane[T](kind, limit)
	q.lanes[kind] = l
	return l
}

// LaneName names the lane of a type: types of one lane wait for each other.
func (q *Queue[T]) LaneName(kind string) string { return q.laneOf(kind).Type }

// ReadyLane returns the lane of the entry that Take would take; nil if none may go.
func (q *Queue[T]) ReadyLane() *Lane[T] {
	if q.ready.Len() == 0 {
		return nil
	}
	return q.ready.First()
}

// ReadyLaneOf returns the lane of a type, in a queue with Options.Apart; nil if none of its entries may go.
func (q *Queue[T]) ReadyLaneOf(kind string) *Lane[T] {
	if l := q.lanes[kind]; l != nil && l.place.In() {
		return l
	}
	return nil
}

// Changed returns the lanes that have become ready since it was called last, and perhaps others, which need not be
// ready; the next call uses the slice again. It is for a queue with Options.Apart.
func (q *Queue[T]) Changed() []*Lane[T] {
	q.told, q.changed = q.changed, q.told[:0]
	for _, l := range q.told {
		l.noted = false
	}
	return q.told
}

// Waiting returns how many entries of a type wait, in a queue with Options.Apart.
func (q *Queue[T]) Waiting(kind string) int {
	if l := q.lanes[kind]; l != nil {
		return l.waiting
	}
	return 0
}

// Types yields, in any order, the types that have lanes of their own, with how many of their entries wait and are out.
func (q *Queue[T]) Types() iter.Seq[TypeCount] {
	return func(yield func(TypeCount) bool) {
		for kind, l := range q.lanes {
			if !yield(TypeCount{kind, l.waiting, l.out}) {
				return
			}
		}
	}
}

// A TypeCount says how many entries of a type there are.
type TypeCount struct {
	Type         string
	Waiting, Out int
}

// A TypeUse says how much of the limit of a type is in use. A bound that the type does not have is 0.
type TypeUse struct {
	Type        string
	Out, Most   int // entries that are out
	Left, Burst int // entries that may go at once
}

// Uses returns, in any order, how much is in use of the limits of the types that are named, and of others with a limit that
// have entries.
func (q *Queue[T]) Uses(now time.Time) (out []TypeUse) {
	useOf := func(kind string, limit Limit, l *Lane[T]) TypeUse {
		u := TypeUse{Type: kind, Most: limit.Concurrency}
		if limit.Rate > 0 {
			u.Burst = max(limit.Burst, 1)
			u.Left = u.Burst
		}
		if l != nil {
			u.Out, u.Left = l.out, min(l.rate.Left(now), u.Burst)
		}
		return u
	}
	for kind, limit := range q.o.Types {
		if kind != "*" {
			out = append(out, useOf(kind, limit, q.lanes[kind]))
		}
	}
	for kind, l := range q.lanes {
		if _, named := q.o.Types[kind]; !named && l.limit != (Limit{}) {
			out = append(out, useOf(kind, l.limit, l))
		}
	}
	return out
}

// placeLane puts a lane that has changed among those that may hand out an entry, or among those that wait for their rate, or among
// neither. A lane that holds nothing is forgotten once its rate has rested: a new one would be the same.
func (q *Queue[T]) placeLane(l *Lane[T]) {
	q.paced.Remove(l)
	q.resting.Remove(l)
	switch {
	case l.tenants.Len() == 0 || l.isFull():
		q.ready.Remove(l)
	case l.rate.NextEvent().After(q.latest):
		q.ready.Remove(l)
		q.paced.Put(l)
	default:
		q.ready.Put(l)
		if q.o.Apart && !l.noted {
			l.noted = true
			q.changed = append(q.changed, l)
		}
	}
	switch {
	case l.waiting > 0 || l.out > 0:
	case l.rate.IsRested(q.latest):
		delete(q.lanes, l.Type)
	default:
		q.resting.Put(l) // until AdvanceTo forgets it
	}
}

// goesBefore orders lanes that wait for their rate.
func (l *Lane[T]) goesBefore(other *Lane[T]) bool {
	return l.rate.NextEvent().Before(other.rate.NextEvent())
}

// restsBefore orders lanes whose rate has to rest.
func (l *Lane[T]) restsBefore(other *Lane[T]) bool {
	return l.rate.RestedAt().Before(other.rate.RestedAt())
}

// AdvanceTo lets the types go on whose rate allows it now. The time must not go back.
func (q *Queue[T]) AdvanceTo(now time.Time) {
	q.latest = now
	for q.paced.Len() > 0 && !q.paced.First().rate.NextEvent().After(now) {
		q.placeLane(q.paced.First())
	}
	for q.resting.Len() > 0 && q.resting.First().rate.IsRested(now) {
		q.placeLane(q.resting.First())
	}
}

// NextDue returns when the rate of a type allows its next entry; zero if none waits for that.
func (q *Queue[T]) NextDue() (first time.Time) {
	if q.paced.Len() > 0 {
		first = q.paced.First().rate.NextEvent()
	}
	return first
}

// ReleaseType lets an entry that is out count for its type no longer, if it does.
func (q *Queue[T]) ReleaseType(e *Entry[T]) {
	if l := e.out; l != nil {
		e.out = nil
		l.out--
		q.placeLane(l)
	}
}
