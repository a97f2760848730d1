package pawl

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/taskqueue"
)

// Stats are numbers of an engine that is open, as Engine.Stats returns them.
//
// They are read under the locks of their owners, one after the other, and so need not agree to
// the last task.
type Stats struct {
	Active  int   `json:"active"`  // runs in memory
	Queued  int   `json:"queued"`  // tasks that wait for a slot, or for the limit of their type or tenant
	Running int   `json:"running"` // tasks that the executor has
	Pending int   `json:"pending"` // tasks whose results come later, through Complete
	Waiting int   `json:"waiting"` // results that wait to be committed
	Commits int64 `json:"commits"` // since Open: transactions, each of one message or of many

	Feed *FeedStats `json:"feed,omitzero"` // nil without Options.Feed
}

// Executor returns the one of Options, or what its method Unwrap returns, if it has one; nil if Options has none. Callers may ask it how
// it stands; only the engine gives it tasks. Error: ErrClosed.
func (e *Engine) Executor() (Executor, error) {
	if err := e.checkUsable(context.Background()); err != nil {
		return nil, err
	}
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if _, ok := e.options.Executor.(*absentExecutor); ok {
		return nil, nil
	}
	if around, ok := e.options.Executor.(interface{ Unwrap() Executor }); ok {
		return around.Unwrap(), nil
	}
	return e.options.Executor, nil
}

// Stats returns what the engine does now. It looks at no run and costs the same however many
// there are. Errors: ErrClosed, the cause of ctx.
func (e *Engine) Stats(ctx context.Context) (Stats, error) {
	if err := e.checkUsable(ctx); err != nil {
		return Stats{}, err
	}
	switch {
	case ctx.Err() != nil:
		return Stats{}, context.Cause(ctx)
	case e.ctx.Err() != nil:
		return Stats{}, ErrClosed
	}
	out := Stats{Active: e.registry.countActors(), Commits: e.dir.Commits(), Feed: e.feedStats()}
	d := e.dispatcher
	d.mu.Lock()
	defer d.mu.Unlock()
	out.Queued, out.Running, out.Waiting = d.queue.Len(), d.running, d.waiting
	// Tasks that are held and neither queued, running nor delivered come later. The counts need not agree at each instant, hence the lower
	// bound.
	out.Pending = max(0, d.count-out.Queued-out.Running-out.Waiting)
	return out, nil
}

// noteWorker notes who performs an attempt.
func (d *dispatcher) noteWorker(key Key, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.heldTask(key); t != nil {
		t.worker, t.begun, t.pooled = name, time.Now(), true
		if t.performed = d.engine.hook.Now(); name == "" {
			t.performed = time.Time{}
		}
	}
}

// markTasks marks the tokens of a run whose tasks wait, with what for, and those whose tasks are performed.
func (d *dispatcher) markTasks(tokens []Token) {
	const atOnce = 500 // while tasks cannot begin
	for some := range slices.Chunk(tokens, atOnce) {
		d.markSome(some)
	}
}

// markSome marks the tokens of one chunk, for which tasks cannot begin.
func (d *dispatcher) markSome(tokens []Token) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var known *line
	for i := range tokens {
		t := d.heldTask(tokens[i].Key)
		switch {
		case t == nil:
			continue
		case t.entry.Waits():
			tokens[i].Limited = d.queue.BoundOn(&t.entry) != taskqueue.NoBound
		case t.isExecuted():
			tokens[i].Executing, tokens[i].Since, tokens[i].Worker = true, t.begun, t.worker
		}
		tokens[i].Queued = d.queuedAs(t, &known)
	}
}

// isExecuted reports whether a handler has the attempt, or a worker that has said so.
func (t *outTask) isExecuted() bool {
	return t.worker != "" || t.cancel != nil && !t.delivers && !t.pooled
}
