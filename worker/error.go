package worker

import (
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
)

// An Error is a refusal of a pool, in its process and over HTTP. Callers choose by
// Code. It is a part of the protocol: its JSON is the body of a refusal, and a Client decodes it into
// the same type. Message is for people and may change; Code and Status do not.
type Error struct {
	Status  int    `json:"status"` // of HTTP
	Code    string `json:"code"`   // one of those that protocol.md lists
	Message string `json:"message"`

	foreign bool // it was no answer of a pool, but one of a proxy, say
}

// Error returns code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Is reports whether target is an Error with the same code, or the pawl.ErrStale, pawl.ErrInvalid or
// pawl.ErrClosed that the code stands for: a handler need not know in which process it runs.
func (e *Error) Is(target error) bool {
	switch target {
	case pawl.ErrStale:
		return e.Code == remote.CodeStale || e.Code == remote.CodeNotHolder
	case pawl.ErrInvalid:
		return e.Code == remote.CodeInvalid
	case pawl.ErrClosed:
		return e.Code == remote.CodeClosed
	}
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// optionError returns a pawl.ErrInvalid that says which field of Options cannot be used, and why.
func optionError(option, message string) error {
	return fmt.Errorf("%w: worker.Options.%s: %s", pawl.ErrInvalid, option, message)
}

// Sentinels for errors.Is. An attempt that is over is pawl.ErrStale, a pool that is closed pawl.ErrClosed.
var (
	ErrUnknownWorker = &Error{Status: 404, Code: remote.CodeUnknownWorker, Message: "no worker with this id is registered: register it again"}
	ErrNotHolder     = &Error{Status: 409, Code: remote.CodeNotHolder, Message: "another worker holds this task, or has completed it, or the key was given to another: drop the result"}

	errReplaced = &Error{Status: 409, Code: remote.CodeReplaced, Message: "another process has registered under this id, and gets the tasks: give each worker an id of its own"}
	errStale    = &Error{Status: 409, Code: remote.CodeStale, Message: "the attempt that the key names is over: drop the result"}
	errClosed   = &Error{Status: 503, Code: remote.CodeClosed, Message: "the pool is closed: try again when it is back"}
)

// poolErrorf returns an *Error. format says what to do about it, since whoever reads it has only this
// text.
func poolErrorf(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}
