package remote

import (
	"context"
	"errors"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/workflow"
)

// Results takes what tasks came to: a *pawl.Engine.
type Results interface {
	Complete(ctx context.Context, key pawl.Key, output any) error
	Fail(ctx context.Context, key pawl.Key, cause error) error
}

// A Verdict is what became of a result.
// A pool answers its worker by it: after Taken, Late and Refused the worker lets go of the task, after
// Unsure it keeps the result and sends it again, and Foreign is answered as a message that is not
// valid.
type Verdict int

// The values of a Verdict.
const (
	Taken   Verdict = iota // it is committed
	Late                   // the attempt is over, or has a result: drop this one
	Refused                // the run takes none in this life of the engine, which dispatches the task again: drop it
	Foreign                // the key is not valid
	Unsure                 // the same may succeed later
)

// IsInvalid reports whether the engine would refuse what a worker has sent, details or an outcome, however often it is sent: it is no
// value, or refers to a blob that is not there, is damaged or has another size.
func IsInvalid(err error) bool {
	return errors.Is(err, pawl.ErrInvalid) || errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged) || errors.Is(err, blob.ErrSize)
}

// SendResult delivers a result to the engine. A result that cannot be stored, or refers to
// a blob that is not there, fails the attempt. The error is nil if it is Taken.
//
// It calls the engine once, or twice if the first call says that the result itself is at fault: to
// repeat such a result would fail for ever, so the attempt fails with the reason instead, and the
// definition decides about retries. The same engine error, ErrInvalid, means an invalid key when it
// comes from Fail, so Foreign is looked for behind that.
func SendResult(ctx context.Context, to Results, key pawl.Key, output any, cause error) (Verdict, error) {
	var err error
	if cause != nil {
		err = to.Fail(ctx, key, cause)
	} else if err = to.Complete(ctx, key, output); errors.Is(err, pawl.ErrInvalid) {
		err = to.Fail(ctx, key, pawl.TaskError{Code: workflow.CodeInvalidResult, Message: err.Error()})
	} else if errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged) {
		err = to.Fail(ctx, key, err)
	}
	switch {
	case err == nil:
		return Taken, nil
	case errors.Is(err, pawl.ErrStale), errors.Is(err, pawl.ErrEnded):
		return Late, err
	case errors.Is(err, pawl.ErrSuspended), errors.Is(err, pawl.ErrRunNotFound), errors.Is(err, pawl.ErrCorrupt):
		return Refused, err
	case errors.Is(err, pawl.ErrInvalid):
		return Foreign, err
	}
	return Unsure, err
}
