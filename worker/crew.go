package worker

import (
	"time"

	"github.com/pawl-run/pawl"
)

// A standing says what a key is to a worker.
type standing int

const (
	unknown   standing = iota // the queue does not know the key
	holder                    // the worker holds it
	stranger                  // another worker holds it
	repeated                  // the worker has completed it
	elsewhere                 // another worker has completed it
)

// register adds a worker, or changes what one takes. It keeps what it holds, and
// asks for nothing yet, unless it is standing.
func (q *queue) register(r Registration, permanent bool, now time.Time) *seat {
	q.advance(now)
	s := q.seat(r.ID, now)
	q.unwait(s)
	s.types, s.any, s.capacity = r.Types, false, r.Capacity
	for _, kind := range r.Types {
		s.any = s.any || kind == every
	}
	if !s.joined {
		s.since = now
	}
	s.joined, s.draining, s.leaving, s.standing, s.asks = true, false, false, permanent, 0
	q.touch(s, now)
	q.settle(now, nil, s)
	return s
}

// seat returns the seat of a worker, made if there is none.
func (q *queue) seat(id string, now time.Time) *seat {
	s := q.seats[id]
	if s == nil {
		s = &seat{id: id, held: map[pawl.Key]*item{}, since: now, seen: now, kept: now}
		s.order = q.seen.PushBack(s)
		q.seats[id] = s
	}
	return s
}

// forget removes a seat, which must hold nothing.
func (q *queue) forget(s *seat) {
	q.unwait(s)
	q.seen.Remove(s.order)
	delete(q.seats, s.id)
}

// leave removes a worker. What it holds goes back to the heads of the lines;
// what a standing worker holds goes back when it lets go of it.
func (q *queue) leave(s *seat, now time.Time) {
	q.advance(now)
	q.unwait(s)
	s.leaving, s.asks = true, 0
	var lines []*line
	if !s.standing {
		for _, i := range s.holding() {
			if !i.closing {
				lines = append(lines, q.free(i, true, now))
			}
		}
	}
	if q.seats[s.id] == s && len(s.held) == 0 {
		q.forget(s)
	}
	q.settle(now, lines)
}

// drain lets a worker get nothing new until it registers again.
func (q *queue) drain(s *seat) {
	q.unwait(s)
	s.draining, s.asks = true, 0
}

// ask hands a worker up to n tasks now, and lets it wait for one if there are
// none.
func (q *queue) ask(s *seat, n int, now time.Time) {
	q.advance(now)
	q.touch(s, now)
	s.asks = n
	before := len(q.out)
	q.serve(s, now)
	if len(q.out) > before {
		s.asks = 0
	}
	q.wait(s)
}

// unask ends a wait.
func (q *queue) unask(s *seat, now time.Time) {
	q.advance(now)
	q.touch(s, now)
	q.unwait(s)
	s.asks = 0
}

// hold says that a worker works on a key: its lease begins again. If nobody
// holds the key, the worker does from now on. What was withdrawn is held on: it
// may be over, or the engine may be closed and about to dispatch it again, which
// the engine is to be asked about.
func (q *queue) hold(id string, k pawl.Key, now time.Time) standing {
	q.advance(now)
	i := q.items[k]
	switch {
	case i == nil:
		by, ok := q.ended.of[k]
		switch {
		case !ok:
			return unknown
		case by != id:
			return elsewhere
		}
		return repeated
	case i.seat == nil:
		q.adopt(i, id, now)
	case i.seat.id != id:
		return stranger
	}
	q.touch(i.seat, now)
	if !i.closing {
		q.renew(i, now)
	}
	return holder
}

// claim makes a worker the holder of a key that the engine has not dispatched
// yet in this life, but knows.
func (q *queue) claim(id string, k pawl.Key, now time.Time) {
	q.advance(now)
	if q.items[k] != nil {
		return
	}
	i := &item{task: pawl.Task{Key: k}}
	q.items[k] = i
	q.adopt(i, id, now)
}

// adopt gives a task to a worker that says that it has it.
func (q *queue) adopt(i *item, id string, now time.Time) {
	s := q.seat(id, now)
	q.take(i, s, now)
	s.asks = min(s.asks, s.free())
	if s.asks == 0 {
		q.unwait(s)
	}
}

// begin starts the completion of a key that a worker holds, or that nobody
// holds. Its lease stands still until finish or reopen.
func (q *queue) begin(id string, k pawl.Key, now time.Time) standing {
	at := q.hold(id, k, now)
	if at == holder {
		i := q.items[k]
		i.closing = true
		q.leases.Remove(i)
	}
	return at
}

// finish ends a completion that begin was called for. counted says that the
// result was taken, and failed that it is an error.
func (q *queue) finish(id string, k pawl.Key, counted, failed bool, now time.Time) {
	q.advance(now)
	i := q.items[k]
	if counted && q.ended.add(k, id) {
		s := q.seats[id]
		if s == nil {
			s = &seat{}
		}
		s.processed++
		q.processed++
		if failed {
			s.failed++
			q.failed++
		}
	}
	if i != nil && i.seat != nil && i.seat.id == id {
		s := i.seat
		q.settle(now, []*line{q.free(i, false, now)}, s)
	}
}

// reopen undoes begin: the result could not be taken for now.
func (q *queue) reopen(k pawl.Key, now time.Time) {
	q.advance(now)
	if i := q.items[k]; i != nil && i.closing {
		i.closing = false
		q.renew(i, now)
	}
}

// release gives a task back that a worker has not done.
func (q *queue) release(k pawl.Key, now time.Time) {
	q.advance(now)
	if i := q.items[k]; i != nil && i.seat != nil {
		s := i.seat
		q.settle(now, []*line{q.free(i, true, now)}, s)
	}
}

// maxEnded is how many completed keys the queue remembers. Of older ones the
// engine knows what they came to, but not by whom.
const maxEnded = 1 << 14

// A memory knows by whom the latest keys were completed.
type memory struct {
	of   map[pawl.Key]string
	ring []pawl.Key
	at   int
}

// add notes by whom a key was completed, and says whether that is new.
func (m *memory) add(k pawl.Key, by string) bool {
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
