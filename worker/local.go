package worker

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/timeout"
)

// A local is a worker of this process. Each of its tasks has one goroutine;
// there are none without work. The pool's lock guards it.
type local struct {
	seat     *seat
	handlers Handlers
	running  map[pawl.Key]context.CancelCauseFunc
}

var (
	errOver = errors.New("the attempt is over")
	errLeft = errors.New("the worker has left")
)

func (l *local) cancel(k pawl.Key) {
	if cancel := l.running[k]; cancel != nil {
		cancel(errOver)
	}
}

func (l *local) cancelAll() {
	for _, cancel := range l.running {
		cancel(errLeft)
	}
}

// Start adds a worker of this process, or changes one: it takes the types that
// r names, or those of the handlers, and gets work at once. Its leases do not
// run out: it lives as long as the process. It returns an *Error if r is not
// valid or the id is that of a remote worker.
func (p *Pool) Start(r Registration, h Handlers) error {
	if r.Types == nil {
		r.Types = h.types()
	}
	r, err := r.checked()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mayJoin(r.ID); err != nil {
		return err
	}
	if s := p.queue.seats[r.ID]; s != nil && p.locals[s] == nil {
		return invalid("worker %q is registered by another process: choose another id", r.ID)
	}
	s := p.queue.seat(r.ID, time.Now())
	l := p.locals[s]
	if l == nil {
		l = &local{seat: s, running: map[pawl.Key]context.CancelCauseFunc{}}
		p.locals[s] = l
	}
	l.handlers = h
	p.queue.register(r, true, time.Now())
	p.deliver()
	return nil
}

// mayJoin says whether a worker may register. The lock is held.
func (p *Pool) mayJoin(id string) error {
	switch {
	case p.closed:
		return ErrClosed
	case p.queue.seats[id] == nil && len(p.queue.seats) >= p.options.MaxWorkers:
		return p.tooMany()
	}
	return nil
}

func (p *Pool) tooMany() error {
	return errorf(429, CodeTooMany, "%d workers are registered, and no more may be (Options.MaxWorkers): let some leave", p.options.MaxWorkers)
}

// begin performs a task in a goroutine of its own. The lock is held.
func (p *Pool) begin(l *local, i *item) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	l.running[i.task.Key] = cancel
	t, h := i.task, l.handlers
	p.group.Go(func() {
		defer cancel(nil)
		h.perform(ctx, taskOf(t), func(output any, err error) { p.performed(ctx, l, t, output, err) })
	})
}

// resultBackoff is the pause between two deliveries of a result.
var resultBackoff = timeout.Backoff{First: 10 * time.Millisecond, Max: time.Second}

// performed delivers what a function of this process returned. A function that
// was interrupted has not failed: its task goes back, or is over.
func (p *Pool) performed(ctx context.Context, l *local, t pawl.Task, output any, err error) {
	if errors.Is(err, pawl.ErrPending) {
		err = pawl.Permanent(errors.New("a worker of a pool may not return ErrPending: the pool completes its tasks"))
	}
	var panicked *panicError
	if errors.As(err, &panicked) {
		p.options.Logger.Error("worker: a handler panicked", "worker", l.seat.id, "run", string(t.Run), "node", string(t.Node), "error", err, "stack", string(panicked.stack))
	}
	gone := err != nil && ctx.Err() != nil
	for wait := resultBackoff.Next(0); !gone; wait = resultBackoff.Next(wait) {
		c := completion{worker: l.seat.id, key: t.Key, output: output, cause: err}
		if done := p.complete(p.ctx, c); !retriable(done) {
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
		p.queue.release(t.Key, time.Now())
		p.freed()
	}
	p.forgetLocal(l)
	p.deliver()
}

// forgetLocal forgets a worker that has left and holds nothing. The lock is held.
func (p *Pool) forgetLocal(l *local) {
	if p.queue.seats[l.seat.id] != l.seat {
		delete(p.locals, l.seat)
	}
}
