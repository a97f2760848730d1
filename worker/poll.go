package worker

import (
	"context"
	"time"

	"github.com/pawl-run/pawl"
)

// A poll is a remote worker that waits for tasks. The pool's lock guards it.
// items are tasks that the queue has made this worker the holder of, on their way into the answer.
// ended is set with done closed, under the lock, so that done is closed once.
type poll struct {
	items []*item
	done  chan struct{} // closed when there is something, or nothing more will be
	ended bool
}

// endPoll ends the poll with the given tasks, or without any.
//
// It may be called again, by a task that comes while the poll is about to return: the items are
// appended, and pollTasks takes them when it has the lock.
func (at *poll) endPoll(items ...*item) {
	at.items = append(at.items, items...)
	if !at.ended {
		at.ended = true
		close(at.done)
	}
}

// A want is what a poll asks for.
type want struct {
	worker   string
	instance string // which process asks; "" if it does not say
	most     int    // tasks
	wait     time.Duration
	holding  []pawl.Key // what the worker works on
	more     bool       // it works on everything that it holds, and takes more
}

// registerRemote adds a remote worker, or changes one. From then on the worker is the process that instance names.
//
// A poll that the worker still has open, from an earlier connection, is ended: it was for the types
// before.
func (p *Pool) registerRemote(r Registration, instance string) error {
	r, err := r.withDefaults()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mayRegister(r.ID); err != nil {
		return err
	}
	if s := p.queue.workers[r.ID]; s != nil {
		if p.locals[s] != nil { // since checkSender
			return localIDError(r.ID)
		}
		if at := p.polls[s]; at != nil {
			at.endPoll()
		}
	}
	s := p.queue.registerWorker(r, false, time.Now())
	if instance != "" && instance != s.instance {
		s.instance, s.heard, s.rivalled = instance, time.Now(), false
	}
	p.deliverTasks()
	return nil
}

func localIDError(id string) error {
	return invalidRequestf("%q is a worker of the engine's process: choose another id", id)
}

// remoteWorker returns the state of a registered remote worker. The caller holds the
// lock.
//
// A worker that the queue knows only as the holder of a key, from before a restart, has to register
// before it gets more.
func (p *Pool) remoteWorker(id string) (*workerState, error) {
	s := p.queue.workers[id]
	switch {
	case p.closed:
		return nil, errClosed
	case s == nil || !s.joined || s.leaving:
		return nil, ErrUnknownWorker
	}
	return s, nil
}

// checkInstance refuses the poll of a process in whose place another has registered since: each would get the tasks again that the
// other holds. If the pool has not heard of the other process for a lease, that one is gone, and the process that polls may register
// again, for the types that it takes. The log is told once. The caller holds the lock.
func (p *Pool) checkInstance(s *workerState, instance string) error {
	if s.noteInstance(instance, time.Now()) {
		return nil
	}
	if p.polls[s] == nil && time.Since(s.heard) > p.options.Lease {
		return ErrUnknownWorker
	}
	if !s.rivalled {
		s.rivalled = true
		p.options.Logger.Warn("worker: two processes have one id, and the one that registered last gets the tasks: give each worker an id of its own", "worker", s.id)
	}
	return errReplaced
}

// pollTasks returns tasks for a remote worker, and waits for one if there are none.
// A task that the worker holds and does not name was lost on its way, or with an
// earlier life of the worker: it is returned again. draining says that there will
// be no more.
//
// A worker has one poll at a time: a second one takes the place of the first, with the tasks that were
// on their way to it, for the first is likely to be of a connection that is lost. The lock is free
// only in waitForDone; afterwards every item is looked at again, as its worker may have left
// meanwhile, and items that nobody waits for go back to the queue. The worker keeps the items of a process that was replaced
// meanwhile, for the poll of the one in its place.
func (p *Pool) pollTasks(ctx context.Context, w want) (tasks []pawl.Task, draining bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.remoteWorker(w.worker)
	if err != nil {
		return nil, false, err
	}
	if err := p.checkInstance(s, w.instance); err != nil {
		return nil, false, err
	}
	at := &poll{done: make(chan struct{})}
	if earlier := p.polls[s]; earlier != nil {
		if w.more && len(earlier.items) > 0 {
			at.endPoll(earlier.items...)
		}
		earlier.items = nil // they are given to this one
		earlier.endPoll()
	}
	p.polls[s] = at
	if !w.more {
		p.repeatHeld(s, at, w.holding)
	}
	p.queue.requestTasks(s, w.most, time.Now())
	if s.draining {
		at.endPoll()
	}
	p.deliverTasks()
	if w.wait > 0 && !at.ended {
		p.mu.Unlock()
		waitForDone(ctx, at.done, w.wait)
		p.mu.Lock()
	}
	if p.polls[s] == at {
		delete(p.polls, s)
		p.queue.cancelRequest(s, time.Now())
	}
	if err := p.checkInstance(s, w.instance); err != nil {
		p.deliverTasks()
		return nil, false, err
	}
	for _, i := range at.items {
		switch {
		case i.holder != s: // it has left meanwhile, and the task is for others
		case ctx.Err() != nil: // nobody listens any more
			p.queue.releaseTask(i.task.Key, time.Now())
		default:
			tasks = append(tasks, i.task)
		}
	}
	p.deliverTasks()
	if p.closed && len(tasks) == 0 {
		return nil, false, errClosed
	}
	return tasks, s.draining, nil
}

// repeatHeld gives a poll the tasks that its worker holds and did not name. The caller
// holds the lock.
//
// It keeps the promise that nothing is lost between assignment and delivery. A task whose completion
// is under way is not repeated. A task that is over, or was claimed and is not named any more, is let
// go instead.
func (p *Pool) repeatHeld(s *workerState, at *poll, holding []pawl.Key) {
	named := make(map[pawl.Key]bool, len(holding))
	for _, k := range holding {
		named[k] = true
	}
	for _, i := range s.heldItems() {
		switch {
		case i.closing, named[i.task.Key]:
		case i.withdrawn, !i.known:
			p.queue.releaseTask(i.task.Key, time.Now()) // over, or a claim that it gave up
		default:
			p.queue.renewLease(i, time.Now())
			at.endPoll(i)
		}
	}
}

// waitForDone waits for done, but not longer than d and ctx.
func waitForDone(ctx context.Context, done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}
