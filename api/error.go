package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/pawl-run/pawl/internal/hiding"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/workflow"
)

// An Error is the refusal of a request. Programs choose by Code, which is part of the API; Message is for people and may change.
// A Client builds the Error from the body of the answer, and errors.Is matches it with each error of the engine that has this Code,
// such as pawl.ErrRunNotFound for a run that the server does not have. Types do not cross the connection: errors.As finds no
// *workflow.SignalError. A *workflow.DefinitionError, InputError, PatchError or SignalError arrives with the code invalid_request, so
// that a Client's Error matches pawl.ErrInvalid, which the error in the engine's process does not.
type Error struct {
	Status  int         `json:"status"` // of HTTP
	Code    string      `json:"code"`   // one of those in docs/api.md
	Message string      `json:"message"`
	foreign bool        // it is of a proxy, and says nothing of what the engine has done
	batch   *batchReply // what was done until then; nil of what is no batch
	cause   error       // of the engine, and may quote values; nil of what is said here
}

// Error returns code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Is reports whether the error stands for target, an error of package pawl, or has the code of another Error. Each error of the engine is
// found by identity in the table of errors, and then only the code decides: two errors that share a code, as pawl.ErrClosed and
// context.Canceled do, are both matched by it.
func (e *Error) Is(target error) bool {
	if code, ok := refusal.CodeOf(target); ok {
		return code == e.Code
	}
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// The codes of errors that are not the engine's: all others stand in the table of package refusal.
const (
	codeInvalid      = refusal.CodeInvalid  // 400
	codeUnauthorized = "unauthorized"       // 401: the hook of the host knows nobody
	codeForbidden    = "forbidden"          // 403: the caller lacks the right
	codeNotFound     = "not_found"          // 404: there is no such path
	codeMethod       = "method_not_allowed" // 405
	codeNotAccepted  = "not_acceptable"     // 406: it is a stream
	codeTooLarge     = refusal.CodeTooLarge // 413
	codeTooFast      = refusal.CodeTooFast  // 429: with Retry-After
	codeTimeout      = refusal.CodeTimeout  // 504
	codeInternal     = refusal.CodeInternal // 500
)

// errorOf returns what a request is answered that an engine has refused. An *Error in the chain wins, since somebody in this package has
// chosen its code.
func errorOf(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	row := refusal.Of(err)
	return &Error{Status: row.Status, Code: row.Code, Message: err.Error(), cause: err}
}

// showRefusal returns an error as it is shown. Every error that leaves the API goes through it, in an answer, a line or a stream.
func (v *viewer) showRefusal(err error) *Error {
	e := errorOf(err)
	if v.seesTexts() || e.cause == nil {
		return e
	}
	out := *e
	out.Message = hiding.HideValues(e.Message, e.cause)
	return &out
}

// ofOwnInput returns the refusal of an input that the caller has just sent, whose text quotes no other values.
func ofOwnInput(err error) error {
	if !errors.As(err, new(*workflow.InputError)) {
		return err
	}
	e := *errorOf(err)
	e.cause = nil
	return &e
}

func refusef(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalidf refuses with 400 and the code invalid_request. It is for what is wrong with the request
// itself, whatever the state of the engine is: repeating it changes nothing.
func invalidf(format string, args ...any) *Error {
	return refusef(http.StatusBadRequest, codeInvalid, format, args...)
}
