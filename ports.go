package pawl

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An outbox is the engine as its actors see it.
type outbox struct{ engine *Engine }

var _ actor.Outbox = outbox{}

// Dispatch implements actor.Outbox.
func (o outbox) Dispatch(d actor.Dispatch) { o.engine.dispatcher.dispatchTask(d) }

// Withdraw implements actor.Outbox.
func (o outbox) Withdraw(run workflow.RunID, token workflow.TokenID) {
	o.engine.dispatcher.withdrawTask(run, token)
}

// Committed implements actor.Outbox.
func (o outbox) Committed(out workflow.Outcome) {
	if out.Status != workflow.RunCompleted && !o.engine.options.KeepArtifacts {
		out.Artifacts = nil
	}
	o.engine.waiters.runMoved(out)
}

// Leave implements actor.Outbox.
func (o outbox) Leave(a *actor.Actor) bool { return o.engine.registry.letActorGo(a) }

// StartChild implements actor.Family.
func (o outbox) StartChild(c actor.Child) {
	o.engine.messenger.enqueueMessage(c.ID, childMessage{want: &c})
}

// CancelChild implements actor.Family.
func (o outbox) CancelChild(child workflow.RunID) {
	o.engine.messenger.enqueueMessage(child, childMessage{cancel: true})
}

// ChildEnded implements actor.Family.
func (o outbox) ChildEnded(child workflow.RunID, p workflow.Parent, m state.ChildEnded) {
	o.engine.messenger.enqueueMessage(child, childMessage{parent: p, ended: &m})
}

// ChildAsks implements actor.Family.
func (o outbox) ChildAsks(child workflow.RunID, p workflow.Parent) {
	o.engine.messenger.enqueueMessage(child, childMessage{parent: p})
}

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
func (r *runStore) Load() (*state.State, int64, []decision.Event, error) {
	if r.run != nil {
		if err := r.run.Close(); err != nil {
			return nil, 0, nil, err
		}
		r.run = nil
	}
	run, s, unflushed, err := r.dir.Load(r.id)
	if errors.Is(err, store.ErrRunNotFound) && r.birth != nil {
		return r.newRun()
	}
	if err != nil {
		return nil, 0, nil, err
	}
	if r.head, err = r.dir.Head(r.id); err != nil {
		return nil, 0, nil, err
	}
	r.run = run
	return s, r.head.Seq, unflushed, nil
}

func (r *runStore) newRun() (*state.State, int64, []decision.Event, error) {
	g := r.birth.graph
	r.head = store.Head{
		Run: r.id, Workflow: g.Definition.Name, Version: g.Definition.Version,
		Definition: g.Hash, InputHash: r.birth.inputHash,
	}
	if p := r.birth.parent; p != nil {
		r.head.Parent, r.head.Root = p.Run, p.Root
	}
	r.run = r.dir.New(r.head, g)
	return state.NewState(r.id, g), 0, nil, nil
}

// Commit implements actor.Store.
func (r *runStore) Commit(s *state.State, records []decision.Record) error {
	r.head.Status, r.head.Seq = s.Status, records[len(records)-1].Seq
	r.head.Alarm = planning.Alarm(s)
	r.head.StartedAt, r.head.EndedAt = s.StartedAt, s.EndedAt
	r.head.Output, r.head.Failure = s.Output, s.Failure
	r.head.Artifacts, r.head.Dropped = finalArtifacts(s, r.keep)
	r.head.Listings = store.Listings(s, records[len(records)-1].At)
	return r.run.Commit(records, r.head)
}

// finalArtifacts returns what a commit says of the artifacts of a run: those of its
// outcome, and whether those that were staged are not wanted any more.
func finalArtifacts(s *state.State, keep bool) (out []workflow.Artifact, dropped bool) {
	switch {
	case !s.Status.Final():
		return nil, false
	case s.Status == workflow.RunCompleted || keep:
		return s.Artifacts, false
	}
	return nil, len(s.Artifacts) > 0
}

// Flush implements actor.Store.
func (r *runStore) Flush(ch state.Changes, events []decision.Event, done func(error)) {
	r.run.Flush(ch, events, done)
}

// Unflushed implements actor.Store.
func (r *runStore) Unflushed() (int, int64) { return r.run.Unflushed() }

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
