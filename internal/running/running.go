// Package running makes the runs of an engine go on: it starts and addresses their actors, wakes runs that sleep, and is what actors
// see of the engine: a store to commit to and an outbox to send through.
package running

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/faults"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/outbox"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/roster"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/tracing"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// Tasks takes what is dispatched; *dispatch.Dispatcher does.
type Tasks interface {
	Dispatch(d actor.Dispatch)
	Withdraw(run workflow.RunID, token workflow.TokenID)
	CountEnds(s *state.State, records []decision.Record, told []decision.Told)
}

// Blobs keep what joins have merged into blobs; *keeping.Keeper does.
type Blobs interface {
	PutMerged(ctx context.Context, blobs []decision.Blob) (release func(), err error)
	HoldsAny() bool // whether a blob is kept from being collected
}

// Stalls take note of commits, from their begin to their end; *dispatch.StallDetector does.
type Stalls interface {
	NoteCommit(run workflow.RunID) (end func())
}

// Readers are told how runs stand after their commits; *watching.Hub has them.
type Readers interface {
	TellCommit(run *store.Run, records []decision.Record, err error)
}

// Waiters are told that a run has moved on; *watching.Waiters are.
type Waiters interface{ Moved(out workflow.Outcome) }

// Schedules are told that a run has ended; a *scheduling.Scheduler has them.
type Schedules interface{ RunEnded(out workflow.Outcome) }

// Metrics count what is committed; *telemetry.Metrics do.
type Metrics interface {
	Loaded(s *state.State, since time.Time)
	CommitBegins(at time.Time) time.Duration
	Committed(s *state.State, records []decision.Record, told []decision.Told, began time.Duration)
}

// Options say what runs are part of. All fields but Feed, Schedules, Tracer and Hook are needed.
type Options struct {
	Dir           *store.Dir
	Roster        *roster.Roster
	Alive         context.Context    //nolint:containedctx // of actors; done when the engine closes
	Actor         actor.Options      // of each actor, but for its epoch
	Epoch         func() state.Epoch // of the tasks that are dispatched from now on
	Tasks         Tasks
	Blobs         Blobs
	Stalls        Stalls
	Feed          *outbox.Feeder // nil without a feed
	Readers       Readers
	Waiters       Waiters
	Schedules     Schedules
	Metrics       Metrics
	Tracer        *tracing.Tracer // nil without
	Faults        *faults.Log
	Logger        *slog.Logger
	Still         bool // runs are only operated: nothing is dispatched, and no message goes to relatives
	KeepArtifacts bool // of runs that do not complete
	Messages      int  // between relatives that are delivered side by side
	Hook          *testhook.Hook
}

// Runs are those of an engine.
type Runs struct {
	o         Options
	Alarms    *roster.Alarms
	Messenger *roster.Messenger
	Activate  func(workflow.RunID) error // activates a run, for its alarms

	damaged damagedRuns
}

// New returns the runs of a directory, none of which is active.
func New(o Options) *Runs {
	r := &Runs{o: o}
	r.Activate = func(id workflow.RunID) error { return r.Ask(o.Alive, id, nil) }
	r.Alarms = roster.NewAlarms(roster.AlarmOptions{
		Dir: o.Dir, Active: o.Roster.Has, Wake: r.WakeAll, Failed: o.Faults.Failure, Logger: o.Logger, Hook: o.Hook,
	})
	r.Messenger = roster.NewMessenger(roster.MessengerOptions{
		Runs: relatedRuns{o.Dir, r}, Most: o.Messages, Closed: o.Still, Hook: o.Hook,
	})
	return r
}

// A Birth is a run about to begin.
//
// With it the actor makes a run that does not exist; without it a missing run is ErrRunNotFound.
type Birth struct {
	Graph     *compiled.Graph
	InputHash string
	Parent    *workflow.Parent // of a child run
	Tenant    string
	Labels    map[string]string // nil without
	Limits    amount.Sums       // of what it may report, beyond those of its definition
	Keep      []store.Kept      // what the commit keeps that begins the run; nil without
	Caller    *state.Trace      // the span that its trace, which is one of its own, links to; nil without

	span *tracing.Beginning // its start span; nil without
}

// newcomer returns what the roster has to know of a run that is to begin; nil for one that exists.
func (b *Birth) newcomer() *roster.Newcomer {
	if b == nil {
		return nil
	}
	return &roster.Newcomer{Tenant: b.Tenant, Child: b.Parent != nil}
}

// Ask delivers a message to a run and waits until the answer is committed. A
// nil message only wakes the run.
func (r *Runs) Ask(ctx context.Context, id workflow.RunID, m state.Message) error {
	return r.AskOrStart(ctx, id, m, nil)
}

// AskOrStart is Ask for a run that b makes if it does not exist; b is nil if it exists.
func (r *Runs) AskOrStart(ctx context.Context, id workflow.RunID, m state.Message, b *Birth) error {
	sent, err := r.askOrStart(ctx, id, m, b)
	if b != nil && b.span != nil {
		b.span.Settle(err != nil && (!sent || isRefused(ctx, err)))
	}
	return err
}

// isRefused reports whether the answer to a message says that the run has not taken it and never will, as far as that is known: the message
// of a caller who has left may still be taken.
func isRefused(ctx context.Context, err error) bool {
	return !errors.Is(err, state.ErrUnknown) && (ctx.Err() == nil || errors.Is(err, actor.ErrBusy))
}

// askOrStart is AskOrStart, and reports whether an actor may have got the message.
func (r *Runs) askOrStart(ctx context.Context, id workflow.RunID, m state.Message, b *Birth) (sent bool, err error) {
	if ctx.Err() != nil {
		return false, late.Cause(ctx)
	}
	// The actor may end, being idle or broken, between being acquired and taking the message. It
	// was not taken then, and a new actor is asked.
	for newcomer := b.newcomer(); ; {
		r.o.Hook.Ask(string(id), m)
		a, err := r.o.Roster.Acquire(ctx, id, newcomer, func() *actor.Actor { return r.StartActor(id, b) })
		if b != nil && errors.Is(err, actor.ErrBusy) {
			err = r.refuseBusy(ctx, id, err)
		}
		if err != nil {
			return false, err
		}
		err = a.Ask(ctx, m)
		r.o.Roster.Release(a)
		if !errors.Is(err, actor.ErrStopped) || r.o.Alive.Err() != nil {
			return true, refusal.Closed(err)
		}
		<-a.Done() // it ended of itself before it took the message
		r.o.Roster.Ended(a)
	}
}

// ReleaseAnswered ends a hold on the blobs that the last message of a caller refers to, once the run has answered it. If ctx has ended, the
// message may still wait for its turn, and be committed later: the hold then ends when one behind it is answered, or the actor has ended.
func (r *Runs) ReleaseAnswered(ctx context.Context, id workflow.RunID, release func()) {
	var a *actor.Actor
	if ctx.Err() != nil && r.o.Blobs.HoldsAny() {
		a = r.o.Roster.Hold(id)
	}
	if a == nil {
		release()
		return
	}
	r.o.Roster.Go(func() {
		defer release()
		defer r.o.Roster.Release(a)
		_ = a.Ask(r.o.Alive, nil) // in either case the message before has had its turn
	})
}

// refuseBusy returns why a run does not begin for which there is no room: a run that is there already needs none, though it has no actor.
func (r *Runs) refuseBusy(ctx context.Context, id workflow.RunID, busy error) error {
	switch _, err := r.o.Dir.HeadUntil(ctx, id); {
	case errors.Is(err, store.ErrRunNotFound):
		return busy
	case err != nil:
		return refusal.Closed(err)
	}
	return state.ErrRunExists
}

// StartActor starts the actor of a run.
func (r *Runs) StartActor(id workflow.RunID, b *Birth) *actor.Actor {
	o := r.o.Actor
	o.Epoch = r.o.Epoch()
	a := actor.New(id, r.StoreOf(id, b), r, o)
	r.o.Roster.Go(func() { r.actorEnded(a, a.Run(r.o.Alive)) })
	return a
}

// actorEnded takes note that an actor has ended, and why.
//
// A run that broke is tried again after a pause, by the alarms, since nobody else may ever ask
// for it.
func (r *Runs) actorEnded(a *actor.Actor, err error) {
	if err != nil && !errors.Is(err, store.ErrRunNotFound) {
		r.o.Faults.OfRun(slog.LevelError, "pawl: the actors of runs have ended", a.ID, err)
	}
	r.o.Roster.Ended(a)
	if err != nil && !errors.Is(err, store.ErrRunNotFound) {
		r.Alarms.RetryLater(a.ID) // not before a while
	}
	if !a.Outcome().Status.Final() { // a run that has ended waits for no instant
		r.Alarms.Changed()
	}
}

// WakeAll activates runs that nobody has asked for, so many at once, and returns
// when each of them is up or has failed.
//
// It is used after Open, by alarms, and for retries; the gate keeps thousands of runs from
// reading their files at once.
func (r *Runs) WakeAll(ids []workflow.RunID) {
	gate := make(chan struct{}, maxWaking)
	var group sync.WaitGroup
	for _, id := range ids {
		select {
		case gate <- struct{}{}:
		case <-r.o.Alive.Done():
		}
		if r.o.Alive.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-gate }()
			r.Wake(id)
		})
	}
	group.Wait()
}

// maxWaking bounds how many sleeping runs are woken side by side.
const maxWaking = 64

// Wake activates a run. A run that was purged meanwhile is no fault. A run that is damaged is left as it is; any other error
// may pass (no descriptors, no memory, a disk that does not answer), so the run
// is tried again later.
func (r *Runs) Wake(id workflow.RunID) {
	err := r.Activate(id)
	switch {
	case err == nil:
		r.Alarms.Woken(id)
	case errors.Is(err, refusal.ErrClosed), r.o.Alive.Err() != nil:
	case errors.Is(err, store.ErrRunNotFound):
		r.Forget(id) // another run may have the id by now
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrVersion):
		r.Alarms.LeaveAsleep(id)
		r.o.Logger.Error("pawl: a run cannot go on", "run", string(id), "error", err)
	default:
		r.o.Faults.Asleep(id, r.Alarms.RetryLater(id), err)
	}
}

// Forget forgets a run that is not there any more.
func (r *Runs) Forget(id workflow.RunID) {
	r.Alarms.Forget(id)
	r.o.Roster.Forget(id)
	r.o.Tracer.Forget(id)
	r.damaged.noteLoad(id, nil)
}

// CountDamaged returns how many runs could not be loaded when that was tried last, because they are damaged or of another version.
func (r *Runs) CountDamaged() int { return int(r.damaged.count.Load()) }

// Damaged returns the ids of the first of them, at most most.
func (r *Runs) Damaged(most int) []workflow.RunID {
	d := &r.damaged
	if d.count.Load() == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := slices.Sorted(maps.Keys(d.runs))
	return ids[:min(len(ids), most)]
}

// damagedRuns are the runs that could not be loaded when that was tried last, for a reason that stays. The zero value has none.
type damagedRuns struct {
	count atomic.Int64
	mu    sync.Mutex
	runs  map[workflow.RunID]struct{}
}

// noteLoad takes note of whether a run could be loaded.
func (d *damagedRuns) noteLoad(id workflow.RunID, err error) {
	damage := (*store.CorruptError)(nil)
	damaged := errors.As(err, &damage) && damage.Run != "" || errors.Is(err, store.ErrVersion)
	if !damaged && (d.count.Load() == 0 || err != nil && !errors.Is(err, store.ErrRunNotFound)) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.runs, id); damaged {
		if d.runs == nil {
			d.runs = map[workflow.RunID]struct{}{}
		}
		d.runs[id] = struct{}{}
	}
	d.count.Store(int64(len(d.runs)))
}

var _ actor.Outbox = (*Runs)(nil)

// Dispatch implements actor.Outbox.
func (r *Runs) Dispatch(d actor.Dispatch) {
	if !r.o.Still { // the next Open sends it
		r.o.Tasks.Dispatch(d)
	}
}

// Withdraw implements actor.Outbox.
func (r *Runs) Withdraw(run workflow.RunID, token workflow.TokenID) {
	r.o.Tasks.Withdraw(run, token)
}

// Committed implements actor.Outbox.
func (r *Runs) Committed(out workflow.Outcome) {
	if out.Status != workflow.RunCompleted && !r.o.KeepArtifacts {
		out.Artifacts = nil
	}
	r.o.Roster.NoteStatus(out.Run, out.Status)
	r.o.Waiters.Moved(out)
	if out.Status.Final() && r.o.Schedules != nil {
		r.o.Schedules.RunEnded(out)
	}
}

// Leave implements actor.Outbox.
func (r *Runs) Leave(a *actor.Actor) bool { return r.o.Roster.LetGo(a) }

// StartChild implements actor.Relatives.
func (r *Runs) StartChild(c actor.Child) {
	r.Messenger.Enqueue(c.ID, roster.Message{Want: &c})
}

// CancelChild implements actor.Relatives.
func (r *Runs) CancelChild(child workflow.RunID) {
	r.Messenger.Enqueue(child, roster.Message{Cancel: true})
}

// ChildEnded implements actor.Relatives.
func (r *Runs) ChildEnded(child workflow.RunID, p workflow.Parent, m state.ChildEnded) {
	r.Messenger.Enqueue(child, roster.Message{Parent: p, Ended: &m})
}

// ChildAsks implements actor.Relatives.
func (r *Runs) ChildAsks(child workflow.RunID, p workflow.Parent) {
	r.Messenger.Enqueue(child, roster.Message{Parent: p})
}

// A runStore is the durable side of one run, as its actor sees it: a handle, which Load
// replaces.
type runStore struct {
	*store.Run // nil before the first Load, and after one that failed
	runs       *Runs
	id         workflow.RunID
	birth      *Birth
	waits      bool // as the roster knows: the run only waits
}

var _ actor.Store = (*runStore)(nil)

// StoreOf returns the durable side of a run, which b makes if it does not exist.
func (r *Runs) StoreOf(id workflow.RunID, b *Birth) actor.Store {
	return &runStore{runs: r, id: id, birth: b}
}

// Load implements actor.Store.
func (r *runStore) Load() (*state.State, int64, []decision.Event, error) {
	if err := r.Close(); err != nil {
		return nil, 0, nil, err
	}
	r.Run = nil
	if r.birth != nil { // nearly always there is no such run yet
		if found, err := r.runs.o.Dir.HasRun(r.id); err != nil {
			return nil, 0, nil, err
		} else if !found {
			return r.newRun()
		}
	}
	run, s, unflushed, err := r.runs.o.Dir.Load(r.id)
	r.runs.damaged.noteLoad(r.id, err)
	if errors.Is(err, store.ErrRunNotFound) && r.birth != nil {
		return r.newRun()
	}
	if err != nil {
		return nil, 0, nil, err
	}
	r.Run = run
	r.runs.o.Roster.NoteLoaded(r.id, s.Tenant, s.Status)
	r.noteWaits(s)
	r.runs.o.Metrics.Loaded(s, run.Head().At)
	r.runs.o.Tracer.Loaded(s)
	return s, run.Head().Seq, unflushed, nil
}

func (r *runStore) newRun() (*state.State, int64, []decision.Event, error) {
	g := r.birth.Graph
	head := store.Head{Run: r.id, InputHash: r.birth.InputHash, Tenant: r.birth.Tenant, Labels: r.birth.Labels}
	if p := r.birth.Parent; p != nil {
		head.Parent, head.Root = p.Run, p.Root
	}
	r.Run = r.runs.o.Dir.New(head, g)
	if err := r.Run.KeepAtStart(r.birth.Keep...); err != nil {
		return nil, 0, nil, err
	}
	return state.NewState(r.id, g), 0, nil, nil
}

// Commit implements actor.Store.
func (r *runStore) Commit(s *state.State, records []decision.Record, blobs []decision.Blob, told []decision.Told) error {
	release, err := r.runs.o.Blobs.PutMerged(r.runs.o.Alive, blobs)
	if err != nil {
		return fmt.Errorf("commit run %q: %w", string(r.id), err)
	}
	defer release()
	defer r.runs.o.Stalls.NoteCommit(r.id)()
	// A caller who begins to wait from here on looks at the row, whatever keeps the actor from telling of the
	// end.
	if s.Status.Final() {
		r.runs.o.Roster.NoteStatus(r.id, workflow.RunCreated)
	}
	r.runs.o.Tracer.CommitBegins(records)
	began := r.runs.o.Metrics.CommitBegins(records[0].At)
	err = r.Run.CommitAndTell(s, records, r.runs.o.Feed.WantedEvents(told))
	r.runs.o.Readers.TellCommit(r.Run, records, err)
	if err != nil { // it may have ended the run all the same, and its load may fail
		r.runs.o.Roster.NoteStatus(r.id, workflow.RunCreated)
	} else {
		r.noteWaits(s)
		r.runs.o.Metrics.Committed(s, records, told, began)
		r.runs.o.Tasks.CountEnds(s, records, told)
		r.runs.o.Tracer.Committed(s, records, told)
	}
	if errors.Is(err, store.ErrRemote) {
		return fmt.Errorf("%w: %w", actor.ErrNotTaken, err)
	}
	return err
}

// noteWaits notes whether the run, in the state that is committed, only waits: it goes on, and no task of it is out. A run that
// has ended leaves by itself, and counts until then.
func (r *runStore) noteWaits(s *state.State) {
	waits := s.Status != workflow.RunCreated && !s.Status.Final() && !r.runs.hasTasks(s)
	if waits || r.waits { // else the roster knows
		r.runs.o.Roster.NoteWaits(r.id, waits)
	}
	r.waits = waits
}

// hasTasks reports whether tasks of a run are queued, running or pending. A suspended run takes no results, and dispatches its tasks
// again when it is resumed.
func (r *Runs) hasTasks(s *state.State) bool {
	return !r.o.Still && s.Status != workflow.RunSuspended && s.CountByStatus(workflow.Dispatched) > 0
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

// Deliver hands a result to its run. If that is pending, answered is called with what the run says; else it has failed with err.
func (r *Runs) Deliver(run workflow.RunID, m state.Message, answered func(error)) (pending bool, err error) {
	r.o.Hook.Ask(string(run), m)
	a, err := r.o.Roster.Acquire(r.o.Alive, run, nil, func() *actor.Actor { return r.StartActor(run, nil) })
	if err != nil {
		return false, err
	}
	pending, err = a.Deliver(r.o.Alive, m, func(err error) { // Close waits for results that come
		r.o.Roster.Release(a)
		answered(refusal.Closed(err))
	})
	if !pending {
		r.o.Roster.Release(a)
	}
	return pending, err
}

// resultBackoff is the pause between two deliveries of a result.
var resultBackoff = timeout.Backoff{First: 10 * time.Millisecond, Max: time.Second}

// DeliverAgain hands a result to its run, again and again while the outcome of that
// is unknown, after it was handed over once with an error. It returns false if the run took none at all.
func (r *Runs) DeliverAgain(ctx context.Context, run workflow.RunID, m state.Message, err error) (taken bool) {
	for wait := resultBackoff.Next(0); ; wait = resultBackoff.Next(wait) {
		if taken, over := r.isAnswered(ctx, run, err); over {
			return taken
		}
		if !errors.Is(err, actor.ErrStopped) { // there is another actor at once
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return true
			}
		}
		err = r.Ask(r.o.Alive, run, m)
	}
}

// isAnswered reports whether an answer to a result is the last, and whether the run has taken that, or refused it as
// stale: then it was for an attempt that is over.
func (r *Runs) isAnswered(ctx context.Context, run workflow.RunID, err error) (taken, over bool) {
	switch {
	case errors.Is(err, actor.ErrStopped) && r.o.Alive.Err() == nil: // it ended of itself before it took the message
		return false, false
	case err == nil, errors.Is(err, state.ErrStale), errors.Is(err, state.ErrEnded), errors.Is(err, refusal.ErrClosed), ctx.Err() != nil:
		return true, true
	case errors.Is(err, store.ErrFailed): // the next Open sends the task again
		return true, true
	case errors.Is(err, state.ErrUnknown): // whatever the cause: sent again, it counts once
		return false, false
	case errors.Is(err, state.ErrSuspended), errors.Is(err, store.ErrRunNotFound), errors.Is(err, store.ErrCorrupt):
		r.o.Faults.OfRun(slog.LevelWarn, "pawl: results could not be delivered", run, err)
		return false, true
	}
	return false, false
}

// relatedRuns are the runs as their messenger sees them.
type relatedRuns struct {
	*store.Dir
	runs *Runs
}

var _ roster.Runs = relatedRuns{}

// Ask implements roster.Runs.
func (r relatedRuns) Ask(id workflow.RunID, m state.Message) error {
	return r.runs.Ask(r.runs.o.Alive, id, m)
}

// StartChild implements roster.Runs.
func (r relatedRuns) StartChild(d *actor.Child, g *compiled.Graph) error {
	input, _ := d.Input.(map[string]any)
	b := &Birth{Graph: g, InputHash: value.Hash(input), Parent: &d.Parent, Tenant: d.Tenant}
	m := state.Start{Input: input, Parent: &d.Parent, Pins: d.Pins, Tenant: d.Tenant, Limits: d.Limits, Trace: r.traceChild(d, b)}
	return r.runs.AskOrStart(r.runs.o.Alive, d.ID, m, b)
}

// TraceStart makes the start span of a run, and tells its message, unless there is the run. AskOrStart must follow.
func (r *Runs) TraceStart(ctx context.Context, id workflow.RunID, m *state.Start, b *Birth) error {
	if r.o.Tracer == nil {
		return nil
	}
	m.Trace, b.span = nil, nil // of a start that was refused
	if found, err := r.o.Dir.HasRun(id); found || err != nil {
		return refusal.Closed(err)
	}
	of := tracing.RunBy(id, b.Graph.Definition, nil)
	if b.Caller != nil {
		b.span = r.o.Tracer.BeginApart(ctx, of, b.Caller)
	} else {
		b.span = r.o.Tracer.Begin(ctx, of)
	}
	b.span.Await()
	m.Trace = b.span.Trace()
	return nil
}

// traceChild returns the trace of a child run that is about to begin: that of its parent, or one of its own if that has become old.
func (r relatedRuns) traceChild(d *actor.Child, b *Birth) *state.Trace {
	t := r.runs.o.Tracer
	if !t.IsOld(d.Trace) {
		return d.Trace
	}
	if found, err := r.HasRun(d.ID); found || err != nil {
		return d.Trace // it began before, or cannot now
	}
	b.span = t.BeginApart(r.runs.o.Alive, tracing.RunBy(d.ID, b.Graph.Definition, nil), d.Trace)
	b.span.Await()
	return b.span.Trace()
}

// Reported implements roster.Runs.
func (r relatedRuns) Reported(id workflow.RunID) (amount.Sums, error) {
	_, s, err := r.HeadAndState(r.runs.o.Alive, id)
	if err != nil {
		return nil, err
	}
	return s.Reported.Total(), nil
}

// TellApart implements roster.Runs.
func (r relatedRuns) TellApart(child workflow.RunID, err error) {
	if r.runs.o.Alive.Err() == nil {
		r.runs.o.Faults.Apart(child, err)
	}
}

// Storable implements roster.Runs.
func (r relatedRuns) Storable(text string) string { return texts.Storable(text, texts.MaxMessage) }
