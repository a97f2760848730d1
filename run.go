package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/roster"
	"github.com/pawl-run/pawl/internal/running"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskqueue"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/tracing"
	"github.com/pawl-run/pawl/internal/value"
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

// newRoster returns the roster of an engine.
func newRoster(e *Engine) *roster.Roster {
	return roster.New(roster.Options{Room: e.checkRoom, Most: e.options.MaxActive, ByTenant: len(e.options.Tenants) > 0, Closed: ErrClosed})
}

// checkRoom returns ErrBusy if no further run of a tenant may be active, when so many are, and so many of the tenant.
func (e *Engine) checkRoom(tenant string, active, ofTenant int) error {
	if active >= e.options.MaxActive {
		return fmt.Errorf("%w: %d runs are active, and no more may be (Options.MaxActive)", ErrBusy, active)
	}
	limit := tenantLimitOf(e.options.Tenants, tenant)
	if limit.Active > 0 && ofTenant >= limit.Active {
		return &TenantBusyError{Tenant: tenant, Active: ofTenant, Max: limit.Active}
	}
	if limit.Bytes == 0 {
		return nil
	}
	if n := e.dir.TenantBytes(tenant); n >= limit.Bytes {
		return &TenantFullError{Tenant: tenant, Bytes: n, Max: limit.Bytes}
	}
	return nil
}

// newRuns returns the runs of an engine.
func newRuns(e *Engine) *running.Runs {
	e.tracer.Watch(tracing.Sources{EndAttempt: e.dispatcher.EndTrace, Events: e.dir.EventsUntil})
	o := running.Options{
		Dir: e.dir, Roster: e.registry, Alive: e.ctx, Epoch: e.dispatchEpoch, Tasks: e.dispatcher, Blobs: e.blobs, Stalls: e.stalls, Feed: e.feeder, Readers: e.watches, Waiters: e.waiters, Schedules: e.scheduler, Metrics: e.metrics, Tracer: e.tracer,
		Faults: e.faults, Logger: e.options.Logger, Still: e.options.Maintenance, KeepArtifacts: e.options.KeepArtifacts, Messages: messagesAtOnce(e.options.Durability), Hook: e.hook,
	}
	o.Actor = actor.Options{
		Mailbox: mailboxSize, Batch: batchSize, Idle: e.options.IdleAfter, FlushRecords: flushRecords, FlushBytes: flushBytes,
		Hook: e.hook, Still: e.options.Maintenance, Fault: e.faults.Fault, Metrics: e.metrics,
	}
	return running.New(o)
}

// maxChildMessages bounds how many messages are delivered side by side.
const maxChildMessages = 16

// messagesAtOnce returns how many messages are delivered side by side: where commits are synced, enough of them that their commits are synced
// together; otherwise no more than keep the processors busy, so that other runs find one.
func messagesAtOnce(d Durability) int {
	if d == ProcessCrash {
		return min(2*runtime.GOMAXPROCS(0), maxChildMessages)
	}
	return maxChildMessages
}

// A taskHost is the engine as its dispatcher sees it.
type taskHost struct{ engine *Engine }

var _ dispatch.Host = taskHost{}

// newDispatcher returns the dispatcher of an engine. ctx is the context of every task.
func newDispatcher(ctx context.Context, e *Engine) *dispatch.Dispatcher {
	o := dispatch.Options{Host: taskHost{e}, Most: e.options.Concurrency, Batch: batchSize, Types: map[string]taskqueue.Limit{}, Metrics: e.metrics, Timings: &e.timings, Tracer: e.tracer, Hook: e.hook}
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
	return readOutput(h.engine.options.Executor.Execute(ctx, h.engine.executorTask(t)))
}

// readOutput returns what an executor has returned. If that is an output, which may be a Result, a ResultOf or a pointer to one, it
// has what a reader reads in its place.
func readOutput(output any, err error) (any, error) {
	output = untypedResult(output)
	if p, ok := output.(*Result); ok { // nil is no result
		output = *cmp.Or(p, &Result{})
	}
	if err != nil {
		return output, err
	}
	r, wrapped := output.(Result)
	if wrapped {
		output = r.Output
	}
	switch output.(type) {
	case Result, *Result:
		return nil, TaskError{Code: workflow.CodeInvalidResult, Message: "the Output of the Result is a Result itself"}
	}
	read, err := value.ReadAll(output, limits.MaxMergedBytes)
	if errors.As(err, new(*value.Error)) {
		err = unfitResult(fmt.Errorf("the result is not JSON: %w", err))
	}
	if !wrapped {
		return read, err
	}
	r.Output = read
	return r, err
}

// executorTask returns an attempt as the executor sees it.
func (e *Engine) executorTask(t *dispatch.Task) Task {
	queued, performed := t.Times()
	traceparent, tracestate := t.Trace.Headers()
	return Task{
		Key: e.keyOf(t.Name()), EffectKey: string(t.Run) + "/" + string(t.Node.ID) + "/" + strconv.FormatInt(int64(t.Token), 10),
		Run: t.Run, Root: t.Root, Workflow: t.Workflow.Name, Tenant: t.Tenant, Node: t.Node.ID, Type: t.Task, Attempt: t.Attempt,
		Priority: t.Node.Priority, Order: t.Order(),
		Input: t.Input, Branch: Branch{Index: t.Branch.Branch, Total: t.Total}, Deadline: t.Due, Details: t.Details, DispatchedAt: queued, BeganAt: performed, Traceparent: traceparent, Tracestate: tracestate, services: engineServices{e},
	}
}

// Panicked implements dispatch.Host.
func (h taskHost) Panicked(t *dispatch.Task, value any, stack []byte) workflow.Failure {
	p := t.Place()
	h.engine.options.Logger.Error("pawl: a handler panicked", append(p.Args(), "error", value, "stack", string(stack))...)
	return workflow.Failure{Code: workflow.CodePanic, Message: texts.Storable(fmt.Sprint(value), maxMessage), Permanent: true}
}

// Result implements dispatch.Host.
func (h taskHost) Result(ctx context.Context, t *dispatch.Task, output any, err error) (m state.Message, unpin func()) {
	if errors.Is(err, ErrPending) {
		return nil, nil
	}
	if err != nil && lacksDescriptors(err) {
		p := t.Place()
		h.engine.options.Logger.Warn("pawl: a task met too many open files: it is called again", append(p.Args(), "error", err)...)
	}
	m = taskResult(t, output, err)
	if done, ok := m.(state.TaskCompleted); ok && (done.Measure.Refs || len(done.Artifacts) > 0) {
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
		return attemptError(state.TaskFailed{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch}, withResultMetadata(output, unfitResult(err)))
	}
	m.Token, m.Attempt, m.Epoch, m.Began = t.Token, t.Attempt, t.Epoch, t.BeganMilli()
	return m
}

// unfitResult returns the failure of an attempt whose result cannot be taken.
func unfitResult(err error) (f TaskError) {
	if !errors.As(err, &f) {
		f.Code, f.Message = refusal.UnfitResult(err)
	}
	return f
}

// unpinnedResult returns the message that a result cannot enter the run, because a blob that
// it refers to is missing, another, or cannot be looked at.
func unpinnedResult(t *dispatch.Task, err error) state.Message {
	if lacksDescriptors(err) {
		return state.TaskSnoozed{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch, After: descriptorPause}
	}
	return t.Failed(keeping.ReferenceFailure(err))
}

// resultLimits bound what is normalised before the definition's own limits apply.
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
			return m, fmt.Errorf("metadata: %s", err.Error()) // its limit is not that of the result
		}
		m.Metadata, _ = metadata.(map[string]any)
		if m.Artifacts, err = stagedArtifacts(r.Artifacts); err != nil {
			return m, err
		}
		output = r.Output
	}
	taken, err := value.Take(output, resultLimits)
	if err != nil {
		return m, fmt.Errorf("the result is not JSON: %w", err)
	}
	m.Output, m.Measure, m.Text = taken.Value, taken.Measure, taken.Text
	return m, nil
}

// Deliver implements dispatch.Host.
func (h taskHost) Deliver(t *dispatch.Task, m state.Message) (pending bool, err error) {
	return h.engine.runs.Deliver(t.Run, m, func(err error) { h.engine.dispatcher.Answered(t, m, err) })
}

// DeliverAgain implements dispatch.Host.
func (h taskHost) DeliverAgain(ctx context.Context, t *dispatch.Task, m state.Message, err error) (taken bool) {
	return h.engine.runs.DeliverAgain(ctx, t.Run, m, refusal.Closed(err))
}

// Ask implements dispatch.Host.
func (h taskHost) Ask(run workflow.RunID, m state.Message) error {
	return h.engine.runs.Ask(h.engine.ctx, run, m)
}

// IsUnwanted implements dispatch.Host.
func (h taskHost) IsUnwanted(run workflow.RunID) bool { return h.engine.runs.Messenger.IsUnwanted(run) }

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
