package worker

import (
	"context"
	"time"

	"github.com/pawl-run/pawl"
)

// A poll is a remote worker that waits for tasks. The pool's lock guards it.
type poll struct {
	items []*item
	done  chan struct{} // closed when there is something, or nothing more will be
	ended bool
}

// end gives the poll what it waits for; nothing ends it empty.
func (at *poll) end(items ...*item) {
	at.items = append(at.items, items...)
	if !at.ended {
		at.ended = true
		close(at.done)
	}
}

// A want is what a poll asks for.
type want struct {
	worker  string
	most    int // tasks
	wait    time.Duration
	holding []pawl.Key // what the worker works on
	more    bool       // it works on everything that it holds, and takes more
}

// register adds a remote worker, or changes one.
func (p *Pool) register(r Registration) error {
	r, err := r.checked()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mayJoin(r.ID); err != nil {
		return err
	}
	if s := p.queue.seats[r.ID]; s != nil {
		if p.locals[s] != nil {
			return localID(r.ID)
		}
		if at := p.polls[s]; at != nil {
			at.end()
		}
	}
	p.queue.register(r, false, time.Now())
	p.deliver()
	return nil
}

func localID(id string) error {
	return invalid("%q is a worker of the engine's process: choose another id", id)
}

// remote returns the seat of a registered remote worker. The lock is held.
func (p *Pool) remote(id string) (*seat, error) {
	s := p.queue.seats[id]
	switch {
	case p.closed:
		return nil, ErrClosed
	case s == nil || !s.joined || s.leaving:
		return nil, ErrUnknownWorker
	}
	return s, nil
}

// poll returns tasks for a remote worker, and waits for one if there are none.
// What it holds and does not name was lost on its way, or with an earlier life
// of the worker: it is returned again. draining says that there will be no more.
func (p *Pool) poll(ctx context.Context, w want) (tasks []pawl.Task, draining bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.remote(w.worker)
	if err != nil {
		return nil, false, err
	}
	at := &poll{done: make(chan struct{})}
	if earlier := p.polls[s]; earlier != nil {
		if w.more && len(earlier.items) > 0 {
			at.end(earlier.items...)
		}
		earlier.items = nil // they are given to this one
		earlier.end()
	}
	p.polls[s] = at
	if !w.more {
		p.repeat(s, at, w.holding)
	}
	p.queue.ask(s, w.most, time.Now())
	if s.draining {
		at.end()
	}
	p.deliver()
	if w.wait > 0 && !at.ended {
		p.mu.Unlock()
		wait(ctx, at.done, w.wait)
		p.mu.Lock()
	}
	if p.polls[s] == at {
		delete(p.polls, s)
		p.queue.unask(s, time.Now())
	}
	for _, i := range at.items {
		switch {
		case i.seat != s: // it has left meanwhile, and the task is for others
		case ctx.Err() != nil: // nobody listens any more
			p.queue.release(i.task.Key, time.Now())
		default:
			tasks = append(tasks, i.task)
		}
	}
	p.deliver()
	if p.closed && len(tasks) == 0 {
		return nil, false, ErrClosed
	}
	return tasks, s.draining, nil
}

// repeat gives a poll what its worker holds and did not name. The lock is held.
func (p *Pool) repeat(s *seat, at *poll, holding []pawl.Key) {
	named := make(map[pawl.Key]bool, len(holding))
	for _, k := range holding {
		named[k] = true
	}
	for _, i := range s.holding() {
		switch {
		case i.closing, named[i.task.Key]:
		case i.withdrawn, !i.known:
			p.queue.release(i.task.Key, time.Now()) // over, or a claim that it gave up
			p.freed()
		default:
			p.queue.renew(i, time.Now())
			at.end(i)
		}
	}
}

// wait waits for done, but not longer than d and ctx.
func wait(ctx context.Context, done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}
