package worker

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// retriable says that the same completion may succeed later.
func retriable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == 503
}

// A completion is what a worker says that a task came to.
type completion struct {
	worker    string
	key       pawl.Key
	run, node string // checked where they are given
	output    any    // may be a pawl.Result
	cause     error  // of a failure
}

// complete takes the result of a task, and returns once it is committed. It is
// nil for a duplicate as well; otherwise an *Error.
func (p *Pool) complete(ctx context.Context, c completion) error {
	engine, err := p.results(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	at, err := p.begun(c)
	p.mu.Unlock()
	switch {
	case err != nil:
		return err
	case at == stranger, at == elsewhere:
		return ErrNotHolder
	case at == repeated:
		return nil
	}
	err = p.send(ctx, engine, c, at == holder) // where at is unknown, the engine knows
	p.mu.Lock()
	defer p.mu.Unlock()
	if retriable(err) {
		p.queue.reopen(c.key, time.Now())
	} else {
		p.queue.finish(c.worker, c.key, err == nil, c.cause != nil, time.Now())
		p.freed()
	}
	p.deliver()
	return err
}

// begun starts a completion in the queue. The lock is held.
func (p *Pool) begun(c completion) (standing, error) {
	if i := p.queue.items[c.key]; i != nil && i.known {
		switch {
		case c.run != "" && c.run != string(i.task.Run):
			return unknown, invalid("the key is of run %q, not %q: send back run, node and key as they came", string(i.task.Run), c.run)
		case c.node != "" && c.node != string(i.task.Node):
			return unknown, invalid("the key is of node %q, not %q: send back run, node and key as they came", string(i.task.Node), c.node)
		}
	}
	if err := p.mayHold(c.worker); err != nil {
		return unknown, err
	}
	at := p.queue.begin(c.worker, c.key, time.Now())
	p.deliver()
	return at, nil
}

// mayHold says whether a worker, which need not be registered, may hold a key.
// The lock is held.
func (p *Pool) mayHold(id string) error {
	if p.queue.seats[id] == nil && len(p.queue.seats) >= p.options.MaxWorkers {
		return p.tooMany()
	}
	return nil
}

// results returns the engine, once there is one.
func (p *Pool) results(ctx context.Context) (results, error) {
	select {
	case <-p.attached:
	case <-ctx.Done():
		return nil, errorf(503, CodeBusy, "the pool has no engine yet: the host must call Attach; try again")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine, nil
}

// send delivers a result to the engine. A result that cannot be stored fails the
// attempt, if the key is one of ours. A run that takes none in this life of the
// engine has no use for the worker either: the result is dropped, and the engine
// dispatches the task again when the run goes on. The error is an *Error.
func (p *Pool) send(ctx context.Context, engine results, c completion, ours bool) error {
	var err error
	if c.cause != nil {
		err = engine.Fail(ctx, c.key, c.cause)
	} else if err = engine.Complete(ctx, c.key, c.output); ours && errors.Is(err, pawl.ErrInvalid) {
		err = engine.Fail(ctx, c.key, pawl.TaskError{Code: workflow.CodeInvalidResult, Message: err.Error()})
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pawl.ErrStale), errors.Is(err, pawl.ErrEnded):
		return ErrStale
	case errors.Is(err, pawl.ErrSuspended), errors.Is(err, pawl.ErrRunNotFound), errors.Is(err, pawl.ErrCorrupt):
		p.options.Logger.Error("worker: a run does not take its results", "worker", c.worker, "key", string(c.key), "error", err)
		return ErrStale
	case errors.Is(err, pawl.ErrInvalid):
		return invalid("%v: send the key back as it came", err)
	}
	return errorf(503, CodeBusy, "the result could not be committed, try again: %v", err)
}

// beat renews the leases of a worker on keys, and tells the engine that these
// attempts are alive. It returns those that the worker should drop.
func (p *Pool) beat(ctx context.Context, id string, keys []pawl.Key) ([]pawl.Key, error) {
	var drop []pawl.Key
	for _, k := range keys {
		p.mu.Lock()
		err := p.mayHold(id)
		at := unknown
		if err == nil {
			at = p.queue.hold(id, k, time.Now())
			p.deliver()
		}
		engine := p.engine
		p.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if at != holder && at != unknown || engine != nil && p.told(ctx, engine, id, k, at) {
			drop = append(drop, k)
		}
	}
	if len(drop) > 0 {
		p.mu.Lock()
		p.freed()
		p.mu.Unlock()
	}
	return drop, nil
}

// told tells the engine of a heartbeat, and returns whether the attempt is over.
// The holder of a key that the queue does not know becomes its holder if the
// engine knows it: the engine was opened again, and has not dispatched it yet.
func (p *Pool) told(ctx context.Context, engine results, id string, k pawl.Key, at standing) (over bool) {
	err := engine.Heartbeat(ctx, k)
	over = errors.Is(err, pawl.ErrStale) || errors.Is(err, pawl.ErrEnded) || errors.Is(err, pawl.ErrInvalid)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case over && at == holder:
		p.queue.finish(id, k, false, false, time.Now())
	case err == nil && at == unknown:
		p.queue.claim(id, k, time.Now())
	}
	p.deliver()
	return over
}
