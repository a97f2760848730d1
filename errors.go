package pawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

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
	// ErrFenced: the directory was taken from this engine, by somebody who has
	// removed its lock file or has moved the directory. Nothing can be committed
	// here any more: close it.
	ErrFenced = store.ErrFenced
	// ErrCorrupt: what is stored is damaged, or not ours; errors.As a
	// *store.CorruptError says what and where. Nothing was changed.
	ErrCorrupt = store.ErrCorrupt
	// ErrVersion: another version of pawl wrote what is stored. Nothing was
	// changed.
	ErrVersion = store.ErrVersion
	// ErrFailed: the disk did not do what it was asked, or the engine directory
	// was taken away. Close the engine and open it again: whatever was
	// acknowledged is there.
	ErrFailed = store.ErrFailed
	// ErrNoSpace: the disk is full. Nothing was changed.
	ErrNoSpace = store.ErrNoSpace
	// ErrStale: the key names no attempt that runs. Nothing changed.
	ErrStale = workflow.ErrStale
	// ErrEnded: the run has ended.
	ErrEnded = workflow.ErrEnded
	// ErrNotEnded: the run goes on.
	ErrNotEnded = store.ErrNotEnded
	// ErrNotLive: nothing at that token or node waits for this.
	ErrNotLive = workflow.ErrNotLive
	// ErrAmbiguous: several tokens fit; name one.
	ErrAmbiguous = workflow.ErrAmbiguous
	// ErrAlreadyVoted: this person has voted on this approval.
	ErrAlreadyVoted = workflow.ErrAlreadyVoted
	// ErrGroupClosed: the group was closed, its join has fired, or it has ended
	// otherwise.
	ErrGroupClosed = workflow.ErrGroupClosed
	// ErrConflict: the run's definition has another revision than the patch is
	// for; read it again with Engine.Definition.
	ErrConflict = workflow.ErrConflict
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

var errNoContext = fmt.Errorf("%w: the context is nil", ErrInvalid)

// usable returns an error if a method cannot begin: the engine does not come from
// Open, or there is no context.
func (e *Engine) usable(ctx context.Context) error {
	switch {
	case e == nil || e.dir == nil:
		return fmt.Errorf("%w: it was never opened", ErrClosed)
	case ctx == nil:
		return errNoContext
	}
	return nil
}

// A TaskError is an error that a handler chooses a code for. Definitions catch
// it by Code; a retry policy retries it if it is Retryable. Of Code 256 bytes
// are kept, of Message, as of any error's text, 16 KiB, and what is not UTF-8 is
// replaced.
type TaskError struct {
	Code      string
	Message   string
	Retryable bool
}

// Error returns code and message.
func (e TaskError) Error() string { return e.Code + ": " + e.Message }

// Permanent returns err as an error that no policy retries; nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// IsPermanent says whether a handler's error is one that no policy retries: of
// Permanent, or a TaskError that is not Retryable.
func IsPermanent(err error) bool { return err != nil && failureOf(err).Permanent }

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// failureOf returns a handler's error as a failure. Where Error panics, as that of
// a nil pointer may, the text says so; where another of its methods does, it is a
// panic of the handler.
func failureOf(err error) (f workflow.Failure) {
	defer func() {
		if r := recover(); r != nil {
			f = workflow.Failure{Code: workflow.CodePanic, Message: legible(fmt.Sprintf("the error %T: %v", err, r), maxMessage), Permanent: true}
		}
	}()
	var te TaskError
	var at *TaskError
	var p permanent
	switch {
	case errors.As(err, &te):
		return failureFrom(te)
	case errors.As(err, &at) && at != nil:
		return failureFrom(*at)
	}
	if f := blobFailure(err); f != nil {
		return *f
	}
	return workflow.Failure{Code: workflow.CodeError, Message: legible(fmt.Sprint(err), maxMessage), Permanent: errors.As(err, &p)}
}

func failureFrom(e TaskError) workflow.Failure {
	return workflow.Failure{Code: legible(e.Code, maxCode), Message: legible(e.Message, maxMessage), Permanent: !e.Retryable}
}

// Bounds of what a host says in words, in bytes; more is cut off.
const (
	maxCode    = 256
	maxMessage = 16 << 10
)

// legible returns a host's text as a record can hold it: UTF-8, of at most so
// many bytes. A text that cannot be stored must not keep a run from going on.
func legible(text string, most int) string {
	if len(text) > most {
		const more = "..."
		cut := most - len(more)
		for back := cut - utf8.UTFMax; cut > back && !utf8.RuneStart(text[cut]); cut-- {
		}
		text = text[:cut] + more
	}
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// closedError returns err, or ErrClosed where it says that the engine stops.
func closedError(err error) error {
	if errors.Is(err, actor.ErrStopped) || errors.Is(err, store.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}
