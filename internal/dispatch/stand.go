package dispatch

import (
	"time"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/workflow"
)

// A stand is how an attempt stands, as metrics count it.
type stand uint8

const (
	nowhere   stand = iota // it is not held, or its result waits to be delivered
	waits                  // for a slot, a limit, or a worker
	performed              // by a handler or a worker
	elsewhere              // its result comes later
	standEnd
)

// An attemptMeter is what metrics know of an attempt. Without metrics an attempt has none.
type attemptMeter struct {
	counted stand
	ended   bool       // metrics have counted its end
	since   time.Time  // since when it waits, or did when it last waited
	place   heap.Place // among the waiting attempts of its type

	returned bool          // its handler has, with a result
	worked   time.Duration // until then
}

// stands count attempts by type. The zero value counts none; the lock of the dispatcher guards them.
type stands struct {
	metrics *telemetry.Metrics // nil without
	types   map[string]*typeStands
}

// typeStands count the attempts of one type.
type typeStands struct {
	count   [standEnd]int
	waiting heap.Heap[*Task] // the one first that has waited longest
}

// keptTypes is up to how many types are kept that have no attempt.
const keptTypes = telemetry.MaxNames

// standOf returns how an attempt stands.
func (t *Task) standOf() stand {
	switch {
	case !t.held:
		return nowhere
	case t.entry.Waits(), t.awaitsWorker():
		return waits
	case t.isExecuted():
		return performed
	case t.pending:
		return elsewhere
	}
	return nowhere
}

// countStand counts an attempt again, whose stand may have changed. The caller holds the lock.
func (s *stands) countStand(t *Task) {
	if s.metrics == nil {
		return
	}
	now := t.standOf()
	if now == t.meter.counted {
		return
	}
	of := s.typeOf(t.Task)
	if t.meter.counted != nowhere {
		of.count[t.meter.counted]--
	}
	of.waiting.Remove(t)
	if t.meter.counted = now; now != nowhere {
		of.count[now]++
	}
	if now == waits {
		of.waiting.Put(t)
	}
	if len(s.types) > keptTypes && of.count == [standEnd]int{} {
		delete(s.types, t.Task)
	}
}

// typeOf returns the counts of a type.
func (s *stands) typeOf(kind string) *typeStands {
	of := s.types[kind]
	if of == nil {
		of = &typeStands{waiting: heap.New(
			func(a, b *Task) bool { return a.meter.since.Before(b.meter.since) },
			func(t *Task) *heap.Place { return &t.meter.place },
		)}
		if s.types == nil {
			s.types = map[string]*typeStands{}
		}
		s.types[kind] = of
	}
	return of
}

// noteCame notes that an attempt begins to wait.
func (s *stands) noteCame(t *Task) {
	if s.metrics != nil {
		t.meter = &attemptMeter{since: time.Now()}
		s.countStand(t)
	}
}

// noteReturned notes that the handler of an attempt has returned, and returns how long the attempt had waited for it; false if
// a worker performs it, of whom NoteWorker tells. The caller holds the lock.
func (s *stands) noteReturned(t *Task) (waited time.Duration, count bool) {
	if s.metrics == nil || t.pooled {
		return 0, false
	}
	if !t.pending {
		t.meter.returned, t.meter.worked = true, t.workedSoFar()
	}
	return t.timeWaited(), true
}

// noteWorker notes that a worker has an attempt from now on, or has it no more, and returns how long the attempt had waited
// for it; false if nobody has it. The caller holds the lock.
func (s *stands) noteWorker(t *Task, before string) (waited time.Duration, count bool) {
	if s.metrics == nil {
		return 0, false
	}
	defer s.countStand(t)
	if before != "" && t.worker == "" {
		t.meter.since = t.begun.asTime()
		if !t.meter.ended {
			s.metrics.WorkerLost(t.Task, t.Tenant)
		}
	}
	return t.timeWaited(), before == "" && t.worker != ""
}

// Stands returns how the attempts of each type stand.
func (d *Dispatcher) Stands() []telemetry.TaskStand {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]telemetry.TaskStand, 0, len(d.stands.types))
	for kind, of := range d.stands.types {
		s := telemetry.TaskStand{Type: kind, Waiting: of.count[waits], Running: of.count[performed], Pending: of.count[elsewhere]}
		if of.waiting.Len() > 0 {
			s.Oldest = time.Since(of.waiting.First().meter.since)
		}
		out = append(out, s)
	}
	return out
}

// Rooms returns how much is in use of the bounds of types and of tenants.
func (d *Dispatcher) Rooms() (out []telemetry.Room) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range d.queue.Uses(time.Now()) {
		if u.Most > 0 {
			out = append(out, telemetry.Room{Bound: "type.tasks", Type: u.Type, Used: int64(u.Out), Most: int64(u.Most)})
		}
		if u.Burst > 0 {
			out = append(out, telemetry.Room{Bound: "type.rate", Type: u.Type, Used: int64(u.Burst - u.Left), Most: int64(u.Burst)})
		}
	}
	for n := range d.queue.Tenants() {
		if n.Bound > 0 {
			out = append(out, telemetry.Room{Bound: "tenant.tasks", Tenant: n.Tenant, Used: int64(n.Out), Most: int64(n.Bound)})
		}
	}
	return out
}

// EndAttempt counts the end of a token's attempt that is out, once, with how it has ended, and
// returns the type of its task, and whether there is one.
func (d *Dispatcher) EndAttempt(run workflow.RunID, token workflow.TokenID, o telemetry.Outcome, code string) (kind string, known bool) {
	if d.stands.metrics == nil {
		return "", false
	}
	d.mu.Lock()
	t := d.newestAttempt(run, token)
	if t == nil {
		d.mu.Unlock()
		return "", false
	}
	worked, first := t.endMeter()
	d.mu.Unlock()
	if first {
		d.stands.metrics.TaskEnded(t.Task, t.Tenant, o, code, worked)
	}
	return t.Task, true
}

// endMeter notes that metrics count the end of an attempt, and returns how long somebody has worked on it, and whether it is
// counted for the first time. The caller holds the lock.
func (t *Task) endMeter() (worked time.Duration, first bool) {
	if t.meter.ended {
		return 0, false
	}
	t.meter.ended = true
	switch {
	case t.meter.returned:
		return t.meter.worked, true
	case t.beganAt().IsZero(): // nobody has
		return 0, true
	}
	return t.workedSoFar(), true
}

// timeWaited returns how long the attempt had waited when it was begun, and workedSoFar how long ago that was: not less than 0,
// though instants are of the wall clock.
func (t *Task) timeWaited() time.Duration { return max(t.begun.asTime().Sub(t.meter.since), 0) }

func (t *Task) workedSoFar() time.Duration { return max(time.Since(t.begun.asTime()), 0) }
