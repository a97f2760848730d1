package pawl

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/roster"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An actorOutbox is the engine as its actors see it.
type actorOutbox struct{ engine *Engine }

var _ actor.Outbox = actorOutbox{}

// Dispatch implements actor.Outbox.
func (o actorOutbox) Dispatch(d actor.Dispatch) {
	if !o.engine.options.Maintenance { // the next Open sends it
		o.engine.dispatcher.Dispatch(d)
	}
}

// Withdraw implements actor.Outbox.
func (o actorOutbox) Withdraw(run workflow.RunID, token workflow.TokenID) {
	o.engine.dispatcher.Withdraw(run, token)
}

// Committed implements actor.Outbox.
func (o actorOutbox) Committed(out workflow.Outcome) {
	if out.Status != workflow.RunCompleted && !o.engine.options.KeepArtifacts {
		out.Artifacts = nil
	}
	o.engine.registry.NoteStatus(out.Run, out.Status)
	o.engine.waiters.runMoved(out)
}

// Leave implements actor.Outbox.
func (o actorOutbox) Leave(a *actor.Actor) bool { return o.engine.registry.LetGo(a) }

// StartChild implements actor.Relatives.
func (o actorOutbox) StartChild(c actor.Child) {
	o.engine.messenger.Enqueue(c.ID, roster.Message{Want: &c})
}

// CancelChild implements actor.Relatives.
func (o actorOutbox) CancelChild(child workflow.RunID) {
	o.engine.messenger.Enqueue(child, roster.Message{Cancel: true})
}

// ChildEnded implements actor.Relatives.
func (o actorOutbox) ChildEnded(child workflow.RunID, p workflow.Parent, m state.ChildEnded) {
	o.engine.messenger.Enqueue(child, roster.Message{Parent: p, Ended: &m})
}

// ChildAsks implements actor.Relatives.
func (o actorOutbox) ChildAsks(child workflow.RunID, p workflow.Parent) {
	o.engine.messenger.Enqueue(child, roster.Message{Parent: p})
}

// A runStore is the durable side of one run, as its actor sees it: a handle, which Load
// replaces.
type runStore struct {
	*store.Run // nil before the first Load, and after one that failed
	engine     *Engine
	id         workflow.RunID
	birth      *birth
}

var _ actor.Store = (*runStore)(nil)

// Load implements actor.Store.
func (r *runStore) Load() (*state.State, int64, []decision.Event, error) {
	if err := r.Close(); err != nil {
		return nil, 0, nil, err
	}
	r.Run = nil
	if r.birth != nil { // nearly always there is no such run yet
		if found, err := r.engine.dir.HasRun(r.id); err != nil {
			return nil, 0, nil, err
		} else if !found {
			return r.newRun()
		}
	}
	run, s, unflushed, err := r.engine.dir.Load(r.id)
	if errors.Is(err, store.ErrRunNotFound) && r.birth != nil {
		return r.newRun()
	}
	if err != nil {
		return nil, 0, nil, err
	}
	r.Run = run
	r.engine.registry.NoteTenant(r.id, s.Tenant)
	return s, run.Head().Seq, unflushed, nil
}

func (r *runStore) newRun() (*state.State, int64, []decision.Event, error) {
	g := r.birth.graph
	head := store.Head{Run: r.id, InputHash: r.birth.inputHash, Tenant: r.birth.tenant, Labels: r.birth.labels}
	if p := r.birth.parent; p != nil {
		head.Parent, head.Root = p.Run, p.Root
	}
	r.Run = r.engine.dir.New(head, g)
	return state.NewState(r.id, g), 0, nil, nil
}

// Commit implements actor.Store.
func (r *runStore) Commit(s *state.State, records []decision.Record, blobs []decision.Blob, told []decision.Told) error {
	release, err := r.engine.putMerged(blobs)
	if err != nil {
		return fmt.Errorf("commit run %q: %w", string(r.id), err)
	}
	defer release()
	defer r.engine.stalls.NoteCommit(r.id)()
	// A caller who begins to wait from here on looks at the row, whatever keeps the actor from telling of the
	// end.
	if s.Status.Final() {
		r.engine.registry.NoteStatus(r.id, s.Status)
	}
	err = r.Run.CommitAndTell(s, records, r.engine.feeder.WantedEvents(told))
	r.engine.watches.tellCommit(r.Run, records, err)
	if err != nil { // it may have ended the run all the same, and its load may fail
		r.engine.registry.NoteStatus(r.id, workflow.RunCreated)
	}
	if errors.Is(err, ErrRemote) {
		return fmt.Errorf("%w: %w", actor.ErrNotTaken, err)
	}
	return err
}

// Flush implements actor.Store.
func (r *runStore) Flush(ch state.Changes, told [][]decision.Told, done func(error)) {
	r.Run.FlushTold(ch, told, done)
}

// Close implements actor.Store.
func (r *runStore) Close() error {
	if r.Run == nil {
		return nil
	}
	if err := r.Run.Close(); err != nil {
		return fmt.Errorf("close run %q: %w", string(r.id), err)
	}
	return nil
}

// relatedRuns are the runs of an engine as its messenger sees them.
type relatedRuns struct {
	*store.Dir
	engine *Engine
}

var _ roster.Runs = relatedRuns{}

// newMessenger returns what carries messages between the parents and children of an engine.
func newMessenger(e *Engine) *roster.Messenger {
	return roster.NewMessenger(roster.MessengerOptions{
		Runs: relatedRuns{e.dir, e}, Most: messagesAtOnce(e.options.Durability), Closed: e.options.Maintenance, Hook: e.hook,
	})
}

// maxChildMessages bounds how many messages are delivered side by side.
const maxChildMessages = 16

// messagesAtOnce returns how many messages are delivered side by side: where commits
// are synced, enough of them that their commits are synced together; otherwise no
// more than keep the processors busy, so that other runs find one.
func messagesAtOnce(d Durability) int {
	if d == ProcessCrash {
		return min(2*runtime.GOMAXPROCS(0), maxChildMessages)
	}
	return maxChildMessages
}

// Ask implements roster.Runs.
func (r relatedRuns) Ask(id workflow.RunID, m state.Message) error {
	return r.engine.askRun(r.engine.ctx, id, m)
}

// StartChild implements roster.Runs.
func (r relatedRuns) StartChild(d *actor.Child, g *workflow.Graph) error {
	input, _ := d.Input.(map[string]any)
	b := &birth{graph: g, inputHash: value.Hash(input), parent: &d.Parent, tenant: d.Tenant}
	return r.engine.askOrStart(r.engine.ctx, d.ID, state.Start{Input: input, Parent: &d.Parent, Pins: d.Pins, Tenant: d.Tenant}, b)
}

// TellApart implements roster.Runs.
func (r relatedRuns) TellApart(child workflow.RunID, err error) {
	if r.engine.ctx.Err() == nil {
		r.engine.logApart(child, err)
	}
}

// Storable implements roster.Runs.
func (r relatedRuns) Storable(text string) string { return storableText(text, maxMessage) }
