package worker

import (
	"container/list"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/heap"
)

// A queue is the coordinator's state: tasks that wait, seats, and leases. It has
// no lock, no goroutine and no clock: the caller passes the time, which must not
// go back, and takes what was handed out from out. After every method no task
// waits that a seat which waits could take.
type queue struct {
	lease  time.Duration    // of a task
	expiry time.Duration    // of a seat without contact
	limits map[string]Limit // by type; "*" for those without one of their own

	items  map[pawl.Key]*item
	lines  map[string]*line
	ready  heap.Heap[*line]   // lines that may hand out a task now
	paced  map[*line]struct{} // lines that wait for their rate
	leases heap.Heap[*item]
	seats  map[string]*seat
	anyone list.List // seats that wait and take every type
	seen   list.List // all seats, by when they were kept
	turns  int64
	ended  memory

	drained bool // nothing is handed out any more
	out     []assignment

	processed, failed, expired int64
}

// An assignment is a task that has been handed out.
type assignment struct {
	seat *seat
	item *item
}

func newQueue(lease, expiry time.Duration, limits map[string]Limit) *queue {
	return &queue{
		lease: lease, expiry: expiry, limits: limits,
		items: map[pawl.Key]*item{}, lines: map[string]*line{}, paced: map[*line]struct{}{}, seats: map[string]*seat{},
		ready: heap.New(
			func(a, b *line) bool { return a.head().before(b.head()) },
			func(l *line) *heap.Place { return &l.place },
		),
		leases: heap.New(
			func(a, b *item) bool { return a.until.Before(b.until) },
			func(i *item) *heap.Place { return &i.lease },
		),
	}
}

// add takes a task that the engine has dispatched. A key that is known keeps its
// holder; owner says which of several adds of a key the last one was.
func (q *queue) add(t pawl.Task, owner int64, now time.Time) {
	q.advance(now)
	i := q.items[t.Key]
	if i == nil {
		i = &item{since: now}
		q.items[t.Key] = i
	}
	was := q.line(i.task.Type)
	i.task, i.owner, i.known, i.withdrawn = t, owner, true, false
	l := q.line(t.Type)
	if i.seat == nil {
		l.items.Put(i)
	} else if was != l { // a claim, whose type was not known
		was.held--
		l.held++
	}
	q.refresh(l, now)
	q.settle(now, []*line{l, was})
}

// withdraw removes a task that is over. Its holder keeps its place until it
// knows; it is returned, nil if there is none.
func (q *queue) withdraw(k pawl.Key, owner int64, now time.Time) *seat {
	q.advance(now)
	i := q.items[k]
	if i == nil || i.owner != owner {
		return nil
	}
	if i.seat != nil {
		i.withdrawn = true
		return i.seat
	}
	delete(q.items, k)
	l := q.line(i.task.Type)
	l.items.Remove(i)
	q.refresh(l, now)
	q.settle(now, []*line{l})
	return nil
}

// line returns the line of a type, made if there is none.
func (q *queue) line(kind string) *line {
	l := q.lines[kind]
	if l == nil {
		limit, ok := q.limits[kind]
		if !ok {
			limit = q.limits[every]
		}
		l = newLine(kind, limit)
		q.lines[kind] = l
	}
	return l
}

// sweep forgets a line that nobody needs.
func (q *queue) sweep(l *line) {
	if l.idle() && q.lines[l.kind] == l {
		delete(q.lines, l.kind)
		delete(q.paced, l)
	}
}

// refresh notes whether a line may hand out a task now.
func (q *queue) refresh(l *line, now time.Time) {
	at, some := l.free()
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

// settle hands out what lines have for seats that wait, and then what standing
// seats can take. It ends every method that may have made either free.
func (q *queue) settle(now time.Time, lines []*line, seats ...*seat) {
	for !q.drained {
		var first *line
		for _, l := range lines {
			if l.place.In() && (first == nil || l.head().before(first.head())) && q.longest(l) != nil {
				first = l
			}
		}
		if first == nil {
			break
		}
		s := q.longest(first)
		q.assign(first, s, now)
		if !s.standing {
			s.asks = 0 // what it asked for is on its way
		}
		q.unwait(s)
		q.wait(s)
	}
	for _, s := range seats {
		if s.standing && q.seats[s.id] == s {
			q.serve(s, now)
			q.wait(s)
		}
	}
	for _, l := range lines {
		q.sweep(l)
	}
}

// serve hands a seat the tasks that it asks for, as far as there are any.
func (q *queue) serve(s *seat, now time.Time) {
	q.unwait(s)
	if s.standing {
		s.asks = s.free()
	}
	s.asks = min(s.asks, s.free())
	for s.asks > 0 && !q.drained {
		l := q.best(s)
		if l == nil {
			break
		}
		q.assign(l, s, now)
	}
}

// assign gives the head of a line to a seat.
func (q *queue) assign(l *line, s *seat, now time.Time) {
	i := l.head()
	l.rate.take(now)
	q.take(i, s, now)
	s.asks--
	q.out = append(q.out, assignment{s, i})
}

// take makes a seat the holder of a task that waits.
func (q *queue) take(i *item, s *seat, now time.Time) {
	l := q.line(i.task.Type)
	l.items.Remove(i)
	l.held++
	i.seat, i.since = s, now
	s.held[i.task.Key] = i
	q.renew(i, now)
	q.refresh(l, now)
}

// renew lets the lease of a held task begin again.
func (q *queue) renew(i *item, now time.Time) {
	if i.seat.standing {
		return
	}
	i.until = now.Add(q.lease)
	q.leases.Put(i)
}

// free takes a task from its holder and returns its line. The task goes back to
// the head of its line, or is forgotten if it is over or was never there.
func (q *queue) free(i *item, requeue bool, now time.Time) *line {
	s, l := i.seat, q.line(i.task.Type)
	delete(s.held, i.task.Key)
	q.leases.Remove(i)
	l.held--
	i.seat, i.until, i.closing = nil, time.Time{}, false
	if requeue && i.known && !i.withdrawn {
		i.since = now
		l.items.Put(i) // it keeps its order: it is before all that came later
	} else {
		delete(q.items, i.task.Key)
	}
	q.refresh(l, now)
	if s.leaving && len(s.held) == 0 {
		q.forget(s)
	}
	return l
}

// advance does what is due: leases expire, seats without contact are forgotten,
// and lines whose rate kept them go on.
func (q *queue) advance(now time.Time) {
	var lines []*line
	for q.leases.Len() > 0 && !q.leases.First().until.After(now) {
		i := q.leases.First()
		i.seat.expired++
		q.expired++
		lines = append(lines, q.free(i, true, now))
	}
	for l := range q.paced { // in any order: each is looked at alone
		if at, some := l.free(); some && !at.After(now) {
			q.refresh(l, now)
			lines = append(lines, l)
		}
	}
	for e := q.seen.Front(); e != nil; e = q.seen.Front() {
		s := e.Value.(*seat)
		if s.kept.Add(q.expiry).After(now) {
			break
		}
		if s.standing || len(s.held) > 0 || len(s.places) > 0 {
			q.keep(s, now)
			continue
		}
		q.forget(s)
	}
	if lines != nil {
		q.settle(now, lines)
	}
}

// next returns when something will be due, zero if never.
func (q *queue) next() time.Time {
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
		earlier(e.Value.(*seat).kept.Add(q.expiry))
	}
	for l := range q.paced {
		if at, some := l.free(); some {
			earlier(at)
		}
	}
	return first
}
