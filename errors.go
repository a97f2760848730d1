package pawl

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Conditions that callers test with errors.Is.
var (
	// ErrRunExists: the id of a Start stands for a run with another definition
	// or input.
	ErrRunExists = workflow.ErrRunExists
	// ErrRunNotFound: no run has this id.
	ErrRunNotFound = store.ErrRunNotFound
	// ErrNotPublished: no definition has this name and version.
	ErrNotPublished = store.ErrNotPublished
	// ErrPublished: this name and version is published with other content.
	ErrPublished = store.ErrPublished
	// ErrLocked: another process, or another engine of this one, has the
	// directory open.
	ErrLocked = store.ErrLocked
	// ErrCorrupt: what is stored is damaged, or not ours; errors.As a
	// *store.CorruptError says what and where. Nothing was changed.
	ErrCorrupt = store.ErrCorrupt
	// ErrStale: the key names no attempt that runs. Nothing changed.
	ErrStale = workflow.ErrStale
	// ErrEnded: the run has ended.
	ErrEnded = workflow.ErrEnded
	// ErrNotLive: nothing at that token or node waits for this.
	ErrNotLive = workflow.ErrNotLive
	// ErrAmbiguous: several tokens fit; name one.
	ErrAmbiguous = workflow.ErrAmbiguous
	// ErrSuspended: an internal fault suspended the run; see its Failure.
	ErrSuspended = workflow.ErrSuspended
	// ErrUnknown: a commit failed, so the message may or may not have been
	// taken. Sending it again is safe.
	ErrUnknown = actor.ErrUnknown
	// ErrBusy: too much waits already; try again later.
	ErrBusy = actor.ErrBusy
	// ErrClosed: the engine is closed, or closing.
	ErrClosed = errors.New("the engine is closed")
	// ErrInvalid: an argument is not what the method takes; the error says which.
	ErrInvalid = errors.New("invalid argument")
	// ErrPending is returned by an Executor whose result will come later,
	// through Engine.Complete or Engine.Fail.
	ErrPending = errors.New("the result comes later")
)

// A TaskError is an error that a handler chooses a code for. Definitions catch
// it by Code; a retry policy retries it if it is Retryable.
type TaskError struct {
	Code      string
	Message   string
	Retryable bool
}

// Error returns code and message.
func (e TaskError) Error() string { return e.Code + ": " + e.Message }

// Permanent returns err as an error that no policy retries.
func Permanent(err error) error { return permanent{err} }

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// failureOf returns a handler's error as a failure.
func failureOf(err error) workflow.Failure {
	f := workflow.Failure{Code: workflow.CodeError, Message: err.Error()}
	var te TaskError
	var p permanent
	switch {
	case errors.As(err, &te):
		f.Code, f.Message, f.Permanent = te.Code, te.Message, !te.Retryable
	case errors.As(err, &p):
		f.Permanent = true
	}
	return f
}

// closedError returns err, or ErrClosed where it says that the engine stops.
func closedError(err error) error {
	if errors.Is(err, actor.ErrStopped) || errors.Is(err, store.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}
