package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// ask delivers a message to a run and waits until the answer is committed. A
// nil message only wakes the run.
func (e *Engine) ask(ctx context.Context, id workflow.RunID, m workflow.Message) error {
	return e.askOf(ctx, id, m, nil)
}

// askOf is ask, where birth, if not nil, is the run to make if there is none.
func (e *Engine) askOf(ctx context.Context, id workflow.RunID, m workflow.Message, b *birth) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for {
		failpoint.Ask(string(id), m)
		a, err := e.registry.hold(ctx, id, b != nil && b.parent == nil, func() *actor.Actor { return e.activate(id, b) })
		if err != nil {
			return err
		}
		err = a.Ask(ctx, m)
		e.registry.release(a)
		if !errors.Is(err, actor.ErrStopped) || e.ctx.Err() != nil {
			return closedError(err)
		}
		<-a.Done() // it ended of itself before it took the message
		e.registry.gone(a)
	}
}

// A birth is a run about to begin.
type birth struct {
	graph     *workflow.Graph
	inputHash string
	parent    *workflow.Parent // of a child run
}

// activate starts the actor of a run.
func (e *Engine) activate(id workflow.RunID, b *birth) *actor.Actor {
	s := &runStore{dir: e.dir, id: id, birth: b, keep: e.options.KeepArtifacts}
	a := actor.New(id, s, outbox{e}, actor.Options{
		Epoch: e.epoch(), Mailbox: mailboxSize, Batch: batchSize, Idle: e.options.IdleAfter,
		FileRecords: fileRecords, FileBytes: fileBytes,
		Fault: func(id workflow.RunID, err error) {
			if errors.Is(err, store.ErrNoRoom) {
				return // a sibling was quicker; the parent is told
			}
			e.options.Logger.Error("pawl: fault", "run", string(id), "error", err)
		},
	})
	e.registry.group.Go(func() {
		err := a.Run(e.ctx)
		e.registry.gone(a)
		if err != nil && !errors.Is(err, store.ErrRunNotFound) {
			e.options.Logger.Error("pawl: a run's actor ended", "run", string(id), "error", err)
			e.alarms.retry(id) // not before a while
		}
		e.alarms.changed()
	})
	return a
}

// An outbox is the engine as its actors see it.
type outbox struct{ engine *Engine }

var _ actor.Outbox = outbox{}

// Dispatch implements actor.Outbox.
func (o outbox) Dispatch(d actor.Dispatch) { o.engine.dispatcher.dispatch(d) }

// Withdraw implements actor.Outbox.
func (o outbox) Withdraw(run workflow.RunID, token workflow.TokenID) {
	o.engine.dispatcher.withdraw(run, token)
}

// Committed implements actor.Outbox.
func (o outbox) Committed(out workflow.Outcome) {
	if out.Status != workflow.RunCompleted && !o.engine.options.KeepArtifacts {
		out.Artifacts = nil
	}
	o.engine.waiters.tell(out)
}

// Leave implements actor.Outbox.
func (o outbox) Leave(a *actor.Actor) bool { return o.engine.registry.leave(a) }

// A runStore is the durable side of one run, as its actor sees it.
type runStore struct {
	dir   *store.Dir
	id    workflow.RunID
	birth *birth
	run   *store.Run
	head  store.Head
	keep  bool // the artifacts of a run that fails
}

var _ actor.Store = (*runStore)(nil)

// Load implements actor.Store.
func (r *runStore) Load() (*workflow.State, int64, []decision.Event, error) {
	if r.run != nil {
		if err := r.run.Close(); err != nil {
			return nil, 0, nil, err
		}
		r.run = nil
	}
	run, s, unfiled, err := r.dir.Load(r.id)
	if errors.Is(err, store.ErrRunNotFound) && r.birth != nil {
		return r.create()
	}
	if err != nil {
		return nil, 0, nil, err
	}
	if r.head, err = r.dir.Head(r.id); err != nil {
		return nil, 0, nil, err
	}
	r.run = run
	return s, r.head.Seq, unfiled, nil
}

func (r *runStore) create() (*workflow.State, int64, []decision.Event, error) {
	g := r.birth.graph
	r.head = store.Head{
		Run: r.id, Workflow: g.Definition.Name, Version: g.Definition.Version,
		Definition: g.Hash, InputHash: r.birth.inputHash,
	}
	if p := r.birth.parent; p != nil {
		r.head.Parent, r.head.Root = p.Run, p.Root
	}
	r.run = r.dir.New(r.head, g)
	return workflow.NewState(r.id, g), 0, nil, nil
}

// Commit implements actor.Store.
func (r *runStore) Commit(s *workflow.State, records []decision.Record) error {
	r.head.Status, r.head.Seq = s.Status, records[len(records)-1].Seq
	r.head.Alarm = planning.Alarm(s)
	r.head.StartedAt, r.head.EndedAt = s.StartedAt, s.EndedAt
	r.head.Output, r.head.Failure = s.Output, s.Failure
	r.head.Artifacts, r.head.Dropped = artifacts(s, r.keep)
	r.head.Listings = store.Listings(s, records[len(records)-1].At)
	return r.run.Commit(records, r.head)
}

// File implements actor.Store.
func (r *runStore) File(ch workflow.Changes, events []decision.Event, done func(error)) {
	r.run.Materialize(ch, events, done)
}

// Unfiled implements actor.Store.
func (r *runStore) Unfiled() (int, int64) { return r.run.Unfiled() }

// Close implements actor.Store.
func (r *runStore) Close() error {
	if r.run == nil {
		return nil
	}
	if err := r.run.Close(); err != nil {
		return fmt.Errorf("close run %q: %w", string(r.id), err)
	}
	return nil
}
