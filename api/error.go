package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/workflow"
)

// An Error is what a request is refused with. A Client returns it: for errors.Is it is also the
// error of the engine that its Code stands for. Code is what programs choose by, and part of the
// API; Message is for people and may change. A Client builds it from the body of the answer, so
// errors.Is works across the connection as in the process: errors.Is(err, pawl.ErrRunNotFound) for
// a run that the server does not have.
type Error struct {
	Status  int         `json:"status"` // of HTTP
	Code    string      `json:"code"`   // one of those in docs/api.md
	Message string      `json:"message"`
	foreign bool        // it is of a proxy, and says nothing of what the engine has done
	batch   *batchReply // what was done until then; nil of what is no batch
}

// Error returns code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Is reports whether the error stands for target, an error of package pawl, or has the code of
// another Error. Each error of the engine is found by identity in codes, and then only the code
// decides: two errors that share a code, as pawl.ErrClosed and context.Canceled do, are both
// matched by it.
func (e *Error) Is(target error) bool {
	for _, c := range codes {
		if c.err == target {
			return c.code == e.Code
		}
	}
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// The codes of errors that are not the engine's.
const (
	codeInvalid      = "invalid_request"    // 400
	codeUnauthorized = "unauthorized"       // 401: the hook of the host knows nobody
	codeForbidden    = "forbidden"          // 403: the caller lacks the right
	codeNotFound     = "not_found"          // 404: there is no such path
	codeMethod       = "method_not_allowed" // 405
	codeNotAccepted  = "not_acceptable"     // 406: it is a stream
	codeTooLarge     = "too_large"          // 413
	codeTooFast      = "too_fast"           // 429: with Retry-After
	codeTimeout      = "timeout"            // 504
	codeInternal     = "internal"           // 500
)

// codes are those of the errors of an engine, the first that fits counts. pawl.ErrInvalid, which
// many errors wrap that say more, is the last. A new error of the engine needs a line here, or
// clients see it as internal.
var codes = []struct {
	err  error
	code string
}{
	{pawl.ErrRunNotFound, "run_not_found"},
	{pawl.ErrNotPublished, "not_published"},
	{blob.ErrMissing, "blob_missing"},
	{pawl.ErrRunExists, "run_exists"},
	{pawl.ErrPublished, "already_published"},
	{pawl.ErrStale, "stale"},
	{pawl.ErrEnded, "ended"},
	{pawl.ErrNotEnded, "not_ended"},
	{pawl.ErrNotLive, "not_live"},
	{pawl.ErrAmbiguous, "ambiguous"},
	{pawl.ErrAlreadyVoted, "already_voted"},
	{pawl.ErrGroupClosed, "group_closed"},
	{pawl.ErrConflict, "conflict"},
	{pawl.ErrAgain, "done_again"},
	{pawl.ErrSuspended, "suspended"},
	{pawl.ErrMaintenance, "maintenance"},
	{pawl.ErrFollowed, "followed"},
	{pawl.ErrRemote, "remote"},
	{pawl.ErrOtherLog, "other_log"},
	{pawl.ErrForeign, "foreign"},
	{pawl.ErrNoBase, "no_base"},
	{pawl.ErrNoSpace, "no_space"},
	{pawl.ErrBusy, "busy"},
	{pawl.ErrUnknown, "unknown_outcome"},
	{pawl.ErrFenced, "fenced"},
	{pawl.ErrFailed, "failed"},
	{pawl.ErrLocked, "locked"},
	{pawl.ErrClosed, "closed"},
	{pawl.ErrCorrupt, "corrupt"},
	{pawl.ErrVersion, "wrong_version"},
	{context.DeadlineExceeded, codeTimeout},
	{context.Canceled, "closed"},
	{pawl.ErrInvalid, codeInvalid},
}

// errorOf returns what a request is answered that an engine has refused. It is applied to every
// error that leaves the API, in an answer, a line or a stream. An *Error in the chain wins, since
// somebody in this package has chosen its code; what is not known at all has the code internal and
// status 500.
func errorOf(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	if busy := (*crowd.BusyError)(nil); errors.As(err, &busy) {
		return refusef(http.StatusServiceUnavailable, "busy", "%s", busy)
	}
	if fast := (*crowd.TooFastError)(nil); errors.As(err, &fast) {
		return refusef(http.StatusTooManyRequests, codeTooFast, "%s", fast)
	}
	// HTTPStatus looks for a LimitError first as well, so that status and code say the same.
	e := &Error{Status: pawl.HTTPStatus(err), Code: codeInternal, Message: err.Error()}
	if le := (*workflow.LimitError)(nil); errors.As(err, &le) {
		e.Code = codeTooLarge
		return e
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			e.Code = c.code
			return e
		}
	}
	// These are the typed errors that HTTPStatus knows without a sentinel: of definitions, inputs,
	// patches and signals, and of results that a node refuses.
	if e.Status == http.StatusBadRequest {
		e.Code = codeInvalid
	}
	return e
}

func refusef(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalidf refuses with 400 and the code invalid_request. It is for what is wrong with the request
// itself, whatever the state of the engine is: repeating it changes nothing.
func invalidf(format string, args ...any) *Error {
	return refusef(http.StatusBadRequest, codeInvalid, format, args...)
}
