package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/serving"
)

// isRetriable says that the same completion may succeed later.
//
// Only 503 does: busy, and closed, whose tasks the next life of the pool takes. Every other answer
// ends the worker's hold on the task.
func isRetriable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == 503
}

// A completion is what a worker says that a task came to.
// key is the engine's, without its tag. run and node are "" where the worker did not say them, and for
// workers of this process.
type completion struct {
	worker    string
	key       pawl.Key
	run, node string // checked where they are given
	output    any    // may be a pawl.Result
	cause     error  // of a failure
}

// hasFailed reports whether the task has failed: one that asks to be called again has not.
func (c *completion) hasFailed() bool {
	return c.cause != nil && !errors.As(c.cause, new(pawl.SnoozeError))
}

// completeTask takes the result of a task, and returns once it is committed. It is
// nil for a duplicate as well; otherwise an *Error.
//
// Between beginCompletion and what ends it, the lock is free and the lease suspended: a commit that
// takes long must not let the task expire and be handed to somebody else. The order is commit, then
// forget: if the process dies in between, the engine is opened again, has the result, and dispatches
// nothing. A key that the queue does not know goes to the engine all the same: it may be of a task
// that this life of the engine has not dispatched yet.
func (p *Pool) completeTask(ctx context.Context, c completion) error {
	engine, err := p.awaitEngine(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	at, err := p.beginCompletion(c)
	p.mu.Unlock()
	switch {
	case err != nil:
		return err
	case at == keyHeldByOther, at == keyCompletedByOther:
		return p.refuseKey(ctx, c.key)
	case at == keyCompleted:
		return nil
	}
	err = p.sendResult(ctx, engine, c) // where at is unknown, the engine knows
	p.mu.Lock()
	defer p.mu.Unlock()
	if isRetriable(err) {
		p.queue.undoCompletion(c.key, time.Now())
	} else {
		p.queue.finishCompletion(c.worker, c.key, err == nil, c.hasFailed(), time.Now())
	}
	p.deliverTasks()
	return err
}

// beginCompletion starts a completion in the queue. The lock is held.
//
// run and node are compared only if the task is known; they are there to catch a program that mixes up
// its tasks. It calls deliverTasks because to look at the queue brings it to now, which may hand out
// tasks.
func (p *Pool) beginCompletion(c completion) (keyState, error) {
	if i := p.queue.items[c.key]; i != nil && i.known {
		switch {
		case c.run != "" && c.run != string(i.task.Run):
			return keyUnknown, invalidRequestf("the key is of run %q, not %q: send back run, node and key as they came", string(i.task.Run), c.run)
		case c.node != "" && c.node != string(i.task.Node):
			return keyUnknown, invalidRequestf("the key is of node %q, not %q: send back run, node and key as they came", string(i.task.Node), c.node)
		}
	}
	if err := p.mayHoldKey(c.worker); err != nil {
		return keyUnknown, err
	}
	at := p.queue.beginCompletion(c.worker, c.key, time.Now())
	p.deliverTasks()
	return at, nil
}

// refuseKey returns what a worker is told whose key another one holds, or has completed: ErrNotHolder, and busy while the engine cannot
// tell whether it has its log: if not, another engine knows who has got the task.
func (p *Pool) refuseKey(ctx context.Context, k pawl.Key) error {
	var host serving.Host
	p.mu.Lock()
	if i := p.queue.items[k]; i != nil {
		host = i.host
	}
	p.mu.Unlock()
	if host != nil {
		if err := host.ConfirmLog(ctx); err != nil {
			return poolErrorf(503, remote.CodeBusy, "nobody knows who holds the task, try again: %v", err)
		}
	}
	return ErrNotHolder
}

// mayHoldKey says whether a worker, which need not be registered, may hold a key.
// The lock is held.
//
// A caller that completes or renews a key that nobody holds becomes a worker in the queue, without
// registering; this keeps the number of such workers within Options.MaxWorkers too.
func (p *Pool) mayHoldKey(id string) error {
	if err := p.checkRevoked(id); err != nil { // since checkSender
		return err
	}
	if p.queue.workers[id] == nil && len(p.queue.workers) >= p.options.MaxWorkers {
		return p.tooManyWorkers()
	}
	return nil
}

// awaitEngine returns the engine, once there is one.
//
// Remote workers may be there before the host has opened the engine: their requests wait here, as long
// as their ctx lasts; an engine that is there is returned also when ctx has ended. After Close without an engine the answer
// is errClosed.
func (p *Pool) awaitEngine(ctx context.Context) (results, error) {
	select {
	case <-p.attached:
	case <-p.ctx.Done():
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.engine != nil:
		return p.engine, nil
	case p.closed:
		return nil, errClosed
	}
	return nil, poolErrorf(503, remote.CodeBusy, "the pool has no engine yet: the host must call Attach; try again")
}

// sendResult delivers a result to the engine, see remote.SendResult. The error is an *Error.
//
// Refused is told to the worker as errStale: it can do nothing about a run that is suspended, and the
// engine dispatches the task again when that is resumed. The log is told, since nobody else would hear
// of the result that is lost.
func (p *Pool) sendResult(ctx context.Context, engine results, c completion) error {
	verdict, err := remote.SendResult(ctx, engine, c.key, c.output, c.cause)
	switch verdict {
	case remote.Taken:
		return nil
	case remote.Late:
		return errStale
	case remote.Refused:
		p.options.Logger.Error("worker: a run does not take its results", "run", c.run, "worker", c.worker, "key", string(c.key), "error", err)
		return errStale
	case remote.Foreign:
		return invalidRequestf("%v: send the key back as it came", err)
	default:
		return poolErrorf(503, remote.CodeBusy, "the result could not be committed, try again: %v", err)
	}
}

// renewLeases renews the leases of a worker on keys, and tells the engine that these
// attempts are alive, and how far they are. It returns those that the worker should
// drop.
//
// The lock is taken for each key anew and is free while the engine is asked, since its Heartbeat may
// take time. The dropped keys are those that the queue knows to be another worker's, or the engine
// to be over; a key that neither knows for sure is kept. Details that the engine refuses are an error in the end: their task and its
// lease stay as they are.
func (p *Pool) renewLeases(ctx context.Context, id string, keys []pawl.Key, details map[pawl.Key]any) ([]pawl.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	var drop []pawl.Key
	var refused error
	for _, k := range keys {
		p.mu.Lock()
		err := p.mayHoldKey(id)
		at := keyUnknown
		if err == nil {
			at = p.queue.holdKey(id, k, time.Now())
			p.deliverTasks()
		}
		engine := p.engine
		p.mu.Unlock()
		if err != nil {
			return nil, err
		}
		over := at == keyCompleted
		switch {
		case at == keyHeldByOther, at == keyCompletedByOther:
			over = !isRetriable(p.refuseKey(ctx, k))
		case !over && engine != nil:
			over, err = p.heartbeatEngine(ctx, engine, heartbeat{id, k, details[k]}, at)
			refused = cmp.Or(refused, err)
		}
		if over {
			drop = append(drop, k)
		}
	}
	if len(drop) > 0 {
		return drop, nil // the next message has the refusal
	}
	return nil, refused
}

// A heartbeat is what a worker says of a key.
type heartbeat struct {
	worker  string
	key     pawl.Key
	details any
}

// heartbeatEngine tells the engine of a heartbeat, and reports whether the attempt is
// over. It fails with an *Error if the engine refuses the details. A heartbeat without details is refused for its key,
// which names no attempt: that is over.
// The holder of a key that the queue does not know becomes its holder if the
// engine knows it: the engine was opened again, and has not dispatched it yet.
//
// An engine that cannot say (it is closing, the disk is full) leaves everything as it is: over is
// false, and the worker goes on.
func (p *Pool) heartbeatEngine(ctx context.Context, engine results, h heartbeat, at keyState) (over bool, refused error) {
	err := engine.Heartbeat(ctx, h.key, h.details)
	over = errors.Is(err, pawl.ErrStale) || errors.Is(err, pawl.ErrEnded) || h.details == nil && errors.Is(err, pawl.ErrInvalid)
	if !over && remote.IsInvalid(err) {
		refused = invalidRequestf("%v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case over && at == keyHeld:
		p.queue.finishCompletion(h.worker, h.key, false, false, time.Now())
	case err == nil && at == keyUnknown:
		p.queue.claimKey(h.worker, h.key, time.Now())
	}
	p.deliverTasks()
	return over, refused
}
