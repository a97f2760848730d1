package pawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// taskFailed returns the message that an attempt has failed.
func taskFailed(t *outTask, f workflow.Failure) state.Message {
	return state.TaskFailed{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch, Failure: f}
}

// taskResult returns the message that says what a handler has returned.
func taskResult(t *outTask, output any, err error) state.Message {
	if err != nil {
		return attemptError(state.TaskFailed{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch}, withResultMetadata(output, err))
	}
	m, err := taskCompleted(output)
	if err != nil {
		return taskFailed(t, workflow.Failure{Code: workflow.CodeInvalidResult, Message: err.Error(), Permanent: true})
	}
	m.Token, m.Attempt, m.Epoch = t.Token, t.Attempt, t.Epoch
	return m
}

// unpinnedResult returns the message that a result cannot enter the run, because a blob that
// it refers to is missing, another, or cannot be looked at.
func unpinnedResult(t *outTask, err error) state.Message {
	if lacksDescriptors(err) {
		return state.TaskSnoozed{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch, After: descriptorPause}
	}
	return taskFailed(t, referenceFailure(err))
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

// withBegan adds to what is said of an attempt when somebody began to perform it; zero is not known. It comes with the result:
// a commit of its own would cost each task one more.
func withBegan(m state.Message, at time.Time) state.Message {
	if at.IsZero() {
		return m
	}
	switch m := m.(type) {
	case state.TaskCompleted:
		m.Began = at.UnixMilli()
		return m
	case state.TaskFailed:
		m.Began = at.UnixMilli()
		return m
	case state.TaskSnoozed:
		m.Began = at.UnixMilli()
		return m
	default:
		return m
	}
}

// performedSince returns when somebody began to perform an attempt; zero if it is not held, or nobody has.
func (d *dispatcher) performedSince(a taskkey.Attempt) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.heldAttempt(a); t != nil {
		return t.performed
	}
	return time.Time{}
}

// resultBackoff is the pause between two deliveries of a result.
var resultBackoff = timeout.Backoff{First: 10 * time.Millisecond, Max: time.Second}

// handResult hands the result of an attempt to its run, and reports whether the answer is pending.
func (d *dispatcher) handResult(t *outTask, m state.Message) (pending bool) {
	pending, err := d.postResult(t, m)
	if pending {
		return true
	}
	if err != nil { // it may be asked again and again: what it has sent does not wait for that
		d.fillFreeSlots()
	}
	d.noteDelivered(t, d.engine.deliverResult(d.ctx, t.Run, m, closedError(err)))
	return false
}

// postResult hands the result of an attempt to its run. If the answer is pending, noteAnswer will be told of it.
func (d *dispatcher) postResult(t *outTask, m state.Message) (pending bool, err error) {
	e := d.engine
	e.hook.Ask(string(t.Run), m)
	a, err := e.registry.acquireActor(e.ctx, t.Run, nil, func() *actor.Actor { return e.startActor(t.Run, nil) })
	if err != nil {
		return false, err
	}
	pending, err = a.Deliver(e.ctx, m, func(err error) { // Close waits for results that come
		e.registry.releaseActor(a)
		d.results.noteAnswer(d, answeredResult{t, m, closedError(err)})
	})
	if !pending {
		e.registry.releaseActor(a)
	}
	return pending, err
}

// An answeredResult is a result that was in a run's mailbox, with the answer.
type answeredResult struct {
	task    *outTask
	message state.Message
	err     error
}

// answeredResults are those that nobody has taken note of. They come from actors, which have other things to do: a
// goroutine of its own finishes them, many at a time.
type answeredResults struct {
	mu   sync.Mutex
	some []answeredResult
	busy bool // there is that goroutine
}

// noteAnswer takes an answer. It returns at once.
func (r *answeredResults) noteAnswer(d *dispatcher, a answeredResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.some = append(r.some, a)
	if !r.busy {
		r.busy = true
		go d.finishAnswered()
	}
}

// takeAnswer returns the next answer, if there is one; none ends the goroutine.
func (r *answeredResults) takeAnswer() (a answeredResult, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy = len(r.some) > 0; !r.busy {
		r.some = nil
		return a, false
	}
	a, r.some[0] = r.some[0], a
	r.some = r.some[1:]
	return a, true
}

// finishAnswered takes note of the answers to results, until there are no more. It logs nothing, for which all others
// would wait.
func (d *dispatcher) finishAnswered() {
	var finished []*outTask
	for a, ok := d.results.takeAnswer(); ok; a, ok = d.results.takeAnswer() {
		if a.err != nil && !errors.Is(a.err, ErrStale) && !errors.Is(a.err, ErrEnded) {
			go d.deliverAgain(a)
			continue
		}
		d.noteDelivered(a.task, true)
		if finished = append(finished, a.task); len(finished) == batchSize { // as a turn has
			d.finishTasks(finished)
			finished = finished[:0]
		}
	}
	d.finishTasks(finished)
}

// deliverAgain takes note of an answer that is an error, and delivers the result again if the run may not have taken it.
func (d *dispatcher) deliverAgain(a answeredResult) {
	defer d.taskFinished(a.task, false)
	d.noteDelivered(a.task, d.engine.deliverResult(d.ctx, a.task.Run, a.message, a.err))
}

// finishTasks is taskFinished for several.
func (d *dispatcher) finishTasks(finished []*outTask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range finished {
		d.finishTask(t)
	}
	d.fillSlots()
}

// noteDelivered notes whether the run has taken a result.
func (d *dispatcher) noteDelivered(t *outTask, taken bool) {
	d.mu.Lock()
	t.refused = !taken
	d.mu.Unlock()
	d.engine.hook.Hit("task.delivered")
}

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
