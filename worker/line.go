package worker

import (
	"container/list"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/heap"
)

// An item is a task that the queue knows: it waits in its line, or a seat holds
// it.
type item struct {
	task  pawl.Task
	known bool      // the engine has dispatched it; a claim before that has only a key
	owner int64     // which call of Execute it is from
	since time.Time // in the queue, or held

	place heap.Place // in its line

	seat      *seat      // the holder
	until     time.Time  // the end of the lease; zero if it does not run out
	lease     heap.Place // among the leases
	closing   bool       // its result is being committed: the lease stands still
	withdrawn bool       // the engine let go of it; its holder does not know yet
}

// before says which of two tasks is handed out first.
func (i *item) before(j *item) bool {
	if i.task.Priority != j.task.Priority {
		return i.task.Priority < j.task.Priority
	}
	return i.task.Order < j.task.Order
}

// A line is the tasks of one type that wait, and the seats that wait for one.
type line struct {
	kind    string
	items   heap.Heap[*item]
	waiting list.List // of *seat; seats that take every type wait elsewhere
	held    int       // tasks of this type that seats hold
	limit   Limit
	rate    bucket
	place   heap.Place // among the lines that are ready
}

func newLine(kind string, limit Limit) *line {
	return &line{
		kind: kind, limit: limit, rate: newBucket(limit),
		items: heap.New((*item).before, func(i *item) *heap.Place { return &i.place }),
	}
}

// head returns the task that is next. There must be one.
func (l *line) head() *item { return l.items.First() }

// free returns when the line may hand out its next task as far as its rate is
// concerned, and false if it has none or as many as may be are held.
func (l *line) free() (time.Time, bool) {
	if l.items.Len() == 0 || l.limit.Concurrency > 0 && l.held >= l.limit.Concurrency {
		return time.Time{}, false
	}
	return l.rate.free(), true
}

// idle says that nothing is lost when the line is forgotten.
func (l *line) idle() bool {
	return l.items.Len() == 0 && l.waiting.Len() == 0 && l.held == 0 && l.rate.due.IsZero()
}
