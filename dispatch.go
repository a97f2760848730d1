package pawl

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/taskqueue"
	"github.com/pawl-run/pawl/workflow"
)

// A dispatcher hands tasks to the executor: those of lower priority number
// first, runs in turn among equals, first come first served within a run, at most
// so many at once, and of each type no more than its limit allows; a task that waits for
// that holds no slot. A task counts until it has a result, not until that is delivered:
// a run that is slow to take its results holds up no other. While as many of its
// results wait as there may be tasks at once, it begins no further one.
//
// A key that is held is never executed a second time beside itself. Each task that
// runs has one goroutine; there are none without work. If the run does nothing else when a task returns, its goroutine
// has the turn of the run that takes the result, and goes on with
// the task that follows: a step of a chain switches between no goroutines. Otherwise the result waits in the run's mailbox,
// without a goroutine unless that is full, and one for all results takes note of the answers.
//
// What a task goes through: dispatchTask queues it; fillSlots starts it when a slot, its type
// and its tenant allow it; runTask executes it; taskReturned frees the slot; handResult has the result
// delivered and committed; finishTask forgets it. withdrawTask may come at any of these
// points. All under mu, but for the execution and the delivery.
type dispatcher struct {
	engine *Engine
	ctx    context.Context // of every task
	kept   context.Context // as ctx, but for its end
	most   int
	single bool // processor, when the engine was opened

	mu      sync.Mutex
	queue   *taskqueue.Queue[*outTask]
	held    map[outKey]*outTask // the newest of each token; the others behind it
	count   int                 // of what is held
	order   int64               // of arrival
	running int                 // tasks that the executor has
	waiting int                 // results that wait to be delivered
	stopped bool
	timer   *time.Timer // fires when the rate of a type allows its next task
	group   sync.WaitGroup

	results answeredResults // has a lock of its own
}

// An outKey names a token, of which one attempt at a time is wanted.
type outKey struct {
	run   workflow.RunID
	token workflow.TokenID
}

// An outTask is an attempt that the dispatcher holds: queued, running,
// returned and not yet delivered, or pending elsewhere.
type outTask struct {
	actor.Dispatch
	key       Key // from when it is performed
	entry     taskqueue.Entry[*outTask]
	older     *outTask // the attempt of its token before it that is held
	held      bool     // until it is forgotten
	outdated  bool     // there is a newer attempt, or was
	withdrawn bool
	pending   bool            // the handler said that the result comes later
	ctx       context.Context // of the handler, until cancel
	cancel    context.CancelCauseFunc
	pins      []string        // blobs that it has put
	unpin     func()          // lets the blobs of its result go; nil if there are none
	delivers  bool            // it has a result, which waits to be delivered
	refused   bool            // the run did not take it
	again     *actor.Dispatch // the same attempt, sent again meanwhile
	pulse     pulse
	begun     time.Time // when the executor, or a worker, got it
	worker    string    // who performs it, if somebody has said so
	pooled    bool      // it is given to workers, who say when one has it
	queued    time.Time // when it came
	performed time.Time // when somebody began to perform it; zero if nobody has
}

// attemptOf returns what names an attempt.
func attemptOf(a *actor.Dispatch) taskkey.Attempt {
	return taskkey.Attempt{Run: a.Run, Token: a.Token, Number: a.Attempt, Epoch: a.Epoch}
}

// heldAttempt returns an attempt, if it is held; nil if not. The caller holds the lock.
func (d *dispatcher) heldAttempt(a taskkey.Attempt) *outTask {
	t := d.held[outKey{a.Run, a.Token}]
	for t != nil && (t.Attempt != a.Number || t.Epoch != a.Epoch) {
		t = t.older
	}
	return t
}

// newestAttempt returns the newest attempt of a token, if it is held; nil if not. The caller holds the lock.
func (d *dispatcher) newestAttempt(run workflow.RunID, token workflow.TokenID) *outTask {
	if t := d.held[outKey{run, token}]; t != nil && !t.outdated {
		return t
	}
	return nil
}

// heldTask returns the attempt of a key that was checked or made here, if it is held; nil if not. The caller holds the lock.
func (d *dispatcher) heldTask(key Key) *outTask {
	a, ok := taskkey.AttemptOf(string(key))
	if !ok {
		return nil
	}
	return d.heldAttempt(a)
}

// allHeld yields every attempt that is held, in any order. The caller holds the lock.
func (d *dispatcher) allHeld(yield func(*outTask) bool) {
	for _, t := range d.held {
		for ; t != nil; t = t.older {
			if !yield(t) {
				return
			}
		}
	}
}

func newDispatcher(ctx context.Context, e *Engine, most int) *dispatcher {
	d := &dispatcher{engine: e, ctx: ctx, kept: context.WithoutCancel(ctx), most: most, single: runtime.GOMAXPROCS(0) == 1, queue: newTaskQueue(most, e.options.Types), held: map[outKey]*outTask{}}
	d.timer = time.AfterFunc(time.Hour, d.fillFreeSlots)
	d.timer.Stop()
	return d
}

// newTaskQueue returns the queue of an engine with limits of task types.
func newTaskQueue(most int, types map[string]TypeLimit) *taskqueue.Queue[*outTask] {
	o := taskqueue.Options{Most: most, Types: map[string]taskqueue.Limit{}}
	for kind, l := range types {
		o.Types[kind] = taskqueue.Limit(l)
	}
	return taskqueue.New[*outTask](o)
}

// dispatchTask takes an attempt. It returns at once.
//
// A run sends its tasks when their decision is committed, and again when it is activated. An
// attempt that is held is therefore nothing new, with one exception: its result may be on its
// way to a run that will not take it; then this one is remembered, and is queued when the other
// is over.
func (d *dispatcher) dispatchTask(a actor.Dispatch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	if t := d.heldAttempt(attemptOf(&a)); t != nil {
		if t.delivers { // if the run refuses that, it waits for this one
			again := a
			t.again, t.withdrawn = &again, false
		}
		return
	}
	d.queueTask(a)
	if !a.Returns { // its sender does when it returns
		d.fillSlots()
	}
}

// queueTask queues an attempt that is not held. The caller holds the lock.
func (d *dispatcher) queueTask(a actor.Dispatch) {
	d.order++
	t := &outTask{Dispatch: a, queued: d.engine.hook.Now()}
	t.entry = taskqueue.Entry[*outTask]{
		Item: t, Type: a.Task, Tenant: a.Tenant, Run: string(a.Run), Priority: a.Node.Priority, Order: d.order,
		Bound: tenantLimitOf(d.engine.options.Tenants, a.Tenant).Concurrency,
	}
	d.holdTask(t)
	d.queue.Put(&t.entry)
}

// holdTask holds an attempt, the newest of its token. The caller holds the lock.
func (d *dispatcher) holdTask(t *outTask) {
	at := outKey{t.Run, t.Token}
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
func (d *dispatcher) fillSlots() {
	for t := d.beginNext(); t != nil; t = d.beginNext() {
		go d.runTasks(t)
	}
	// A task that waits for the rate of its type needs nobody else to end: the timer begins it.
	if due := d.queue.NextDue(); !due.IsZero() && !d.stopped {
		d.timer.Reset(time.Until(due))
	}
}

// fillFreeSlots is fillSlots for who does not hold the lock.
func (d *dispatcher) fillFreeSlots() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fillSlots()
}

// beginNext notes that the next task begins, and returns it for its goroutine; nil if none may begin now. The caller
// holds the lock.
//
// The goroutine is among those that stopAndWait waits for.
func (d *dispatcher) beginNext() *outTask {
	if d.stopped || d.running >= d.most {
		return nil
	}
	now := time.Now()
	d.queue.AdvanceTo(now)
	for first := d.queue.First(); first != nil && d.engine.messenger.isUnwanted(first.Item.Run); first = d.queue.First() {
		d.queue.Remove(first) // its run is told in a moment, and withdraws it
		d.forgetTask(first.Item)
	}
	next := d.queue.Take()
	if next == nil {
		return nil
	}
	t := next.Item
	d.running++
	d.group.Add(1)
	t.ctx, t.cancel = context.WithCancelCause(d.ctx)
	t.begun, t.performed = now, d.engine.hook.Now()
	return t
}

// withdrawTask tells a token's attempt that it is no longer wanted, or forgets one
// that has ended.
//
// A task that waits in the queue is taken out and never begins. One that runs is told by its
// context, and keeps its slot until it returns, for until then it does its work. One whose
// result comes later has no goroutine: nobody else would forget it.
func (d *dispatcher) withdrawTask(run workflow.RunID, token workflow.TokenID) {
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
func (d *dispatcher) forgetTask(t *outTask) {
	if !t.held {
		return
	}
	t.held = false
	d.count--
	t.pulse.stopTimer()
	d.queue.ReleaseTenant(&t.entry)
	d.engine.pinned.unpinBlobs(t.pins...)
	at := outKey{t.Run, t.Token}
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

// pinBlob keeps a blob from being collected while an attempt is not over.
func (d *dispatcher) pinBlob(key Key, hash string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.heldTask(key); t != nil {
		d.engine.pinned.pinBlobs(hash)
		t.pins = append(t.pins, hash)
	}
}

// taskReturned gives the slot of an attempt to the next one, before its result is
// delivered. That result counts as waiting only then: else a dispatcher of one slot
// would pass over its run even if that is the one whose turn it is. It returns when somebody began to perform the attempt.
func (d *dispatcher) taskReturned(t *outTask) (performed time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	d.waiting++
	d.queue.ReleaseType(&t.entry)
	if !t.pending || !tenantLimitOf(d.engine.options.Tenants, t.Tenant).Pending { // else it counts until it is over
		d.queue.ReleaseTenant(&t.entry)
	}
	t.delivers = true
	d.fillSlots()
	d.queue.ResultReturned(&t.entry)
	return t.performed
}

// taskFinished forgets an attempt whose result waits no longer, unless it comes later,
// and lets the next task begin if its run was backpressured.
//
// One that comes later stays held, so that a heartbeat or a withdrawal finds it; but its
// goroutine ends here, and the slot is free. It returns a task for the goroutine, if that is alive.
func (d *dispatcher) taskFinished(t *outTask, alive bool) *outTask {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finishTask(t)
	var next *outTask
	if alive {
		next = d.beginNext()
	}
	d.fillSlots()
	return next
}

// finishTask is taskFinished but for the next task. The caller holds the lock.
func (d *dispatcher) finishTask(t *outTask) {
	defer d.group.Done()
	if t.unpin != nil {
		t.unpin()
	}
	d.waiting--
	if !t.pending || t.withdrawn {
		t.cancel(nil)
		d.forgetTask(t)
	}
	d.queue.ResultDelivered(string(t.Run))
	// The run has refused this result and waits for the attempt that it has sent meanwhile.
	if t.again != nil && t.refused && !t.withdrawn && !d.stopped && d.heldAttempt(attemptOf(t.again)) == nil {
		d.queueTask(*t.again)
	}
}

// beginAnother returns another task for a goroutine that is done with one; nil if none may begin now.
func (d *dispatcher) beginAnother() *outTask {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.beginNext()
}

// stopAndWait lets no further task begin and waits until those that run have returned,
// or ctx is done.
//
// Close calls it twice: with the grace of the options and, after the contexts are cancelled,
// with its own context. Queued tasks are left where they are: the next engine gets them from
// their runs.
func (d *dispatcher) stopAndWait(ctx context.Context) error {
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
		return context.Cause(ctx)
	}
}

// runningTasks returns the attempts that the executor has, in the order of dispatch.
func (d *dispatcher) runningTasks() []*outTask {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*outTask
	for t := range d.allHeld {
		if t.cancel != nil && !t.delivers {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *outTask) int { return cmp.Compare(a.entry.Order, b.entry.Order) })
	return out
}
