package pawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskqueue"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A taskHost is the engine as its dispatcher sees it.
type taskHost struct{ engine *Engine }

var _ dispatch.Host = taskHost{}

// newDispatcher returns the dispatcher of an engine. ctx is the context of every task.
func newDispatcher(ctx context.Context, e *Engine) *dispatch.Dispatcher {
	o := dispatch.Options{Host: taskHost{e}, Most: e.options.Concurrency, Batch: batchSize, Types: map[string]taskqueue.Limit{}, Hook: e.hook}
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
		if unpin, err = h.engine.pinResult(ctx, done); err != nil {
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
	m.Token, m.Attempt, m.Epoch = t.Token, t.Attempt, t.Epoch
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
var resultLimits = value.Limits{Bytes: workflow.MaxMergedBytes}

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
		e.logOfRun(slog.LevelWarn, "pawl: results could not be delivered", run, err)
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
func (h taskHost) PinBlobs(hashes ...string) { h.engine.pinned.pinBlobs(hashes...) }

// UnpinBlobs implements dispatch.Host.
func (h taskHost) UnpinBlobs(hashes ...string) { h.engine.pinned.unpinBlobs(hashes...) }

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
		Tell: func(text string, run workflow.RunID, err error) { e.logOfRun(slog.LevelWarn, text, run, err) },
	})
}
