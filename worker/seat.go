package worker

import (
	"container/list"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
)

// every is the type that stands for all types.
const every = "*"

// A seat is what the queue knows of a worker.
type seat struct {
	id       string
	types    []string
	any      bool // takes every type
	capacity int
	standing bool // it need not ask, and its leases do not run out: a worker of this process
	joined   bool // it has registered; one that only holds a key from before a restart has not
	draining bool // gets nothing new
	leaving  bool // is forgotten when it holds nothing

	held   map[pawl.Key]*item
	asks   int           // tasks that it waits for
	turn   int64         // since when it waits, as a number that grows
	places []waitingSeat // where it waits
	seen   time.Time     // its last contact
	kept   time.Time     // when its expiry began to count: then, or when it was found busy
	order  *list.Element // among the seats by that

	since     time.Time // registered
	processed int64
	failed    int64
	expired   int64
}

// A waitingSeat is an element of a list in which a seat waits.
type waitingSeat struct {
	line *line // nil: the list of those who take every type
	at   *list.Element
}

// free returns how many tasks the seat may get.
func (s *seat) free() int {
	if s.draining || s.leaving || !s.joined {
		return 0
	}
	return max(s.capacity-len(s.held), 0)
}

// holding returns what the seat holds, in the order of the queue.
func (s *seat) holding() []*item {
	return slices.SortedFunc(maps.Values(s.held), func(i, j *item) int {
		switch {
		case i.before(j):
			return -1
		case j.before(i):
			return 1
		}
		return 0
	})
}

// wait lets the seat wait for a task.
func (q *queue) wait(s *seat) {
	if s.asks == 0 || len(s.places) > 0 {
		return
	}
	q.turns++
	s.turn = q.turns
	if s.any {
		s.places = append(s.places, waitingSeat{at: q.anyone.PushBack(s)})
		return
	}
	for _, kind := range s.types {
		l := q.line(kind)
		s.places = append(s.places, waitingSeat{line: l, at: l.waiting.PushBack(s)})
	}
}

// unwait takes the seat out of the lists in which it waits.
func (q *queue) unwait(s *seat) {
	for _, w := range s.places {
		if w.line == nil {
			q.anyone.Remove(w.at)
			continue
		}
		w.line.waiting.Remove(w.at)
		q.sweep(w.line)
	}
	s.places = s.places[:0]
}

// longest returns the seat that has waited longest among those that take what
// is in l, nil if none waits.
func (q *queue) longest(l *line) *seat {
	var first *seat
	for _, waiting := range []*list.List{&l.waiting, &q.anyone} {
		if e := waiting.Front(); e != nil {
			if s := e.Value.(*seat); first == nil || s.turn < first.turn {
				first = s
			}
		}
	}
	return first
}

// best returns the line that the seat's next task is in, nil if none has one
// for it.
func (q *queue) best(s *seat) *line {
	if s.any {
		if q.ready.Len() > 0 {
			return q.ready.First()
		}
		return nil
	}
	var first *line
	for _, kind := range s.types {
		if l := q.lines[kind]; l != nil && l.place.In() && (first == nil || l.head().before(first.head())) {
			first = l
		}
	}
	return first
}

// touch notes a contact.
func (q *queue) touch(s *seat, now time.Time) {
	s.seen = now
	q.keep(s, now)
}

// keep lets the expiry of a seat begin to count again.
func (q *queue) keep(s *seat, now time.Time) {
	s.kept = now
	q.seen.MoveToBack(s.order)
}
