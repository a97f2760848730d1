// Package taskqueue has the queue in which tasks wait for their turn: types with limits, tenants and runs that take
// turns, priorities, rates. It has no lock, no goroutine and no clock.
package taskqueue

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
)

// A Queue holds the entries that wait, on four levels. A lane holds the entries of one type; types without a limit share
// one lane unless Options.Apart is set. In a lane each run has a heap of its own entries, those runs of a tenant that may
// go on stand in a heap of runs, and the tenants of these in a heap of tenants. The lanes whose limit allows an entry
// stand in a heap of lanes. Entries without a tenant belong to the tenant "".
//
// The next entry of a lane is the first one of the first run of its first tenant. Tenants take turns in a lane (round
// robin: Nagle, RFC 970, 1985): the tenant is next whose last turn there was the longest ago, and a tenant that comes is
// the last. Within a tenant the lowest priority number is first, then the run that is next (start-time fair queueing:
// Goyal, Vin and Cheng, 1996, with entries that all count the same), then the order of arrival.
//
// Lanes are ordered by the tenant in each that has waited longest for a turn at any lane, whether or not this tenant
// is the next one in its lane: a tenant that is first in several lanes would otherwise starve all others. So a tenant with
// many types has little more than its turn, and a scarce type is shared fairly whatever else its runs have. A tenant
// waits for at most one entry of each other tenant, in each lane. An urgent entry takes the turn of its run, and goes
// before those of its own tenant only.
//
// A run is backpressured while Options.Most of its results wait to be delivered. It leaves the heaps of runs, with all
// its entries, until one of these results is delivered.
type Queue[T any] struct {
	o       Options
	tenants map[string]*tenant[T] // with runs here, or entries that are out
	runs    map[string]*run[T]    // with entries here, or results that wait
	shared  *Lane[T]              // of the types without a limit; nil with Options.Apart
	lanes   map[string]*Lane[T]   // of the others that are in use
	ready   heap.Heap[*Lane[T]]   // with entries that may go now
	paced   heap.Heap[*Lane[T]]   // with entries that wait for the rate of their type, by when that allows one
	resting heap.Heap[*Lane[T]]   // with none, until their rate has rested, by when it has
	changed []*Lane[T]            // that came to be ready, or may have: only with Options.Apart
	told    []*Lane[T]            // that Changed has returned
	bounded bool                  // a tenant has had a bound
	turns   int64                 // that tenants have been given
	latest  time.Time             // to which AdvanceTo has come
	length  int                   // entries in it

	// Records that are in use no more, for the next ones: a run that is a chain comes and goes with each step.
	spareRuns    spares[run[T]]
	spareLanes   spares[laneRun[T]]
	spareTenants spares[laneTenant[T]]
}

// Options say how a queue works.
type Options struct {
	Most  int              // waiting results with which a run is backpressured; 0 is no bound
	Types map[string]Limit // by type; "*" for those without one of their own
	Apart bool             // types without a limit have lanes of their own too, and Changed tells of lanes
}

// An Entry is an item with what the queue has to know of it. It is set before Put, and does not change while
// it waits or is out. Its zero value waits nowhere.
type Entry[T any] struct {
	Item     T
	Type     string
	Tenant   string // "" is a tenant as well
	Run      string // of one tenant
	Priority int    // the lowest number is first
	Order    int64  // of arrival: what comes back keeps its own, and goes before all that came later
	Bound    int    // how many entries of its tenant may be out, 0 is no bound; that of the last Put counts

	in    *laneRun[T] // while it waits
	place heap.Place  // in there
	out   *Lane[T]    // among whose entries that are out it counts; nil if it does not
	of    *tenant[T]  // likewise
}

// Waits reports whether the entry is in the queue.
func (e *Entry[T]) Waits() bool { return e.place.In() }

// StartsBefore orders the entries of one run, by priority and arrival.
func (e *Entry[T]) StartsBefore(other *Entry[T]) bool {
	return cmp.Or(cmp.Compare(e.Priority, other.Priority), cmp.Compare(e.Order, other.Order)) < 0
}

// A run is what the queue knows of a run.
type run[T any] struct {
	id      string
	tenant  *tenant[T]
	lanes   []*laneRun[T] // with entries of it
	waiting int           // results, to be delivered
	turn    int64         // among all runs of its tenant, while it is ready
	ready   bool          // it has entries and is not backpressured
}

// A laneRun has the entries that one run has in one lane.
type laneRun[T any] struct {
	run     *run[T]
	in      *laneTenant[T]
	entries heap.Heap[*Entry[T]]
	turn    int64      // among the runs of its tenant in the lane, while the run is ready
	place   heap.Place // in its tenant's heap of runs in the lane
}

// New returns an empty queue.
func New[T any](o Options) *Queue[T] {
	q := &Queue[T]{
		o: o, tenants: map[string]*tenant[T]{}, runs: map[string]*run[T]{}, lanes: map[string]*Lane[T]{},
		ready:   heap.New((*Lane[T]).StartsBefore, func(l *Lane[T]) *heap.Place { return &l.place }),
		paced:   heap.New((*Lane[T]).goesBefore, func(l *Lane[T]) *heap.Place { return &l.pace }),
		resting: heap.New((*Lane[T]).restsBefore, func(l *Lane[T]) *heap.Place { return &l.rest }),
	}
	if !o.Apart {
		q.shared = newLane[T]("", Limit{})
	}
	return q
}

// Len returns how many entries wait.
func (q *Queue[T]) Len() int { return q.length }

// Put lets an entry wait that does not.
func (q *Queue[T]) Put(e *Entry[T]) {
	r, l := q.runOf(e), q.laneOf(e.Type)
	q.liftLanes(r)
	q.boundTenant(r.tenant, e.Bound)
	l.waiting++
	q.length++
	e.in = q.runInLane(r, l)
	e.in.entries.Put(e)
	q.placeRun(r)
}

// Change gives an entry that waits another priority, order of arrival and bound of its tenant.
func (q *Queue[T]) Change(e *Entry[T], priority int, order int64, bound int) {
	r := e.in.run
	q.liftLanes(r)
	e.Priority, e.Order, e.Bound = priority, order, bound
	q.boundTenant(r.tenant, bound)
	e.in.entries.Put(e)
	q.placeRun(r)
}

// First returns the entry that Take would take; nil if none may go.
func (q *Queue[T]) First() *Entry[T] {
	if q.ready.Len() == 0 {
		return nil
	}
	return q.ready.First().firstRun().entries.First()
}

// Take takes the entry that goes next out of the queue and returns it; nil if none may go. It is out, which its type
// counts until ReleaseType and its tenant until ReleaseTenant.
func (q *Queue[T]) Take() *Entry[T] {
	if q.ready.Len() == 0 {
		return nil
	}
	return q.TakeFrom(q.ready.First())
}

// TakeFrom is Take for one lane, which must be ready.
func (q *Queue[T]) TakeFrom(l *Lane[T]) *Entry[T] {
	e := l.firstRun().entries.First()
	l.rate.CountEvent(q.latest) // before the lane is placed, which looks at the rate
	q.takeOut(e)
	return e
}

// Hold lets an entry be out without its turn: somebody has it already. If it waits it is taken out of the queue, and the
// turn of its tenant is spent; the rate of its type is not.
func (q *Queue[T]) Hold(e *Entry[T]) {
	if e.place.In() {
		q.takeOut(e)
		return
	}
	n, l := q.tenantOf(e), q.laneOf(e.Type)
	q.countOut(e, l, n)
	q.placeTenant(n, nil)
	q.placeLane(l)
}

// takeOut takes an entry that waits, and its turn.
func (q *Queue[T]) takeOut(e *Entry[T]) {
	lr := e.in
	lt, r := lr.in, lr.run
	q.liftLanes(r)
	q.takeEntry(e)
	q.countOut(e, lt.lane, lt.tenant)
	if r.ready { // else it has no turn, and Hold has taken its entry
		lr.turn = takeTurn(&lt.runTurn, lr.turn)
		r.turn = takeTurn(&lt.tenant.runTurn, r.turn)
	}
	lt.turn, lt.tenant.turn = q.nextTurn(), q.nextTurn()
	q.placeRun(r)
}

// takeEntry takes an entry that waits out of its lane.
func (q *Queue[T]) takeEntry(e *Entry[T]) {
	e.in.in.lane.waiting--
	q.length--
	e.in.entries.Remove(e)
	e.in = nil
}

// countOut counts an entry that is out from now on.
func (q *Queue[T]) countOut(e *Entry[T], l *Lane[T], n *tenant[T]) {
	l.out++
	n.out++
	e.out, e.of = l, n
}

// takeTurn takes the turn of a run whose entry is taken, and returns its next one: not the one
// after its own, since it may have stood behind urgent entries.
func takeTurn(latest *int64, own int64) (next int64) {
	*latest = max(*latest, own)
	return *latest + 1
}

// nextTurn returns the turn of a tenant that is the last one from now on.
func (q *Queue[T]) nextTurn() int64 {
	q.turns++
	return q.turns
}

// Remove takes an entry out that is no longer wanted, if it waits.
func (q *Queue[T]) Remove(e *Entry[T]) {
	if !e.place.In() {
		return
	}
	r := e.in.run
	q.liftLanes(r)
	q.takeEntry(e)
	q.placeRun(r)
}

// Release notes that an entry is out no longer: ReleaseType and ReleaseTenant.
func (q *Queue[T]) Release(e *Entry[T]) {
	q.ReleaseType(e)
	q.ReleaseTenant(e)
}

// ResultReturned notes that a result of the run of an entry waits to be delivered from now on.
func (q *Queue[T]) ResultReturned(e *Entry[T]) {
	r := q.runOf(e)
	q.liftLanes(r)
	r.waiting++
	q.placeRun(r)
}

// ResultDelivered notes that a result of a run has ceased to wait.
func (q *Queue[T]) ResultDelivered(id string) {
	r := q.runs[id]
	q.liftLanes(r)
	r.waiting--
	q.placeRun(r)
}

// runOf returns what the queue knows of the run of an entry, made if it knows nothing.
func (q *Queue[T]) runOf(e *Entry[T]) *run[T] {
	r := q.runs[e.Run]
	if r == nil {
		n := q.tenantOf(e)
		n.runs++
		r = q.spareRuns.takeSpare()
		r.id, r.tenant = e.Run, n
		q.runs[e.Run] = r
	}
	return r
}

// runInLane returns what a run has in a lane, made if it has nothing there.
func (q *Queue[T]) runInLane(r *run[T], l *Lane[T]) *laneRun[T] {
	for _, lr := range r.lanes {
		if lr.in.lane == l {
			return lr
		}
	}
	lt := q.tenantInLane(r.tenant, l)
	lt.members++
	lr := q.spareLanes.takeSpare()
	if lr.run, lr.in = r, lt; lr.entries.IsZero() {
		lr.entries = heap.New((*Entry[T]).StartsBefore, func(e *Entry[T]) *heap.Place { return &e.place })
	}
	r.lanes = append(r.lanes, lr)
	return lr
}

// liftLanes takes the lanes of a run out of their heap until placeRun, and those of its tenant if the order of tenants
// matters: their order changes with its first entries and with turns, and elements that change are not to be compared.
func (q *Queue[T]) liftLanes(r *run[T]) {
	if q.isShared() {
		for _, lt := range r.tenant.lanes {
			q.ready.Remove(lt.lane)
		}
		return
	}
	for _, lr := range r.lanes {
		q.ready.Remove(lr.in.lane)
	}
}

// placeRun puts a run that has changed where it belongs in each of its lanes: into the
// heap of runs, out of it, or out of the queue. A run that comes to be ready gets the next
// turn: turns that it has missed are not made up for. That never puts it forward, for the
// turn of no run is later than the next.
func (q *Queue[T]) placeRun(r *run[T]) {
	some := slices.ContainsFunc(r.lanes, func(lr *laneRun[T]) bool { return lr.entries.Len() > 0 })
	was, n := r.ready, r.tenant
	r.ready = some && !q.isBackpressured(r)
	if r.ready && !was {
		n.ready++
		r.turn = n.runTurn + 1
	}
	if was && !r.ready {
		n.ready--
	}
	for _, lr := range r.lanes {
		if lr.entries.Len() > 0 && r.ready {
			if !lr.place.In() {
				lr.turn = lr.in.runTurn + 1
			}
			lr.in.runs.Put(lr)
		} else {
			lr.in.runs.Remove(lr)
		}
	}
	q.placeTenant(n, r)
	r.lanes = slices.DeleteFunc(r.lanes, func(lr *laneRun[T]) bool {
		if lr.entries.Len() > 0 {
			return false
		}
		lr.in.members--
		q.spareLanes.addSpare(lr, laneRun[T]{entries: lr.entries.Reuse()})
		return true
	})
	if len(r.lanes) == 0 && r.waiting == 0 {
		delete(q.runs, r.id)
		n.runs--
		q.spareRuns.addSpare(r, run[T]{lanes: r.lanes})
	}
	q.forgetUnused(n)
}

// isBackpressured reports whether so many results of a run wait that none of its entries goes.
func (q *Queue[T]) isBackpressured(r *run[T]) bool { return q.o.Most > 0 && r.waiting >= q.o.Most }

// startsBefore orders the runs of a tenant that may go on in a lane: by the priority of their
// first entry, then their turn, then the arrival of that entry.
func (r *laneRun[T]) startsBefore(other *laneRun[T]) bool {
	a, b := r.entries.First(), other.entries.First()
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(r.turn, other.turn), cmp.Compare(a.Order, b.Order)) < 0
}

// IsBackpressured reports whether an entry that waits may not go because results of its run wait to be delivered.
func (q *Queue[T]) IsBackpressured(e *Entry[T]) bool { return q.isBackpressured(e.in.run) }

// A Bound is what keeps an entry from going even if it were the next.
type Bound int

// The bounds.
const (
	NoBound     Bound = iota
	TenantBound       // as many entries of its tenant are out as may be
	TypeBound         // as many entries of its type are out as may be
	RateBound         // the rate of its type allows none for now
)

// BoundOn returns what bounds an entry that waits.
func (q *Queue[T]) BoundOn(e *Entry[T]) Bound {
	l := e.in.in.lane
	switch {
	case e.in.run.tenant.isFull():
		return TenantBound
	case l.isFull():
		return TypeBound
	case l.rate.NextEvent().After(q.latest):
		return RateBound
	}
	return NoBound
}

// maxSpares is how many values are kept.
const maxSpares = 64

// spares are values that are in use no more, and are taken as they were kept.
type spares[T any] struct{ of []*T }

// takeSpare returns a value for the caller, a new one if none was kept.
func (s *spares[T]) takeSpare() *T {
	n := len(s.of) - 1
	if n < 0 {
		return new(T)
	}
	v := s.of[n]
	s.of = s.of[:n]
	return v
}

// addSpare puts v back for the next takeSpare, reset to as.
func (s *spares[T]) addSpare(v *T, as T) {
	if *v = as; len(s.of) < maxSpares {
		s.of = append(s.of, v)
	}
}

// Fault says why a limit cannot be that of a task type; "" if it can.
func (l Limit) Fault(kind string) string {
	switch {
	case kind == "" || len(kind) > 255:
		return "a task type has 1 to 255 bytes"
	case l.Concurrency < 0:
		return fmt.Sprintf("Concurrency is %d: give how many tasks may run at once, or 0 for no bound", l.Concurrency)
	case !(l.Rate >= 0) || math.IsInf(l.Rate, 1):
		return fmt.Sprintf("Rate is %v: give how many tasks may begin per second, or 0 for no bound", l.Rate)
	case l.Burst < 0:
		return fmt.Sprintf("Burst is %d: give how many tasks may begin at once after a pause, or 0 for 1", l.Burst)
	case l.Burst > 0 && l.Rate == 0:
		return "there is a Burst without a Rate"
	}
	return ""
}
