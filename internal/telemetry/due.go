package telemetry

import (
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/workflow"
)

// alarms are those of the runs in memory, each with the instant at which it is due. A run whose commit hangs cannot say that its
// alarm is late: so its alarm stands here from when it is set. The zero value has none.
type alarms struct {
	mu   sync.Mutex
	of   map[workflow.RunID]*alarm
	next heap.Heap[*alarm]
}

// An alarm is that of a run.
type alarm struct {
	at    time.Time
	place heap.Place
}

// AlarmSet notes when the alarm of a run in memory is due; zero if it has none, or is in memory no more.
func (m *Metrics) AlarmSet(run workflow.RunID, at time.Time) {
	if m == nil {
		return
	}
	a := &m.alarms
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[workflow.RunID]*alarm{}
		a.next = heap.New(func(x, y *alarm) bool { return x.at.Before(y.at) }, func(x *alarm) *heap.Place { return &x.place })
	}
	now := a.of[run]
	if at.IsZero() {
		if now != nil {
			a.next.Remove(now)
			delete(a.of, run)
		}
		return
	}
	if now == nil {
		now = &alarm{}
		a.of[run] = now
	}
	now.at = at
	a.next.Put(now)
}

// earliestDue returns when the earliest alarm was due that is due and not committed, of any run; zero without one.
func (m *Metrics) earliestDue(now time.Time) time.Time {
	at := m.sources.Overdue()
	a := &m.alarms
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.of) > 0 {
		if first := a.next.First().at; at.IsZero() || first.Before(at) {
			at = first
		}
	}
	if at.After(now) {
		return time.Time{}
	}
	return at
}

// mailboxes are those that were found to fill up. The zero value has none.
type mailboxes struct {
	mu   sync.Mutex
	most int64
	of   map[Mailbox]struct{}
}

// A Mailbox says how many messages wait in it. It must be comparable.
type Mailbox interface{ Waiting() int }

const (
	fillsUp      = 4    // a mailbox counts from when it is full to one part of so many
	maxMailboxes = 1024 // that are kept between two collections
)

// MailboxFilled notes how many messages wait in a mailbox behind one that has come, of so many that may. Most mailboxes have
// one at a time, which costs a comparison.
func (m *Metrics) MailboxFilled(b Mailbox, waiting, most int) {
	if m == nil || waiting*fillsUp < most {
		return
	}
	x := &m.mailboxes
	x.mu.Lock()
	defer x.mu.Unlock()
	x.most = int64(most)
	if x.of == nil {
		x.of = map[Mailbox]struct{}{}
	}
	if len(x.of) >= maxMailboxes {
		x.forgetEmpty()
	}
	if len(x.of) < maxMailboxes {
		x.of[b] = struct{}{}
	}
}

// forgetEmpty forgets the mailboxes that do not fill up any more, and returns how many messages the fullest has. The lock is
// held.
func (x *mailboxes) forgetEmpty() (fullest int64) {
	for b := range x.of {
		n := int64(b.Waiting())
		if n*fillsUp < x.most {
			delete(x.of, b)
			continue
		}
		fullest = max(fullest, n)
	}
	return fullest
}

// room says how full the fullest mailbox is: empty, unless it has filled up.
func (x *mailboxes) room() Room {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Room{Bound: "mailbox", Used: x.forgetEmpty(), Most: max(x.most, 1)}
}
