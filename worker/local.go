package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/timeout"
)

// A local is a worker of this process. Each of its tasks has one goroutine;
// there are none without work. The pool's lock guards it.
// state is its part in the queue; Pool.locals finds the local by it. running has the tasks whose
// function has
// not returned; one that was withdrawn stays
// there until its function heeds its context.
type local struct {
	state    *workerState
	handlers pawl.Handlers
	running  map[pawl.Key]runningTask
}

// A runningTask is one that a function of this process performs.
type runningTask struct {
	task   pawl.Task
	cancel context.CancelCauseFunc
}

// The causes of cancelled contexts, for a handler that asks context.Cause why it was interrupted.
var (
	errOver = errors.New("the attempt is over")
	errLeft = errors.New("the worker has left")
)

// cancelTask interrupts a function; the task stays in running until it returns. A key that does not
// run is no error.
func (l *local) cancelTask(k pawl.Key) {
	if t, ok := l.running[k]; ok {
		t.cancel(errOver)
	}
}

// cancelAll interrupts all functions of a worker that leaves.
func (l *local) cancelAll() {
	for _, t := range l.running {
		t.cancel(errLeft)
	}
}

// leftBehind logs the functions that go on although the pool closes, and returns them as
// an error; nil if the last of them has just returned.
//
// Close calls it when its time is up. Go cannot end a goroutine from outside, so all it can do is to
// name the handlers; their tasks are dispatched again by the next life of the engine.
func (p *Pool) leftBehind() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var tasks []pawl.Task
	for _, l := range p.locals {
		for _, t := range l.running {
			tasks = append(tasks, t.task)
		}
	}
	if tasks == nil {
		return nil
	}
	slices.SortFunc(tasks, func(a, b pawl.Task) int { return cmp.Compare(a.Order, b.Order) })
	var left pawl.LeftBehindError
	for i := range tasks {
		t := &tasks[i]
		at := remote.PlaceOf(*t)
		p.options.Logger.Error("worker: Close leaves a handler behind that ignores its context: return when it is done", at.Args()...)
		left.Tasks = append(left.Tasks, pawl.TaskID{Run: t.Run, Node: t.Node, Task: t.Type, Key: t.Key})
	}
	return &left
}

// Start adds a worker of this process, or changes one: it takes the types that
// r names, or those of the handlers, and gets work at once. Its leases do not
// run out, since it lives as long as the process. Start returns an *Error if r is not
// valid or the id is that of a remote worker, or the error of pawl.Handlers.Check.
//
// Start with the id of a local worker gives it new handlers for tasks that begin later; running
// tasks keep theirs.
func (p *Pool) Start(r Registration, h pawl.Handlers) error {
	if r.Types == nil {
		r.Types = handledTypes(h)
	}
	if err := h.Check(); err != nil {
		return err
	}
	r, err := r.withDefaults()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mayRegister(r.ID); err != nil {
		return err
	}
	if s := p.queue.workers[r.ID]; s != nil && p.locals[s] == nil {
		return invalidRequestf("worker %q is registered by another process: choose another id", r.ID)
	}
	s := p.queue.ensureWorker(r.ID, time.Now())
	l := p.locals[s]
	if l == nil {
		l = &local{state: s, running: map[pawl.Key]runningTask{}}
		p.locals[s] = l
	}
	l.handlers = h
	p.queue.registerWorker(r, true, time.Now())
	p.deliverTasks()
	return nil
}

// mayRegister says whether a worker may register. The lock is held.
//
// A worker that is there may always register again, even at the bound: otherwise it could not change
// its types.
func (p *Pool) mayRegister(id string) error {
	switch {
	case p.closed:
		return errClosed
	case p.revoked[id]:
		return p.checkRevoked(id)
	case p.queue.workers[id] == nil && len(p.queue.workers) >= p.options.MaxWorkers:
		return p.tooManyWorkers()
	}
	return nil
}

func (p *Pool) tooManyWorkers() error {
	return poolErrorf(429, remote.CodeTooMany, "%d workers are registered, and no more may be (Options.MaxWorkers): let some leave", p.options.MaxWorkers)
}

// startTask performs a task in a goroutine of its own. The caller holds the lock.
//
// deliverTasks calls it for what the queue has handed to a worker of this process. The goroutine is
// counted by the pool's group before the lock is released, so that Close cannot miss it.
func (p *Pool) startTask(l *local, i *item) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	l.running[i.task.Key] = runningTask{i.task, cancel}
	t, h := i.task, l.handlers
	p.group.Go(func() {
		defer cancel(nil)
		remote.Performer{Handlers: h, Logger: p.options.Logger}.PerformTask(ctx, t, func(output any, err error) { p.taskPerformed(ctx, l, t, output, err) })
	})
}

// resultBackoff is the pause between two deliveries of a result.
var resultBackoff = timeout.Backoff{First: 10 * time.Millisecond, Max: time.Second}

// taskPerformed delivers what a function of this process returned. A function that
// was interrupted has not failed: its task goes back, or is over.
//
// It runs on the goroutine of the function. The worker holds the task until
// the result is committed or given up, so that Drain waits for commits as well. A result that cannot
// be committed for now is
// sent again until the pool closes, and then its task goes back; a success that came although the
// context was cancelled is sent too, also while the pool closes, and the engine decides.
func (p *Pool) taskPerformed(ctx context.Context, l *local, t pawl.Task, output any, err error) {
	if errors.Is(err, pawl.ErrPending) {
		err = pawl.Permanent(errors.New("a worker of a pool may not return ErrPending: the pool completes its tasks"))
	}
	var panicked *remote.PanicError
	if errors.As(err, &panicked) {
		at := remote.PlaceOf(t)
		p.options.Logger.Error("worker: a handler panicked", append(at.Args(), "worker", l.state.id, "error", err, "stack", string(panicked.Stack))...)
	}
	gone := err != nil && ctx.Err() != nil
	for wait := resultBackoff.Next(0); !gone; wait = resultBackoff.Next(wait) {
		c := completion{worker: l.state.id, key: t.Key, output: output, cause: err}
		committing, cancel := outliveContext(p.ctx, commitTimeout)
		done := p.completeTask(committing, c)
		cancel()
		if !isRetriable(done) {
			break
		}
		select {
		case <-time.After(wait):
		case <-p.ctx.Done():
			gone = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(l.running, t.Key)
	if gone {
		p.queue.releaseTask(t.Key, time.Now())
	}
	p.forgetLocal(l)
	p.deliverTasks()
}

// outliveContext returns a context that ends so long after another, or with cancel.
func outliveContext(ctx context.Context, d time.Duration) (out context.Context, cancel func()) {
	out, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer end()
		select {
		case <-time.After(d):
		case <-out.Done():
		}
	})
	return out, func() { stop(); end() }
}

// forgetLocal forgets a worker that has left and holds nothing. The lock is held.
//
// Start may have made a new worker of the same id meanwhile; the comparison of states, not ids, tells
// the two apart.
func (p *Pool) forgetLocal(l *local) {
	if p.queue.workers[l.state.id] != l.state {
		delete(p.locals, l.state)
	}
}
