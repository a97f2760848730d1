package pawl

import (
	"context"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
)

// MaxDetails bounds the details of a heartbeat, in bytes of JSON.
const MaxDetails = 16 << 10

// Heartbeat says that an attempt is alive and, with details, how far it is: anything
// that JSON can say, up to MaxDetails; nil leaves the details as they are. The last
// ones are Task.Details of the next attempt, and Inspect shows them.
//
// Heartbeats of one attempt within a tenth of its node's heartbeat (at most 10 s; 1 s
// where the node has none) are merged: the first is committed at once, the others
// together at the end of that time. The last details are committed with the error or
// the Snooze of the attempt, and when the engine closes; a crash, or a timeout of the
// attempt, may lose those of the last such time.
//
// Errors: ErrStale (the attempt is no longer wanted), ErrInvalid (details that are not
// JSON), also *workflow.LimitError (details that are too large), *blob.Error (details
// refer to a missing blob).
func (e *Engine) Heartbeat(ctx context.Context, key Key, details any) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	a, err := e.parseKey(key)
	if err != nil {
		return err
	}
	if details, err = value.Normalize(details, value.Limits{Bytes: MaxDetails}); err != nil {
		return invalidValue("the details of a heartbeat", err)
	}
	release, err := e.pinReferences(ctx, details)
	if err != nil {
		return err
	}
	defer release()
	merged, details := e.dispatcher.MergeHeartbeat(a, details)
	if !merged {
		err = (&deed{engine: e, run: a.Run}).report(ctx, state.Heartbeat{Token: a.Token, Attempt: a.Number, Epoch: a.Epoch, Details: details})
		e.dispatcher.HeartbeatSent(a, details, err)
	}
	if err == nil {
		e.stalls.NoteHeartbeat(a.Run)
	}
	return err
}
