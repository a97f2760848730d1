package worker

import "time"

// unservedAfter is how long tasks wait for a worker that takes their type before the log
// tells of them.
const unservedAfter = 10 * time.Second

// unserved is what a queue knows of types that no worker takes. A type is told of once,
// and again only after a worker has taken it meanwhile.
//
// missing and tell name type queues and not types, since the log tells how many tasks wait. A type
// that was told leaves missing, so that nextDue does not name it any more.
type unserved struct {
	takers  map[string]int           // workers that take a type; "*" are those that take every type
	missing map[*typeQueue]time.Time // with tasks and no worker: since when, until it is told
	told    map[string]bool          // types
	tell    []*typeQueue             // for the log
}

func newUnserved() unserved {
	return unserved{takers: map[string]int{}, missing: map[*typeQueue]time.Time{}, told: map[string]bool{}}
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
			for _, l := range q.types { // in any order: each is looked at alone
				q.noteServed(l, now)
			}
			if taking {
				clear(q.told)
			}
			continue
		}
		if taking {
			delete(q.told, kind)
		}
		if l := q.types[kind]; l != nil {
			q.noteServed(l, now)
		}
	}
}

// noteServed notes whether a type has tasks that wait and no worker that takes them.
//
// refreshReady calls it at each change of a type queue, and setTaking when workers come or go. The
// first time at which both were true stays in missing until one is not.
func (q *queue) noteServed(l *typeQueue, now time.Time) {
	if l.queued == 0 || q.takers[l.kind] > 0 || q.takers[every] > 0 || q.told[l.kind] {
		delete(q.missing, l)
	} else if _, known := q.missing[l]; !known {
		q.missing[l] = now
	}
}

// tellUnserved has the log told of the types that have missed a worker for long.
func (q *queue) tellUnserved(now time.Time) {
	for l, since := range q.missing { // in any order: each is told by itself
		if since.Add(unservedAfter).After(now) {
			continue
		}
		delete(q.missing, l)
		q.told[l.kind] = true
		q.tell = append(q.tell, l)
	}
}

// logUnserved tells of the types that no worker takes. The lock is held.
func (p *Pool) logUnserved() {
	for _, l := range p.queue.tell {
		if !p.queue.drained { // else nobody gets anything
			p.options.Logger.Warn("worker: tasks wait, and no worker takes their type: start one with Pool.Start, or a Client with a handler for the type",
				"task", l.kind, "queued", l.queued, "workers", len(p.queue.workers))
		}
	}
	p.queue.tell = p.queue.tell[:0]
}
