package pawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/roster"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskqueue"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// Run starts a run and waits for its outcome: Start and Wait in one. With Options.Maintenance it starts
// nothing and fails with ErrMaintenance.
func (e *Engine) Run(ctx context.Context, run workflow.Run, input any) (workflow.Outcome, error) {
	if err := e.checkUsable(ctx); err != nil {
		return workflow.Outcome{}, err
	}
	if e.options.Maintenance {
		return workflow.Outcome{}, fmt.Errorf("run %q: %w", string(run.ID), ErrMaintenance)
	}
	if err := e.Start(ctx, run, input); err != nil {
		return workflow.Outcome{}, err
	}
	return e.Wait(ctx, run.ID)
}

// askRun delivers a message to a run and waits until the answer is committed. A
// nil message only wakes the run.
func (e *Engine) askRun(ctx context.Context, id workflow.RunID, m state.Message) error {
	return e.askOrStart(ctx, id, m, nil)
}

// askOrStart is askRun for a run that b makes if it does not exist; b is nil if it exists. A message in the context of a
// simulation goes to that.
func (e *Engine) askOrStart(ctx context.Context, id workflow.RunID, m state.Message, b *birth) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The actor may end, being idle or broken, between being acquired and taking the message,
	// or fail because the one who started it wanted a run that did not exist. In both cases the
	// message was not taken, and a new actor is asked.
	for {
		e.hook.Ask(string(id), m)
		a, err := e.registry.Acquire(ctx, id, b.newcomer(), func() *actor.Actor { return e.startActor(id, b) })
		if err != nil {
			return err
		}
		err = a.Ask(ctx, m)
		e.registry.Release(a)
		missed := b != nil && errors.Is(err, ErrRunNotFound) // it was somebody's who asked for a run that was not there
		if !missed && !errors.Is(err, actor.ErrStopped) || e.ctx.Err() != nil {
			return closedError(err)
		}
		<-a.Done() // it ended of itself before it took the message
		e.registry.Ended(a)
	}
}

// A birth is a run about to begin.
//
// With it the actor makes a run that does not exist; without it a missing run is ErrRunNotFound.
type birth struct {
	graph     *workflow.Graph
	inputHash string
	parent    *workflow.Parent // of a child run
	tenant    string
	labels    map[string]string // nil without
}

// newcomer returns what the roster has to know of a run that is to begin; nil for one that exists.
func (b *birth) newcomer() *roster.Newcomer {
	if b == nil {
		return nil
	}
	return &roster.Newcomer{Tenant: b.tenant, Child: b.parent != nil}
}

// newRoster returns the roster of an engine.
func newRoster(e *Engine) *roster.Roster {
	return roster.New(roster.Options{Room: e.checkRoom, ByTenant: len(e.options.Tenants) > 0, Closed: ErrClosed})
}

// checkRoom returns ErrBusy if no further run of a tenant may be active, when so many are, and so many of the tenant.
func (e *Engine) checkRoom(tenant string, active, ofTenant int) error {
	if active >= e.options.MaxActive {
		return fmt.Errorf("%w: %d runs are active", ErrBusy, active)
	}
	limit := tenantLimitOf(e.options.Tenants, tenant)
	if limit.Active > 0 && ofTenant >= limit.Active {
		return &TenantBusyError{Tenant: tenant, Active: ofTenant, Max: limit.Active}
	}
	// Counting bytes costs a look into the index, and is done last.
	if limit.Bytes == 0 {
		return nil
	}
	if n := e.dir.TenantBytes(tenant); n >= limit.Bytes {
		return &TenantFullError{Tenant: tenant, Bytes: n, Max: limit.Bytes}
	}
	return nil
}

// newAlarms returns the alarms of an engine.
func newAlarms(e *Engine) *roster.Alarms {
	return roster.NewAlarms(roster.AlarmOptions{
		Dir: e.dir, Active: e.registry.Has, Wake: e.wakeRuns, Failed: e.faults.Failure, Logger: e.options.Logger, Hook: e.hook,
	})
}

// startActor starts the actor of a run.
func (e *Engine) startActor(id workflow.RunID, b *birth) *actor.Actor {
	s := &runStore{engine: e, id: id, birth: b}
	a := actor.New(id, s, actorOutbox{e}, actor.Options{
		Epoch: e.dispatchEpoch(), Mailbox: mailboxSize, Batch: batchSize, Idle: e.options.IdleAfter,
		FlushRecords: flushRecords, FlushBytes: flushBytes, Hook: e.hook, Still: e.options.Maintenance,
		Fault: e.faults.Fault, Metrics: e.metrics,
	})
	e.registry.Go(func() { e.actorEnded(a, a.Run(e.ctx)) })
	return a
}

// actorEnded takes note that an actor has ended, and why.
//
// A run that broke is tried again after a pause, by the alarms, since nobody else may ever ask
// for it.
func (e *Engine) actorEnded(a *actor.Actor, err error) {
	if err != nil && !errors.Is(err, store.ErrRunNotFound) {
		e.faults.OfRun(slog.LevelError, "pawl: the actors of runs have ended", a.ID, err)
	}
	e.registry.Ended(a)
	if err != nil && !errors.Is(err, store.ErrRunNotFound) {
		e.alarms.RetryLater(a.ID) // not before a while
	}
	if !a.Outcome().Status.Final() { // a run that has ended waits for no instant
		e.alarms.Changed()
	}
}

// wakeRuns activates runs that nobody has asked for, so many at once, and returns
// when each of them is up or has failed.
//
// It is used after Open, by alarms, and for retries; the gate keeps thousands of runs from
// reading their files at once.
func (e *Engine) wakeRuns(ids []workflow.RunID) {
	gate := make(chan struct{}, maxWaking)
	var group sync.WaitGroup
	for _, id := range ids {
		select {
		case gate <- struct{}{}:
		case <-e.ctx.Done():
		}
		if e.ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-gate }()
			e.wakeRun(id)
		})
	}
	group.Wait()
}

// maxWaking bounds how many sleeping runs are woken side by side.
const maxWaking = 64

// wakeRun activates a run. A run that is damaged is left as it is; any other error
// may pass (no descriptors, no memory, a disk that does not answer), so the run
// is tried again later.
func (e *Engine) wakeRun(id workflow.RunID) {
	err := e.wake(id)
	switch {
	case err == nil:
		e.alarms.Woken(id)
	case errors.Is(err, ErrClosed), e.ctx.Err() != nil:
	case errors.Is(err, ErrCorrupt), errors.Is(err, store.ErrVersion), errors.Is(err, ErrRunNotFound):
		e.alarms.LeaveAsleep(id)
		e.options.Logger.Error("pawl: a run cannot go on", "run", string(id), "error", err)
	default:
		e.faults.Asleep(id, e.alarms.RetryLater(id), err)
	}
}

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
	o.engine.waiters.Moved(out)
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
	r.engine.metrics.Loaded(s)
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
	release, err := r.engine.blobs.PutMerged(r.engine.ctx, blobs)
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
	began := r.engine.metrics.Now()
	err = r.Run.CommitAndTell(s, records, r.engine.feeder.WantedEvents(told))
	r.engine.watches.TellCommit(r.Run, records, err)
	if err != nil { // it may have ended the run all the same, and its load may fail
		r.engine.registry.NoteStatus(r.id, workflow.RunCreated)
	} else {
		r.engine.metrics.Committed(s, records, told, began)
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
		r.engine.faults.Apart(child, err)
	}
}

// Storable implements roster.Runs.
func (r relatedRuns) Storable(text string) string { return storableText(text, maxMessage) }

// A taskHost is the engine as its dispatcher sees it.
type taskHost struct{ engine *Engine }

var _ dispatch.Host = taskHost{}

// newDispatcher returns the dispatcher of an engine. ctx is the context of every task.
func newDispatcher(ctx context.Context, e *Engine) *dispatch.Dispatcher {
	o := dispatch.Options{Host: taskHost{e}, Most: e.options.Concurrency, Batch: batchSize, Types: map[string]taskqueue.Limit{}, Metrics: e.metrics, Hook: e.hook}
	for kind, l := range e.options.Types {
		o.Types[kind] = taskqueue.Limit(l)
	}
	o.TenantLimit = func(tenant string) dispatch.TenantLimit {
		l := tenantLimitOf(e.options.Tenants, tenant)
		return dispatch.TenantLimit{Concurrency: l.Concurrency, Pending: l.Pending}
	}
	return dispatch.New(ctx, o)
}

// Execute implements dispatch.Host.
func (h taskHost) Execute(ctx context.Context, t *dispatch.Task) (any, error) {
	return h.engine.options.Executor.Execute(ctx, h.engine.executorTask(t))
}

// executorTask returns an attempt as the executor sees it.
func (e *Engine) executorTask(t *dispatch.Task) Task {
	queued, performed := t.Times()
	return Task{
		Key: e.keyOf(t.Name()), EffectKey: string(t.Run) + "/" + string(t.Node.ID) + "/" + strconv.FormatInt(int64(t.Token), 10),
		Run: t.Run, Root: t.Root, Workflow: t.Workflow, Tenant: t.Tenant, Node: t.Node.ID, Type: t.Task, Attempt: t.Attempt,
		Priority: t.Node.Priority, Order: t.Order(),
		Input: t.Input, Branch: Branch{Index: t.Branch.Branch, Total: t.Total}, Deadline: t.Due, Details: t.Details, DispatchedAt: queued, BeganAt: performed, services: engineServices{e},
	}
}

// Panicked implements dispatch.Host.
func (h taskHost) Panicked(t *dispatch.Task, value any, stack []byte) workflow.Failure {
	h.engine.options.Logger.Error("pawl: a handler panicked", "run", string(t.Run), "node", string(t.Node.ID), "panic", value, "stack", string(stack))
	return workflow.Failure{Code: workflow.CodePanic, Message: storableText(fmt.Sprint(value), maxMessage), Permanent: true}
}

// Result implements dispatch.Host.
func (h taskHost) Result(ctx context.Context, t *dispatch.Task, output any, err error) (m state.Message, unpin func()) {
	if errors.Is(err, ErrPending) {
		return nil, nil
	}
	if err != nil && lacksDescriptors(err) {
		h.engine.options.Logger.Warn("pawl: a task met too many open files: it is called again", "run", string(t.Run), "node", string(t.Node.ID), "error", err)
	}
	m = taskResult(t, output, err)
	if done, ok := m.(state.TaskCompleted); ok {
		if unpin, err = h.engine.blobs.PinResult(ctx, done); err != nil {
			return unpinnedResult(t, err), nil
		}
	}
	return m, unpin
}

// taskResult returns the message that says what a handler has returned.
func taskResult(t *dispatch.Task, output any, err error) state.Message {
	if err != nil {
		return attemptError(state.TaskFailed{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch}, withResultMetadata(output, err))
	}
	m, err := taskCompleted(output)
	if err != nil {
		return t.Failed(workflow.Failure{Code: workflow.CodeInvalidResult, Message: err.Error(), Permanent: true})
	}
	m.Token, m.Attempt, m.Epoch, m.Began = t.Token, t.Attempt, t.Epoch, t.BeganMilli()
	return m
}

// unpinnedResult returns the message that a result cannot enter the run, because a blob that
// it refers to is missing, another, or cannot be looked at.
func unpinnedResult(t *dispatch.Task, err error) state.Message {
	if lacksDescriptors(err) {
		return state.TaskSnoozed{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch, After: descriptorPause}
	}
	return t.Failed(referenceFailure(err))
}

// resultLimits bound what is normalised before the definition's own limits
// apply.
var resultLimits = value.Limits{Bytes: limits.MaxMergedBytes}

// metadataLimits bound the metadata of a result, which no definition limits.
var metadataLimits = value.Limits{Bytes: workflow.DefaultLimits().PayloadBytes}

// taskCompleted returns the message that an attempt has come to an output, which may
// be a Result. Token, attempt and epoch are the caller's to set.
func taskCompleted(output any) (state.TaskCompleted, error) {
	var m state.TaskCompleted
	if r, ok := output.(Result); ok {
		metadata, err := value.Normalize(r.Metadata, metadataLimits)
		if err != nil {
			return m, fmt.Errorf("metadata: %w", err)
		}
		m.Metadata, _ = metadata.(map[string]any)
		if m.Artifacts, err = stagedArtifacts(r.Artifacts); err != nil {
			return m, err
		}
		output = r.Output
	}
	var err error
	if m.Output, m.Measure, err = value.NormalizeMeasured(output, resultLimits); err != nil {
		return m, fmt.Errorf("the result is not JSON: %w", err)
	}
	return m, nil
}

// Deliver implements dispatch.Host.
func (h taskHost) Deliver(t *dispatch.Task, m state.Message) (pending bool, err error) {
	e := h.engine
	e.hook.Ask(string(t.Run), m)
	a, err := e.registry.Acquire(e.ctx, t.Run, nil, func() *actor.Actor { return e.startActor(t.Run, nil) })
	if err != nil {
		return false, err
	}
	pending, err = a.Deliver(e.ctx, m, func(err error) { // Close waits for results that come
		e.registry.Release(a)
		e.dispatcher.Answered(t, m, closedError(err))
	})
	if !pending {
		e.registry.Release(a)
	}
	return pending, err
}

// DeliverAgain implements dispatch.Host.
func (h taskHost) DeliverAgain(ctx context.Context, t *dispatch.Task, m state.Message, err error) (taken bool) {
	return h.engine.deliverResult(ctx, t.Run, m, closedError(err))
}

// resultBackoff is the pause between two deliveries of a result.
var resultBackoff = timeout.Backoff{First: 10 * time.Millisecond, Max: time.Second}

// deliverResult hands a result to its run, again and again while the outcome of that
// is unknown, after it was handed over once with an error. It returns false if the run took none at all.
func (e *Engine) deliverResult(ctx context.Context, run workflow.RunID, m state.Message, err error) (taken bool) {
	for wait := resultBackoff.Next(0); ; wait = resultBackoff.Next(wait) {
		if taken, over := e.isAnswered(ctx, run, err); over {
			return taken
		}
		if !errors.Is(err, actor.ErrStopped) { // there is another actor at once
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return true
			}
		}
		err = e.askRun(e.ctx, run, m)
	}
}

// isAnswered reports whether an answer to a result is the last, and whether the run has taken that, or refused it as
// stale: then it was for an attempt that is over.
func (e *Engine) isAnswered(ctx context.Context, run workflow.RunID, err error) (taken, over bool) {
	switch {
	case errors.Is(err, actor.ErrStopped) && e.ctx.Err() == nil: // it ended of itself before it took the message
		return false, false
	case err == nil, errors.Is(err, ErrStale), errors.Is(err, ErrEnded), errors.Is(err, ErrClosed), ctx.Err() != nil:
		return true, true
	case errors.Is(err, ErrFailed): // the next Open sends the task again
		return true, true
	case errors.Is(err, ErrUnknown): // whatever the cause: sent again, it counts once
		return false, false
	case errors.Is(err, ErrSuspended), errors.Is(err, ErrRunNotFound), errors.Is(err, ErrCorrupt):
		e.faults.OfRun(slog.LevelWarn, "pawl: results could not be delivered", run, err)
		return false, true
	}
	return false, false
}

// Ask implements dispatch.Host.
func (h taskHost) Ask(run workflow.RunID, m state.Message) error {
	return h.engine.askRun(h.engine.ctx, run, m)
}

// IsUnwanted implements dispatch.Host.
func (h taskHost) IsUnwanted(run workflow.RunID) bool { return h.engine.messenger.IsUnwanted(run) }

// PinBlobs implements dispatch.Host.
func (h taskHost) PinBlobs(hashes ...string) { h.engine.blobs.Pin(hashes...) }

// UnpinBlobs implements dispatch.Host.
func (h taskHost) UnpinBlobs(hashes ...string) { h.engine.blobs.Unpin(hashes...) }

// markTasks marks the tokens of a run with tasks that wait, with what for, and those with tasks that are performed.
func (e *Engine) markTasks(tokens []Token) {
	const atOnce = 500 // while tasks cannot begin
	for some := range slices.Chunk(tokens, atOnce) {
		keys := make([]string, len(some))
		for i := range some {
			keys[i] = string(some[i].Key)
		}
		for i, s := range e.dispatcher.Standings(keys) {
			if s == (dispatch.Standing{}) {
				continue
			}
			t := &some[i]
			t.Limited, t.Executing, t.Since, t.Worker, t.Queued = s.Limited, s.Executing, s.Since, s.Worker, s.Queued
		}
	}
}

// newStallDetector returns what fails runs that make no progress.
func newStallDetector(e *Engine) *dispatch.StallDetector {
	return dispatch.NewStallDetector(dispatch.StallOptions{
		Dir: e.dir, After: e.options.StallAfter, Ask: taskHost{e}.Ask, Logger: e.options.Logger, Hook: e.hook,
		Tell: func(text string, run workflow.RunID, err error) { e.faults.OfRun(slog.LevelWarn, text, run, err) },
	})
}
