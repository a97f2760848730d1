package dispatch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/taskqueue"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// maxPlaces is up to how many tasks that are held places in line are counted: that keeps tasks from beginning meanwhile.
const maxPlaces = 10_000

// A line has the tasks that wait, by the order in which they begin but for turns, and how many wait of each type with a limit
// and of each tenant.
type line struct {
	places  map[*Task]linePlace
	all     int
	lanes   map[string]int
	tenants map[string]int
}

// A linePlace is the place of a task among all that wait, those of its type, and those of its tenant.
type linePlace struct{ all, lane, tenant int }

// lineUp returns the line of the tasks that wait; one without places if there are too many. The caller holds the lock.
func (d *Dispatcher) lineUp() *line {
	n := &line{lanes: map[string]int{}, tenants: map[string]int{}, places: map[*Task]linePlace{}}
	if d.count > maxPlaces {
		return n
	}
	var waiting []*Task
	for t := range d.allHeld {
		if t.entry.Waits() {
			waiting = append(waiting, t)
		}
	}
	slices.SortFunc(waiting, func(a, b *Task) int {
		return cmp.Or(cmp.Compare(a.Node.Priority, b.Node.Priority), cmp.Compare(a.entry.Order, b.entry.Order))
	})
	n.all = len(waiting)
	for i, t := range waiting {
		l := d.queue.LaneName(t.Task)
		n.lanes[l]++
		n.tenants[t.Tenant]++
		n.places[t] = linePlace{i + 1, n.lanes[l], n.tenants[t.Tenant]}
	}
	return n
}

// queuedAs says how a task waits that nobody performs; nil if somebody does, or it is out elsewhere. known is the line, which is
// made where it is needed. The caller holds the lock.
func (d *Dispatcher) queuedAs(t *Task, known **line) *workflow.Queued {
	switch {
	case t.awaitsWorker():
		return &workflow.Queued{For: workflow.QueuedForWorker, Since: t.begun.asTime()}
	case !t.entry.Waits():
		return nil
	case *known == nil:
		*known = d.lineUp()
	}
	n, inLane := *known, (*known).lanes[d.queue.LaneName(t.Task)]
	at, w := n.places[t], &workflow.Queued{For: workflow.QueuedForSlot, Since: t.queued.asTime()}
	w.Place, w.Of = at.all, n.all
	if d.queue.IsBackpressured(&t.entry) {
		w.For = workflow.QueuedForResults
		return w
	}
	switch d.queue.BoundOn(&t.entry) {
	case taskqueue.TenantBound:
		w.For, w.Place, w.Of = workflow.QueuedForTenant, at.tenant, n.tenants[t.Tenant]
	case taskqueue.TypeBound:
		w.For, w.Place, w.Of = workflow.QueuedForType, at.lane, inLane
	case taskqueue.RateBound:
		w.For, w.Place, w.Of = workflow.QueuedForRate, at.lane, inLane
	case taskqueue.NoBound:
	}
	return w
}

// awaitsWorker reports whether an attempt is in a pool, and no worker has it.
func (t *Task) awaitsWorker() bool { return t.pooled && t.workerName() == "" }

// A sameTasks names the tasks of a run that Why tells of together.
type sameTasks struct {
	node    workflow.NodeID
	task    string
	attempt int
}

// MarkWaits adds to waits for tasks that are out how many of them are performed, and how the others wait. It takes the advice
// away from tasks that nobody performs: to skip one helps nobody. It looks at other attempts than the newest ones of the waits only for
// waits of several tasks, and leaves these as they are while too many attempts are held.
func (d *Dispatcher) MarkWaits(run workflow.RunID, waits []replay.Wait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	same := func(t *Task) sameTasks { return sameTasks{t.Node.ID, t.Task, t.Attempt} }
	of := map[sameTasks]*replay.Wait{}
	var newest []*Task
	several := false
	for i := range waits {
		w := &waits[i]
		t := d.newestAttempt(run, w.Token)
		if t == nil || w.Status != workflow.Dispatched || w.Count > 1 && d.count > maxPlaces {
			continue
		}
		of[same(t)], newest, several = w, append(newest, t), several || w.Count > 1
	}
	if len(of) == 0 {
		return
	}
	among := slices.Values(newest)
	if several {
		among = d.allHeld
	}
	var known *line
	for t := range among {
		if t.Run != run || t.outdated || of[same(t)] == nil {
			continue
		}
		w := of[same(t)]
		if t.isExecuted() {
			if w.Running++; w.Since.IsZero() || t.begun.asTime().Before(w.Since) {
				w.Since, w.Worker = t.begun.asTime(), t.workerName()
			}
		} else if q := d.queuedAs(t, &known); q != nil {
			if w.Waiting++; w.Queued == nil || cmp.Or(cmp.Compare(q.Place, w.Queued.Place), q.Since.Compare(w.Queued.Since)) < 0 {
				w.Queued = q
			}
		}
	}
	for _, w := range of {
		w.For += standingText(w)
		if w.Running == 0 && w.Waiting == w.Count {
			w.Try = nil
		}
	}
}

// standingText says how the tasks of a wait stand, behind what it waits for.
func standingText(w *replay.Wait) (text string) {
	if w.Running > 0 {
		text = ": runs since " + w.Since.UTC().Format(time.RFC3339)
		if w.Count > 1 {
			text = fmt.Sprintf(": %d run, the first since %s", w.Running, w.Since.UTC().Format(time.RFC3339))
		}
		if w.Worker != "" {
			text += " (" + w.Worker + ")"
		}
	}
	switch {
	case w.Waiting == 0:
	case w.Count == 1:
		text += ": " + w.Queued.String()
	default:
		text += fmt.Sprintf("; %d wait, the first is %v", w.Waiting, w.Queued)
	}
	return text
}

// NoteWorker notes who performs an attempt.
func (d *Dispatcher) NoteWorker(key, name string) {
	d.mu.Lock()
	t := d.heldTask(key)
	if t == nil {
		d.mu.Unlock()
		return
	}
	before := t.workerName()
	t.keepSeldom().worker, t.begun, t.pooled = name, instantOf(time.Now()), true
	waited, count := d.stands.noteWorker(t, before, instantOf(d.o.Hook.Now()))
	d.mu.Unlock()
	if count {
		d.stands.metrics.TaskBegan(t.Task, t.Tenant, waited)
	}
}

// WasDispatched reports whether a task that is held was dispatched before its run was loaded.
func (d *Dispatcher) WasDispatched(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.heldTask(key)
	return t != nil && t.Again
}

// A Standing is how the task of an attempt stands; zero if it is not held.
type Standing struct {
	Limited   bool      // it waits for the limit of its type or tenant
	Executing bool      // somebody performs it
	Since     time.Time // since when
	Worker    string    // who, if somebody has said so
	Queued    *workflow.Queued
}

// Standings returns how the tasks of some keys stand, each where its key is. Tasks cannot begin meanwhile.
func (d *Dispatcher) Standings(keys []string) []Standing {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Standing, len(keys))
	var known *line
	for i, key := range keys {
		t, s := d.heldTask(key), &out[i]
		switch {
		case t == nil:
			continue
		case t.entry.Waits():
			s.Limited = d.queue.BoundOn(&t.entry) != taskqueue.NoBound
		case t.isExecuted():
			s.Executing, s.Since, s.Worker = true, t.begun.asTime(), t.workerName()
		}
		s.Queued = d.queuedAs(t, &known)
	}
	return out
}

// Counts are how many tasks a dispatcher has. Their results are Waiting to be delivered, or come later: Pending.
type Counts struct{ Queued, Running, Waiting, Pending int }

// Counts returns how many tasks there are.
func (d *Dispatcher) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Counts{Queued: d.queue.Len(), Running: d.running, Waiting: d.waiting}
	// Tasks that are held and neither queued, running nor delivered come later. The counts need not agree at each
	// instant, hence the lower bound.
	c.Pending = max(0, d.count-c.Queued-c.Running-c.Waiting)
	return c
}

// isExecuted reports whether a handler has the attempt, or a worker that has said so.
func (t *Task) isExecuted() bool {
	return t.workerName() != "" || t.cancel != nil && !t.delivers && !t.pooled
}
