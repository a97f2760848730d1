package pawl

import (
	"context"
	"errors"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/workflow"
)

// The statuses of HTTP that HTTPStatus returns; net/http is not linked for them.
const (
	statusOK           = 200
	statusInvalid      = 400
	statusNotFound     = 404
	statusConflict     = 409
	statusTooLarge     = 413
	statusInternal     = 500
	statusUnavailable  = 503
	statusTimeout      = 504
	statusInsufficient = 507
)

// statuses are the conditions that HTTPStatus knows, the first that fits counts.
var statuses = []struct {
	status int
	errs   []error
}{
	{statusNotFound, []error{ErrRunNotFound, ErrNotPublished, ErrNoBase, blob.ErrMissing}},
	{statusConflict, []error{
		ErrRunExists, ErrPublished, ErrStale, ErrEnded, ErrNotEnded, ErrNotLive, ErrAmbiguous, ErrAlreadyVoted,
		ErrGroupClosed, ErrConflict, ErrSuspended, ErrMaintenance, ErrFollowed, ErrAgain,
		ErrRemote, ErrOtherLog, ErrForeign,
	}},
	{statusInsufficient, []error{ErrNoSpace}},
	{statusUnavailable, []error{ErrBusy, ErrClosed, ErrUnknown, ErrFailed, ErrFenced, ErrLocked, context.Canceled}},
	{statusTimeout, []error{context.DeadlineExceeded}},
	{statusInvalid, []error{ErrInvalid}},
}

// HTTPStatus returns the status with which a server answers an error of an engine's method,
// for those who put one behind HTTP:
//
//	200  nil
//	400  ErrInvalid, *workflow.DefinitionError, *workflow.InputError, *workflow.PatchError,
//	     *workflow.SignalError, and what a caller gives as a result and the node refuses:
//	     *workflow.Failure, *workflow.SchemaError
//	404  ErrRunNotFound, ErrNotPublished, ErrNoBase, blob.ErrMissing
//	409  the state of the run does not allow it: ErrRunExists, ErrPublished, ErrStale,
//	     ErrEnded, ErrNotEnded, ErrNotLive, ErrAmbiguous, ErrAlreadyVoted, ErrGroupClosed,
//	     ErrConflict, ErrSuspended, ErrMaintenance, ErrFollowed, ErrAgain,
//	     ErrRemote, ErrOtherLog, ErrForeign
//	413  *workflow.LimitError
//	503  again later, here or elsewhere: ErrBusy, ErrClosed, ErrUnknown, ErrFailed,
//	     ErrFenced, ErrLocked, a context that was cancelled
//	504  a context whose deadline has passed
//	507  ErrNoSpace
//	500  anything else, such as ErrCorrupt
func HTTPStatus(err error) int {
	if err == nil {
		return statusOK
	}
	if le := (*workflow.LimitError)(nil); errors.As(err, &le) {
		return statusTooLarge
	}
	for _, s := range statuses {
		for _, known := range s.errs {
			if errors.Is(err, known) {
				return s.status
			}
		}
	}
	var de *workflow.DefinitionError
	var ie *workflow.InputError
	var pe *workflow.PatchError
	var se *workflow.SignalError
	var refused *workflow.Failure
	var misfit *workflow.SchemaError
	if errors.As(err, &de) || errors.As(err, &ie) || errors.As(err, &pe) || errors.As(err, &se) || errors.As(err, &refused) || errors.As(err, &misfit) {
		return statusInvalid
	}
	return statusInternal
}
