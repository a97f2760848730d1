package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/state"
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

// resultBackoff is the pause between two deliveries of a result.
var resultBackoff = timeout.Backoff{First: 10 * time.Millisecond, Max: time.Second}

// deliverResult hands a result to its run, again and again while the outcome of that
// is unknown. A result that is refused as stale was for an attempt that is over;
// deliver returns false if the run took none at all.
func (e *Engine) deliverResult(ctx context.Context, run workflow.RunID, m state.Message) (taken bool) {
	for wait := resultBackoff.Next(0); ; wait = resultBackoff.Next(wait) {
		err := e.askOrStart(e.ctx, run, m, asking{returns: true}) // Close waits for results that come
		switch {
		case err == nil, errors.Is(err, ErrStale), errors.Is(err, ErrEnded), errors.Is(err, ErrClosed), ctx.Err() != nil:
			return true
		case errors.Is(err, ErrFailed): // the next Open sends the task again
			return true
		case errors.Is(err, ErrUnknown): // whatever the cause: sent again, it counts once
		case errors.Is(err, ErrSuspended), errors.Is(err, ErrRunNotFound), errors.Is(err, ErrCorrupt):
			e.options.Logger.Warn("pawl: a result could not be delivered", "run", string(run), "error", err)
			return false
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return true
		}
	}
}
