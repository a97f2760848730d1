package worker

import (
	"fmt"

	"github.com/pawl-run/pawl"
)

// An Error is what a pool refuses something with, here and over HTTP. Callers
// choose by Code.
// It is a part of the protocol: its JSON is the body of a refusal, and a Client decodes it into the
// same type. Message is for a person and may change; Code and Status do not.
type Error struct {
	Status  int    `json:"status"` // of HTTP
	Code    string `json:"code"`   // one of the constants
	Message string `json:"message"`
}

// Error returns code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Is says that errors of the same code are the same, for errors.Is, and which of the
// engine's they are: a handler need not know in which process it runs.
func (e *Error) Is(target error) bool {
	switch target {
	case pawl.ErrStale:
		return e.Code == CodeStale || e.Code == CodeNotHolder
	case pawl.ErrInvalid:
		return e.Code == CodeInvalid
	case pawl.ErrClosed:
		return e.Code == CodeClosed
	}
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// optionError returns a pawl.ErrInvalid that says which field of Options cannot be used, and why.
func optionError(option, message string) error {
	return fmt.Errorf("%w: worker.Options.%s: %s", pawl.ErrInvalid, option, message)
}

// The codes of an Error.
const (
	CodeInvalid       = "invalid_request"     // 400: not what the method takes
	CodeVersion       = "unsupported_version" // 400, or 404 in a path
	CodeUnauthorized  = "unauthorized"        // 401: no token, or a wrong one
	CodeForbidden     = "forbidden"           // 403: from another machine or site, where no token is set; or in another's name
	CodeNotFound      = "not_found"           // 404: no such path
	CodeUnknownWorker = "unknown_worker"      // 404: not registered, or forgotten: register again
	CodeMethod        = "method_not_allowed"  // 405
	CodeNotHolder     = "not_holder"          // 409: another worker holds the key, or has completed it, or was given it
	CodeStale         = "stale"               // 409: the attempt is over, or never was: drop the result
	CodeTooLarge      = "too_large"           // 413: the body is over the limit
	CodeTooMany       = "too_many_workers"    // 429
	CodeBusy          = "busy"                // 503: try again
	CodeClosed        = "closed"              // 503: the pool is closed
)

// Sentinels for errors.Is.
var (
	ErrUnknownWorker = &Error{Status: 404, Code: CodeUnknownWorker, Message: "no worker with this id is registered: register it again"}
	ErrNotHolder     = &Error{Status: 409, Code: CodeNotHolder, Message: "another worker holds this task, or has completed it, or the key was given to another: drop the result"}
	ErrStale         = &Error{Status: 409, Code: CodeStale, Message: "the attempt that the key names is over: drop the result"}
	ErrClosed        = &Error{Status: 503, Code: CodeClosed, Message: "the pool is closed: try again when it is back"}
)

// poolErrorf returns an *Error. format says what to do about it, since whoever reads it has only this
// text.
func poolErrorf(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}
