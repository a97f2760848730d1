package worker

import "time"

// unservedAfter is how long tasks wait for a worker that takes their type before the log
// tells of them.
const unservedAfter = 10 * time.Second

// unserved is what a queue knows of types that no worker takes. A type is told of once,
// and again only after a worker has taken it meanwhile.
//
// A type that was told leaves missing, so that nextDue does not name it any more.
type unserved struct {
	takers  map[string]int       // workers that take a type; "*" are those that take every type
	missing map[string]time.Time // types with tasks and no worker: since when, until it is told
	told    map[string]bool      // types
	tell    []string             // types, for the log
}

func newUnserved() unserved {
	return unserved{takers: map[string]int{}, missing: map[string]time.Time{}, told: map[string]bool{}}
}

// setTaking counts a worker among those that take its types, or not any more.
func (q *queue) setTaking(s *workerState, taking bool, now time.Time) {
	if s.taking == taking {
		return
	}
	s.taking = taking
	for _, kind := range s.types {
		if taking {
			q.takers[kind]++
		} else if q.takers[kind]--; q.takers[kind] == 0 {
			delete(q.takers, kind)
		}
		if kind == every {
			for t := range q.tasks.Types() { // in any order: each is looked at alone
				q.noteServed(t.Type, now)
			}
			if taking {
				clear(q.told)
			}
			continue
		}
		if taking {
			delete(q.told, kind)
		}
		q.noteServed(kind, now)
	}
}

// noteServed notes whether a type has tasks that wait and no worker that takes them.
//
// It is called when a task of the type begins to wait or ceases to, and when workers come or go. The
// first time at which both were true stays in missing until one is not.
func (q *queue) noteServed(kind string, now time.Time) {
	if q.tasks.Waiting(kind) == 0 || q.takers[kind] > 0 || q.takers[every] > 0 || q.told[kind] {
		delete(q.missing, kind)
	} else if _, known := q.missing[kind]; !known {
		q.missing[kind] = now
	}
}

// tellUnserved has the log told of the types that have missed a worker for long.
func (q *queue) tellUnserved(now time.Time) {
	for kind, since := range q.missing { // in any order: each is told by itself
		if since.Add(unservedAfter).After(now) {
			continue
		}
		delete(q.missing, kind)
		q.told[kind] = true
		q.tell = append(q.tell, kind)
	}
}

// logUnserved tells of the types that no worker takes. The lock is held.
func (p *Pool) logUnserved() {
	for _, kind := range p.queue.tell {
		if !p.queue.drained { // else nobody gets anything
			p.options.Logger.Warn("worker: tasks wait, and no worker takes their type: start one with Pool.Start, or a Client with a handler for the type",
				"task", kind, "queued", p.queue.tasks.Waiting(kind), "workers", len(p.queue.workers))
		}
	}
	p.queue.tell = p.queue.tell[:0]
}
