// Package dispatch performs the tasks that runs have dispatched, and brings their results back to the runs.
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/taskqueue"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/timing"
	"github.com/pawl-run/pawl/internal/tracing"
	"github.com/pawl-run/pawl/workflow"
)

// A Host is the engine as its dispatcher sees it. Its methods are called without the lock of the dispatcher, but for IsUnwanted,
// PinBlobs and UnpinBlobs.
type Host interface {
	// Execute performs a task, in the goroutine that calls it.
	Execute(ctx context.Context, t *Task) (output any, err error)
	// Result returns the message that says what Execute has returned, nil if the result comes later; and what lets the blobs of
	// the result go, nil if there are none: it is called when the result is delivered.
	Result(ctx context.Context, t *Task, output any, err error) (m state.Message, unpin func())
	// Panicked returns the failure of a task that has panicked, with the stack.
	Panicked(t *Task, value any, stack []byte) workflow.Failure
	// Deliver hands a result to its run. If the answer is pending, Answered is called with it.
	Deliver(t *Task, m state.Message) (pending bool, err error)
	// DeliverAgain does so until the outcome is known, or ctx is done, after a delivery that ended with err. It reports
	// false if the run has taken no result of the attempt.
	DeliverAgain(ctx context.Context, t *Task, m state.Message, err error) (taken bool)
	// Ask delivers a message to a run and waits until the answer is committed.
	Ask(run workflow.RunID, m state.Message) error
	// IsUnwanted reports whether a run is to be cancelled, which it is told in a moment.
	IsUnwanted(run workflow.RunID) bool
	// PinBlobs keeps blobs from being collected until UnpinBlobs is called with each of them.
	PinBlobs(hashes ...string)
	UnpinBlobs(hashes ...string)
}

// Options say for whom a dispatcher works, and how.
type Options struct {
	Host        Host
	Most        int                             // tasks that run at once
	Batch       int                             // results that are finished together at most
	Types       map[string]taskqueue.Limit      // by task type; "*" for those without one of their own
	TenantLimit func(tenant string) TenantLimit // is called under the lock of the dispatcher
	Metrics     *telemetry.Metrics              // nil without
	Timings     *timing.Counters                // get every attempt that has ended; those of its own if nil
	Tracer      *tracing.Tracer                 // nil without
	Hook        *testhook.Hook
}

// A TenantLimit bounds how many tasks of a tenant run; the zero value is no bound.
type TenantLimit struct {
	Concurrency int
	Pending     bool // a task with a result that comes later counts until it is over
}

// A Dispatcher hands tasks to the executor: those of lower priority number
// first, runs in turn among equals, first come first served within a run, at most
// so many at once, and of each type no more than its limit allows; a task that waits for
// that holds no slot. A task counts until it has a result, not until that is delivered:
// a run that is slow to take its results holds up no other. While as many of its
// results wait as there may be tasks at once, it begins no further one.
//
// A key is executed once at a time. Each task that
// runs has one goroutine; there are none without work. If the run does nothing else when a task returns, its goroutine
// has the turn of the run that takes the result, and goes on with
// the task that follows: a step of a chain switches between no goroutines. Otherwise the result waits in the run's mailbox,
// without a goroutine unless that is full, and one for all results takes note of the answers.
//
// A task goes through these: Dispatch queues it; fillSlots starts it when a slot, its type
// and its tenant allow it; runTask executes it; taskReturned frees the slot; handResult has the result
// delivered and committed; finishTask forgets it. Withdraw may come at any of these
// points. All under mu, but for the execution and the delivery.
type Dispatcher struct {
	o      Options
	ctx    context.Context // of every task
	kept   context.Context // as ctx, but for its end
	single bool            // processor, when the engine was opened

	mu      sync.Mutex
	queue   *taskqueue.Queue[*Task]
	held    map[outKey]*Task // the newest of each token; the others behind it
	count   int              // of what is held
	order   int64            // of arrival
	running int              // tasks that the executor has
	waiting int              // results that wait to be delivered
	stopped bool
	timer   *time.Timer // fires when the rate of a type allows its next task
	group   sync.WaitGroup

	stands  stands
	results answeredResults // has a lock of its own

	heldMu sync.Mutex // taken beside mu to change held: CountEnds, in the way of every commit, reads it with this one alone
}

// An outKey names a token. One attempt of it at a time is wanted.
type outKey struct {
	run   workflow.RunID
	token workflow.TokenID
}

// A Task is an attempt that the dispatcher holds: queued, running,
// returned and not yet delivered, or pending elsewhere. There may be as many as a run has branches, and Go's collector looks at a
// header above 512 bytes: what few tasks have is apart.
type Task struct {
	actor.Dispatch
	entry     taskqueue.Entry[*Task]
	older     *Task // the attempt of its token before it that is held
	held      bool  // until it is forgotten
	outdated  bool  // there is a newer attempt, or was
	withdrawn bool
	pending   bool            // the handler said that the result comes later
	delivers  bool            // it has a result, which waits to be delivered
	refused   bool            // the run did not take its result, or one that came from outside
	pooled    bool            // it is given to workers, who say when one has it
	timed     bool            // its end has been counted; under heldMu
	spanned   bool            // its end has made a span, or will
	counted   stand           // how it stands, as it is counted
	place     heap.Place      // in its line, if it came there late
	ctx       context.Context // of the handler, until cancel
	cancel    context.CancelCauseFunc
	seldom    *seldom          // what few attempts have; nil without
	pulse     *pulse           // nil before its first heartbeat
	begun     instant          // when the executor, or a worker, got it
	queued    instant          // when it came
	returned  atomic.Int64     // the instant at which its handler did, with a result
	performed atomic.Int64     // the instant at which somebody began to perform it; 0 if nobody has. A task that runs may ask without the lock
	waited    instant          // since when it waits, or did when it last waited
	countedIn *typeStands      // with those of its type; nil if it stands nowhere
	before    *Task            // in the list of its line
	after     *Task            // likewise
	meter     *attemptMeter    // nil without metrics
	span      *tracing.Attempt // nil without traces, and before it begins
}

// A seldom is what few attempts have.
type seldom struct {
	pins    []string        // blobs that it has put
	unpin   func()          // lets the blobs of its result go; nil if there are none
	again   *actor.Dispatch // the same attempt, sent again meanwhile
	outside int             // results from outside that are on their way
	worker  string          // of a pool that performs it, if somebody has said so
}

// keepSeldom returns what few attempts have, to be changed. The caller holds the lock.
func (t *Task) keepSeldom() *seldom {
	if t.seldom == nil {
		t.seldom = new(seldom)
	}
	return t.seldom
}

// workerName returns who performs the attempt, if somebody has said so. The caller holds the lock.
func (t *Task) workerName() string {
	if t.seldom == nil {
		return ""
	}
	return t.seldom.worker
}

// An instant is a time of a task, in microseconds since the Unix epoch; 0 stands for no time. It has no pointer, as a time.Time has.
type instant int64

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.UnixMicro())
}

// until returns how long after i another instant is; 0 if it is before, as the clock may go back.
func (i instant) until(end instant) time.Duration {
	return max(time.Duration(end-i)*time.Microsecond, 0)
}

func (i instant) asTime() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(i))
}

// AttemptOf returns what names an attempt.
func AttemptOf(a *actor.Dispatch) taskkey.Attempt {
	return taskkey.Attempt{Run: a.Run, Token: a.Token, Number: a.Attempt, Epoch: a.Epoch}
}

// Name returns what names the attempt.
func (t *Task) Name() taskkey.Attempt { return AttemptOf(&t.Dispatch) }

// Order returns the place of the attempt in the order in which the dispatcher got its tasks.
func (t *Task) Order() int64 { return t.entry.Order }

// Times returns when the dispatcher got the attempt, and when somebody began to perform it; zero if nobody has.
func (t *Task) Times() (queued, performed time.Time) { return t.queued.asTime(), t.beganAt() }

// BeganMilli returns what a result says of when somebody began to perform the attempt: milliseconds since the Unix epoch, 0 if
// nobody has. The dispatcher copies all other messages to add it.
func (t *Task) BeganMilli() int64 {
	if at := t.beganAt(); !at.IsZero() {
		return at.UnixMilli()
	}
	return 0
}

// beganAt returns when somebody began to perform the attempt; zero if nobody has.
func (t *Task) beganAt() time.Time { return instant(t.performed.Load()).asTime() }

// heldAttempt returns an attempt, if it is held; nil if not. The caller holds the lock.
func (d *Dispatcher) heldAttempt(a taskkey.Attempt) *Task {
	t := d.held[outKey{a.Run, a.Token}]
	for t != nil && (t.Attempt != a.Number || t.Epoch != a.Epoch) {
		t = t.older
	}
	return t
}

// newestAttempt returns the newest attempt of a token, if it is held; nil if not. The caller holds the lock, or heldMu.
func (d *Dispatcher) newestAttempt(run workflow.RunID, token workflow.TokenID) *Task {
	if t := d.held[outKey{run, token}]; t != nil && !t.outdated {
		return t
	}
	return nil
}

// heldTask returns the attempt of a key that was checked or made here, if it is held; nil if not. The caller holds the lock.
func (d *Dispatcher) heldTask(key string) *Task {
	a, ok := taskkey.AttemptOf(key)
	if !ok {
		return nil
	}
	return d.heldAttempt(a)
}

// allHeld yields every attempt that is held, in any order. The caller holds the lock.
func (d *Dispatcher) allHeld(yield func(*Task) bool) {
	for _, t := range d.held {
		for ; t != nil; t = t.older {
			if !yield(t) {
				return
			}
		}
	}
}

// New returns a dispatcher that has no task. ctx is the context of every task.
func New(ctx context.Context, o Options) *Dispatcher {
	if o.Timings == nil {
		o.Timings = &timing.Counters{}
	}
	d := &Dispatcher{
		o: o, ctx: ctx, kept: context.WithoutCancel(ctx), single: runtime.GOMAXPROCS(0) == 1,
		queue: taskqueue.New[*Task](taskqueue.Options{Most: o.Most, Types: o.Types}), held: map[outKey]*Task{},
		stands: stands{metrics: o.Metrics},
	}
	d.timer = time.AfterFunc(time.Hour, d.fillFreeSlots)
	d.timer.Stop()
	return d
}

// Dispatch takes an attempt. It returns at once.
//
// A run sends its tasks when their decision is committed, and again when it is activated. An
// attempt that is held is therefore nothing new, with one exception: its result may be on its
// way to a run that will not take it; then this one is remembered, and is queued when the other
// is over.
func (d *Dispatcher) Dispatch(a actor.Dispatch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	if t := d.heldAttempt(AttemptOf(&a)); t != nil {
		if t.delivers || t.refused || t.seldom != nil && t.seldom.outside > 0 { // if the run refuses its result, or has, it waits for this one
			again := a
			t.keepSeldom().again, t.withdrawn = &again, false
		}
		return
	}
	d.queueTask(a)
	if !a.Returns { // its sender does when it returns
		d.fillSlots()
	}
}

// queueTask queues an attempt that is not held. The caller holds the lock.
func (d *Dispatcher) queueTask(a actor.Dispatch) {
	d.order++
	t := &Task{Dispatch: a, queued: instantOf(d.o.Hook.Now())}
	t.entry = taskqueue.Entry[*Task]{
		Item: t, Type: a.Task, Tenant: a.Tenant, Run: string(a.Run), Priority: a.Node.Priority, Order: d.order,
		Bound: d.o.TenantLimit(a.Tenant).Concurrency,
	}
	d.holdTask(t)
	d.queue.Put(&t.entry)
	d.stands.noteCame(t)
}

// holdTask holds an attempt, the newest of its token. The caller holds the lock.
func (d *Dispatcher) holdTask(t *Task) {
	at := outKey{t.Run, t.Token}
	d.heldMu.Lock()
	defer d.heldMu.Unlock()
	t.held, t.older = true, d.held[at]
	for older := t.older; older != nil && !older.outdated; older = older.older {
		older.outdated = true
	}
	d.held[at] = t
	d.count++
}

// fillSlots begins tasks while there are slots and tasks for them. The caller holds the
// lock.
//
// It is called whenever one of its conditions may have changed: a task came, one returned, a
// result was delivered, time passed for a rate.
func (d *Dispatcher) fillSlots() {
	for t := d.beginNext(); t != nil; t = d.beginNext() {
		go d.runTasks(t)
	}
	// A task that waits for the rate of its type needs nobody else to end: the timer begins it. If all slots are taken, the task that
	// frees one looks at the rates again.
	if due := d.queue.NextDue(); !due.IsZero() && !d.stopped && d.running < d.o.Most {
		d.timer.Reset(time.Until(due))
	}
}

// fillFreeSlots is fillSlots for a caller without the lock.
func (d *Dispatcher) fillFreeSlots() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fillSlots()
}

// beginNext notes that the next task begins, and returns it for its goroutine; nil if none may begin now. The caller
// holds the lock.
//
// The goroutine is among those that StopAndWait waits for.
func (d *Dispatcher) beginNext() *Task {
	if d.stopped || d.running >= d.o.Most {
		return nil
	}
	now := time.Now()
	d.queue.AdvanceTo(now)
	for first := d.queue.First(); first != nil && d.o.Host.IsUnwanted(first.Item.Run); first = d.queue.First() {
		d.queue.Remove(first) // its run is told in a moment, and withdraws it
		d.forgetTask(first.Item)
		d.stands.metrics.TaskEnded(first.Item.Task, first.Item.Tenant, telemetry.TaskCancelled, "", 0)
	}
	next := d.queue.Take()
	if next == nil {
		return nil
	}
	t := next.Item
	d.running++
	d.group.Add(1)
	t.ctx, t.cancel = context.WithCancelCause(d.ctx)
	t.begun = instantOf(now)
	t.performed.Store(int64(instantOf(d.o.Hook.Now())))
	if d.o.Tracer != nil {
		t.span = d.o.Tracer.Perform(t.tracedTask(), t.beganAt())
	}
	d.stands.countStand(t)
	return t
}

// Withdraw tells a token's attempt that it is no longer wanted, or forgets one
// that has ended.
//
// A task that waits in the queue is taken out and never begins. A task that runs is told by its
// context, and keeps its slot until it returns, for until then it does its work. One whose
// result comes later has no goroutine: nobody else would forget it.
func (d *Dispatcher) Withdraw(run workflow.RunID, token workflow.TokenID) {
	d.EndAttempt(run, token, telemetry.TaskCancelled, "")           // unless its end was counted with the commit that withdraws it
	d.EndTrace(run, token, tracing.End{Outcome: tracing.Cancelled}) // likewise
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.newestAttempt(run, token)
	if t == nil {
		return
	}
	t.withdrawn = true
	switch {
	case t.entry.Waits():
		d.queue.Remove(&t.entry)
		d.forgetTask(t)
	case t.pending:
		t.cancel(errWithdrawn)
		d.forgetTask(t)
		d.fillSlots()
	case !t.delivers: // else the handler has returned
		t.cancel(errWithdrawn)
	}
}

// forgetTask drops an attempt that is over, once. The caller holds the lock.
//
// All that an attempt has is given back here: its timer, its place in the tenant's limit, its
// hold on blobs. It may be called twice for the same attempt, by a withdrawal and by its own
// end; the second call does nothing.
func (d *Dispatcher) forgetTask(t *Task) {
	if !t.held {
		return
	}
	t.held = false
	d.count--
	defer d.stands.countStand(t)
	t.pulse.stopTimer()
	t.pulse.dropDetails()
	d.queue.ReleaseTenant(&t.entry)
	if t.seldom != nil {
		d.o.Host.UnpinBlobs(t.seldom.pins...)
	}
	at := outKey{t.Run, t.Token}
	d.heldMu.Lock()
	defer d.heldMu.Unlock()
	switch first := d.held[at]; {
	case first != t:
		for first.older != t {
			first = first.older
		}
		first.older = t.older
	case t.older != nil:
		d.held[at] = t.older
	default:
		delete(d.held, at)
	}
}

var errWithdrawn = errors.New("the task is no longer wanted")

// PinBlob keeps a blob from being collected while an attempt is not over.
func (d *Dispatcher) PinBlob(key string, hash string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.heldTask(key); t != nil {
		d.o.Host.PinBlobs(hash)
		t.keepSeldom().pins = append(t.keepSeldom().pins, hash)
	}
}

// taskReturned gives the slot of an attempt to the next one, before its result is
// delivered. That result counts as waiting only then: else a dispatcher of one slot
// would pass over its run even if that is the next one. It returns when somebody began to perform the attempt.
func (d *Dispatcher) taskReturned(t *Task) (performed time.Time) {
	d.mu.Lock()
	waited, count := d.stands.noteReturned(t)
	t.noteTime(d.o.Hook.Now())
	d.running--
	d.waiting++
	d.queue.ReleaseType(&t.entry)
	if !t.pending || !d.o.TenantLimit(t.Tenant).Pending { // else it counts until it is over
		d.queue.ReleaseTenant(&t.entry)
	}
	t.delivers = true
	d.stands.countStand(t)
	d.fillSlots()
	d.queue.ResultReturned(&t.entry)
	performed = t.beganAt()
	d.mu.Unlock()
	if count {
		d.stands.metrics.TaskBegan(t.Task, t.Tenant, waited)
	}
	return performed
}

// taskFinished forgets an attempt whose result waits no longer, unless it comes later,
// and lets the next task begin if its run was backpressured.
//
// A result that comes later keeps its attempt held, so that a heartbeat or a withdrawal finds it; but its
// goroutine ends here, and the slot is free. It returns a task for the goroutine, if that is alive.
func (d *Dispatcher) taskFinished(t *Task, alive bool) *Task {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finishTask(t)
	var next *Task
	if alive {
		next = d.beginNext()
	}
	d.fillSlots()
	return next
}

// finishTask is taskFinished but for the next task. The caller holds the lock.
func (d *Dispatcher) finishTask(t *Task) {
	defer d.group.Done()
	if t.seldom != nil && t.seldom.unpin != nil {
		t.seldom.unpin()
	}
	d.waiting--
	if !t.pending || t.withdrawn || t.refused {
		t.cancel(nil)
		d.forgetTask(t)
	}
	d.queue.ResultDelivered(string(t.Run))
	d.queueAgain(t)
}

// queueAgain queues the attempt that a run has sent again, if the run has refused a result of it meanwhile. The caller holds the lock.
func (d *Dispatcher) queueAgain(t *Task) {
	if t.seldom == nil || t.seldom.again == nil || !t.refused || t.withdrawn || d.stopped {
		return
	}
	if again := t.seldom.again; d.heldAttempt(AttemptOf(again)) == nil {
		t.seldom.again = nil
		d.queueTask(*again)
	}
}

// beginAnother returns another task for a goroutine that is done with one; nil if none may begin now.
func (d *Dispatcher) beginAnother() *Task {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.beginNext()
}

// StopAndWait lets no further task begin and waits until those that run have returned,
// or ctx is done.
//
// Close calls it twice: with the grace of the options and, after the contexts are cancelled,
// with its own context. Queued tasks are left where they are: the next engine gets them from
// their runs.
func (d *Dispatcher) StopAndWait(ctx context.Context) error {
	d.mu.Lock()
	d.stopped = true
	d.timer.Stop()
	d.flushHeartbeats()
	d.mu.Unlock()
	returned := make(chan struct{})
	go func() {
		d.group.Wait()
		close(returned)
	}()
	select {
	case <-returned:
		return nil
	case <-ctx.Done():
		return late.Cause(ctx)
	}
}

// Running returns the attempts that the executor has, in the order of dispatch.
func (d *Dispatcher) Running() []*Task {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*Task
	for t := range d.allHeld {
		if t.cancel != nil && !t.delivers {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *Task) int { return cmp.Compare(a.entry.Order, b.entry.Order) })
	return out
}
