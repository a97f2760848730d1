package dispatch

import (
	"time"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/workflow"
)

// A stand is how an attempt stands, as it is counted.
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
	ended    bool          // metrics have counted its end
	returned bool          // its handler has, with a result
	worked   time.Duration // until then
}

// stands count attempts by type, as they come and go. The zero value counts none; the lock of the dispatcher guards them.
type stands struct {
	metrics *telemetry.Metrics // nil without
	types   map[string]*typeStands
}

// typeStands count the attempts of one type.
type typeStands struct {
	count   [standEnd]int
	waiting standLine // by when they began to wait
	running standLine // that are performed, by when somebody began to
}

// A standLine has attempts by an instant of each, and knows the one with the earliest. Nearly all come in that order, so they are in a list:
// to come and to go costs nothing that grows with the line. A heap has the few that come behind others whose instant is later.
type standLine struct {
	first, last *Task // of the list; nil if it is empty
	late        heap.Heap[*Task]
	since       func(*Task) instant
}

func newStandLine(since func(*Task) instant) standLine {
	return standLine{
		since: since,
		late:  heap.New(func(a, b *Task) bool { return since(a) < since(b) }, func(t *Task) *heap.Place { return &t.place }),
	}
}

// addTask adds an attempt that is in no line.
func (l *standLine) addTask(t *Task) {
	switch {
	case l.last == nil:
		l.first = t
	case l.since(l.last) > l.since(t):
		l.late.Put(t)
		return
	default:
		l.last.after = t
	}
	t.before, l.last = l.last, t
}

// removeTask takes an attempt out, which is in the line.
func (l *standLine) removeTask(t *Task) {
	if t.place.In() {
		l.late.Remove(t)
		return
	}
	if t.before == nil {
		l.first = t.after
	} else {
		t.before.after = t.after
	}
	if t.after == nil {
		l.last = t.before
	} else {
		t.after.before = t.before
	}
	t.before, t.after = nil, nil
}

// firstInstant returns the instant of the attempt with the earliest. There must be one.
func (l *standLine) firstInstant() instant {
	switch {
	case l.late.Len() == 0:
		return l.since(l.first)
	case l.first == nil:
		return l.since(l.late.First())
	}
	return min(l.since(l.first), l.since(l.late.First()))
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
	now := t.standOf()
	if now == t.counted {
		return
	}
	of := t.countedIn
	if t.counted == nowhere {
		of = s.typeOf(t.Task)
		t.countedIn = of
	} else {
		of.count[t.counted]--
		of.leaveLine(t)
	}
	t.counted = now
	if now != nowhere {
		of.count[now]++
		of.enterLine(t)
	} else if t.countedIn = nil; of.count == [standEnd]int{} {
		s.emptyType(t.Task, of)
	}
}

// leaveLine takes an attempt out of the line of its stand, if that has one.
func (of *typeStands) leaveLine(t *Task) {
	switch t.counted {
	case waits:
		of.waiting.removeTask(t)
	case performed:
		of.running.removeTask(t)
	case nowhere, elsewhere, standEnd:
	}
}

// enterLine puts an attempt into the line of its stand, if that has one.
func (of *typeStands) enterLine(t *Task) {
	switch t.counted {
	case waits:
		of.waiting.addTask(t)
	case performed:
		of.running.addTask(t)
	case nowhere, elsewhere, standEnd:
	}
}

// emptyType gives back what a type takes that has no attempt.
func (s *stands) emptyType(kind string, of *typeStands) {
	of.waiting.late, of.running.late = of.waiting.late.Reuse(), of.running.late.Reuse()
	if len(s.types) > keptTypes {
		delete(s.types, kind)
	}
}

// typeOf returns the counts of a type.
func (s *stands) typeOf(kind string) *typeStands {
	of := s.types[kind]
	if of == nil {
		of = &typeStands{
			waiting: newStandLine(func(t *Task) instant { return t.waited }),
			running: newStandLine(func(t *Task) instant { return instant(t.performed.Load()) }),
		}
		if s.types == nil {
			s.types = map[string]*typeStands{}
		}
		s.types[kind] = of
	}
	return of
}

// loads returns the counts of all types, in no order, with how long one of the waiting has waited, and one of the performed is performed.
func (s *stands) loads(now instant) []history.TypeLoad {
	out := make([]history.TypeLoad, 0, len(s.types))
	for kind, of := range s.types {
		l := history.TypeLoad{Task: kind, Waiting: of.count[waits], Running: of.count[performed], Pending: of.count[elsewhere]}
		if l.Waiting > 0 {
			l.Oldest = of.waiting.firstInstant().until(now)
		}
		if l.Running > 0 {
			l.Longest = of.running.firstInstant().until(now)
		}
		out = append(out, l)
	}
	return out
}

// noteCame notes that an attempt begins to wait.
func (s *stands) noteCame(t *Task) {
	if t.waited = t.queued; s.metrics != nil {
		t.meter = &attemptMeter{}
	}
	s.countStand(t)
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
// for it; false if nobody has it, or nobody asks. The caller holds the lock.
func (s *stands) noteWorker(t *Task, before string, now instant) (waited time.Duration, count bool) {
	if t.countedIn != nil {
		t.countedIn.leaveLine(t) // while its instants are those by which it came there
	}
	switch {
	case t.workerName() != "":
		t.performed.Store(int64(now))
	case before != "":
		t.performed.Store(0)
		t.waited = now
		if s.metrics != nil && !t.meter.ended {
			s.metrics.WorkerLost(t.Task, t.Tenant)
		}
	default:
		t.performed.Store(0)
	}
	if t.countedIn != nil {
		t.countedIn.enterLine(t)
	}
	s.countStand(t)
	return t.timeWaited(), s.metrics != nil && before == "" && t.workerName() != ""
}

// Stands returns how the attempts of each type stand, of those that had some as well.
func (d *Dispatcher) Stands() []telemetry.TaskStand {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]telemetry.TaskStand, 0, len(d.stands.types))
	for _, l := range d.stands.loads(instantOf(d.o.Hook.Now())) {
		out = append(out, telemetry.TaskStand{Type: l.Task, Waiting: l.Waiting, Running: l.Running, Pending: l.Pending, Oldest: l.Oldest})
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

// timeWaited returns how long the attempt had waited when somebody began to perform it, and workedSoFar how long ago it was begun: not less
// than 0, though instants are of the wall clock.
func (t *Task) timeWaited() time.Duration { return t.waited.until(instant(t.performed.Load())) }

func (t *Task) workedSoFar() time.Duration { return max(time.Since(t.begun.asTime()), 0) }
