package pawl

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/closing"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/tasklog"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Conditions that callers test with errors.Is.
var (
	// ErrRunExists: a run has the id of this Start, and differs from it in its definition, input, tenant or labels, or is a fork.
	ErrRunExists = state.ErrRunExists
	// ErrRunNotFound: no run has this id.
	ErrRunNotFound = store.ErrRunNotFound
	// ErrScheduleNotFound: no schedule has this id.
	ErrScheduleNotFound = refusal.ErrScheduleNotFound
	// ErrNotPublished: no definition has this name and version.
	ErrNotPublished = store.ErrNotPublished
	// ErrPublished: this name and version is published with other content.
	ErrPublished = store.ErrPublished
	// ErrLocked: another process, or another engine in this one, has the
	// directory open. errors.As a *LockedError says who, as far as the system tells.
	ErrLocked = store.ErrLocked
	// ErrForeign: the folder given to Open holds other files, and no engine has
	// been in it. Nothing was changed; use an empty or a new folder.
	ErrForeign = store.ErrForeign
	// ErrFenced: the engine has lost its directory, whose lock file was removed or which was moved, or its log (Remote),
	// to which another engine has appended. It can commit nothing any more: close it. From Follow: somebody else has
	// appended to the log of the copy, which ends; the engine goes on.
	ErrFenced = store.ErrFenced
	// ErrCorrupt: what is stored is damaged, or not ours; errors.As a *CorruptError says what and where. Nothing was changed.
	ErrCorrupt = store.ErrCorrupt
	// ErrVersion: another version of pawl wrote what is stored. Nothing was changed.
	ErrVersion = store.ErrVersion
	// ErrFailed: an operation of the disk failed, or the engine directory was taken away. Close the engine and open it again:
	// everything acknowledged is there.
	ErrFailed = store.ErrFailed
	// ErrFollowed: somebody else's Follow of this engine has not returned yet.
	ErrFollowed = store.ErrFollowed
	// ErrNoBase: a Restore found no base that is old enough to begin with.
	ErrNoBase = store.ErrNoBase
	// ErrNoSpace: the disk is full. Nothing was changed.
	ErrNoSpace = store.ErrNoSpace
	// ErrStale: the key names no attempt that runs. Nothing changed.
	ErrStale = state.ErrStale
	// ErrEnded: the run has ended.
	ErrEnded = state.ErrEnded
	// ErrNotEnded: the run has not ended.
	ErrNotEnded = store.ErrNotEnded
	// ErrNotLive: nothing at that token or node waits for this.
	ErrNotLive = state.ErrNotLive
	// ErrAmbiguous: several tokens fit; name one.
	ErrAmbiguous = state.ErrAmbiguous
	// ErrAlreadyVoted: this person has voted on this approval.
	ErrAlreadyVoted = state.ErrAlreadyVoted
	// ErrGroupClosed: the group was closed, its join has fired, or it has ended otherwise.
	ErrGroupClosed = state.ErrGroupClosed
	// ErrConflict: the run's definition has another revision than the patch is for; read it again with Engine.Definition.
	ErrConflict = state.ErrConflict
	// ErrAgain: a Rerun would do again what has completed; see AgainError.
	ErrAgain = refusal.ErrAgain
	// ErrSuspended: an internal fault suspended the run; see its Failure.
	ErrSuspended = state.ErrSuspended
	// ErrUnknown: a commit failed, so the message may or may not have been taken. Calls with an id may be repeated.
	ErrUnknown = state.ErrUnknown
	// ErrBusy: too many calls or runs wait already; try again later.
	ErrBusy = actor.ErrBusy
	// ErrClosed: the engine is closed, or closing.
	ErrClosed = refusal.ErrClosed
	// ErrMaintenance: the engine was opened with Options.Maintenance, in which no run goes on.
	ErrMaintenance = refusal.ErrMaintenance
	// ErrInvalid: an argument is not what the method takes; the error says which.
	ErrInvalid = refusal.ErrInvalid
	// ErrPending is returned by an Executor whose result will come later, through Engine.Complete or Engine.Fail.
	ErrPending = errors.New("the result comes later")
)

// A CorruptError says what is damaged and where: errors.As finds it in errors that are ErrCorrupt.
type CorruptError struct {
	Run  workflow.RunID // "" if all runs are concerned
	File string
	What string
	Err  error // the cause, if there is one
}

// Error names the run, the file and what is wrong.
func (e *CorruptError) Error() string { return (*store.CorruptError)(e).Error() }

// Unwrap returns ErrCorrupt and the cause.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// A LockedError says who has a directory: errors.As finds it in errors that are ErrLocked.
type LockedError struct {
	Process int    // that has the directory; 0 if it is not known, as on other systems than Linux
	Command string // what it is, such as "pawl ls", if it is the command pawl and no engine of a program
}

// Error names the holder, and what to do about it.
func (e *LockedError) Error() string { return (*store.LockedError)(e).Error() }

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// A LeftBehindError says that Close has left handlers behind, which have not returned although their contexts have ended; the context
// of Close gives them the time to. All else is closed, and nothing is lost: what they return is dropped, and their tasks run again when
// the directory is opened.
type LeftBehindError struct {
	Tasks []TaskID // in the order in which they were dispatched
}

// A TaskID says which attempt a handler runs.
type TaskID struct {
	Run  workflow.RunID
	Node workflow.NodeID
	Task string // its type
	Key  Key
}

// Error names the tasks, the first ten of them.
func (e *LeftBehindError) Error() string {
	tasks := make([]tasklog.Place, len(e.Tasks))
	for i, t := range e.Tasks {
		tasks[i] = tasklog.Place{Run: string(t.Run), Node: string(t.Node), Task: t.Task}
	}
	return closing.LeftBehindText(tasks)
}

// closedError returns err, or ErrClosed where it says that the engine stops.
func closedError(err error) error {
	return refusal.Closed(err)
}

// HTTPStatus returns the HTTP status for an error of an engine's method, 200 for nil, for programs that expose an engine over
// HTTP. docs/api.md has a table of them; any other error is 500.
func HTTPStatus(err error) int {
	if err == nil {
		return 200
	}
	return refusal.Of(err).Status
}

// A TaskError is an error with a code that the handler chooses. Definitions catch it by Code; a retry policy retries it if it is
// Retryable. The engine keeps 256 bytes of Code and 16 KiB of Message, as of the text of any error, and replaces bytes that are not
// UTF-8.
//
// RetryAfter, if positive, is how long the next attempt waits, in place of the delay of the node's retry policy; more than a day counts
// as a day. The policy still decides whether there is a next attempt.
type TaskError struct {
	Code       string
	Message    string
	Retryable  bool
	RetryAfter time.Duration
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

// IsPermanent says whether no policy retries a handler's error: it comes from Permanent, or is a TaskError that is not Retryable.
func IsPermanent(err error) bool {
	_, snoozed := snoozeOf(err)
	return err != nil && !snoozed && failureOf(err).Permanent
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// failureOf returns a handler's error as a failure. Where Error panics, as that of a nil pointer may, the text says so; where another
// of its methods does, it is a panic of the handler.
func failureOf(err error) (f workflow.Failure) {
	defer func() {
		if r := recover(); r != nil {
			f = workflow.Failure{Code: workflow.CodePanic, Message: texts.Storable(fmt.Sprintf("the error %T: %v", err, r), maxMessage), Permanent: true}
		}
	}()
	var te TaskError
	var at *TaskError
	switch {
	case errors.As(err, &te):
		f = failureFrom(te)
	case errors.As(err, &at) && at != nil:
		f = failureFrom(*at)
	default:
		f = workflow.Failure{Code: workflow.CodeError, Message: texts.Storable(fmt.Sprint(err), maxMessage)}
		if about := keeping.BlobFailure(err); about != nil {
			f = *about
		}
	}
	f.Permanent = f.Permanent || errors.As(err, &permanent{})
	return f
}

func failureFrom(e TaskError) workflow.Failure {
	return workflow.Failure{Code: texts.Storable(e.Code, maxCode), Message: texts.Storable(e.Message, maxMessage), Permanent: !e.Retryable}
}

// retryAfterOf returns the delay that a handler's error asks for; 0 if it asks for none.
func retryAfterOf(err error) time.Duration {
	var te TaskError
	if at := (*TaskError)(nil); !errors.As(err, &te) && errors.As(err, &at) && at != nil {
		te = *at
	}
	return min(max(te.RetryAfter, 0), limits.MaxRetryAfter)
}

// attemptError returns the message that a handler's error is about an attempt; m says about which, and who says so.
func attemptError(m state.TaskFailed, err error) state.Message {
	if after, snoozed := snoozeOf(err); snoozed {
		return state.TaskSnoozed{Token: m.Token, Attempt: m.Attempt, Epoch: m.Epoch, After: after, Act: m.Act}
	}
	if m.Failure = failureOf(err); !m.Failure.Permanent {
		m.RetryAfter = retryAfterOf(err)
	}
	m.Metadata = storableMetadata(err)
	return m
}

// Bounds of what a host says in words, in bytes; more is cut off.
const (
	maxCode    = 256
	maxMessage = texts.MaxMessage
)

// Snooze returns an error by which a handler asks to be called again after d: because what it looks for is not there yet. That is no
// failure and costs no attempt of the retry policy, and needs none. The wait is durable and holds no slot; Task.Attempt counts on, so
// that the next call has a key of its own.
//
// A time that is shorter than a second is taken for a second, one that is longer than 30 days for 30 days. The limit snoozes of the
// definition, 10,000 by default, bounds how often a task may ask; beyond it the attempt fails with the code limit_exceeded. The timeout
// of a node counts from each call anew, that of the run goes on.
func Snooze(d time.Duration) error { return SnoozeError{After: d} }

// A SnoozeError is what Snooze returns. A handler's error that wraps one is one.
type SnoozeError struct {
	After time.Duration // until the next call
}

// Error says that this is no failure.
func (e SnoozeError) Error() string { return fmt.Sprintf("call again after %v", e.After) }

// snoozeOf returns the bounded delay that a handler's error asks for, if it is a snooze.
// An error whose methods panic is not a snooze: it fails the attempt, see failureOf.
func snoozeOf(err error) (after time.Duration, snoozed bool) {
	if err == nil {
		return 0, false
	}
	defer func() {
		if recover() != nil {
			snoozed = false
		}
	}()
	var s SnoozeError
	switch {
	case errors.As(err, &s):
		return min(max(s.After, limits.MinSnooze), limits.MaxSnooze), true
	case lacksDescriptors(err):
		return descriptorPause, true
	}
	return 0, false
}

// descriptorPause is after how long a task is called again that could open no file.
const descriptorPause = 5 * time.Second

// lacksDescriptors reports whether a handler's error says that the process, or the system, has too many open files. That passes, and
// says nothing of the task; an error that the handler has judged, as Permanent or a TaskError, is left at that.
func lacksDescriptors(err error) bool {
	var judged permanent
	var task TaskError
	var at *TaskError
	if errors.As(err, &judged) || errors.As(err, &task) || errors.As(err, &at) {
		return false
	}
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// withPause adds a Snooze to an error that asks for one without saying so, for executors
// in other processes, which pass on no more than that.
func withPause(err error) error {
	after, snoozed := snoozeOf(err)
	if s := (SnoozeError{}); !snoozed || errors.As(err, &s) {
		return err
	}
	return fmt.Errorf("%w: %w", err, SnoozeError{After: after})
}

// WithMetadata returns err with metadata about the attempt that failed, such as what a call of a model has cost: it is kept as metadata
// on task.retrying, task.failed or task.parked, and may be as large as that of a Result. nil stays nil. A handler may also return a
// Result beside its error; only its metadata count. A Snooze and ErrPending keep none.
func WithMetadata(err error, metadata map[string]any) error {
	if err == nil {
		return nil
	}
	return &metadataError{err, metadata}
}

// ErrorMetadata returns the metadata of an error that comes from WithMetadata, or wraps one;
// nil if there are none, or if asking the error panics.
func ErrorMetadata(err error) (metadata map[string]any) {
	defer func() {
		if recover() != nil { // what failureOf makes of that is the failure
			metadata = nil
		}
	}()
	var m *metadataError
	if !errors.As(err, &m) {
		return nil
	}
	return maps.Clone(m.metadata)
}

type metadataError struct {
	error
	metadata map[string]any
}

func (m *metadataError) Unwrap() error { return m.error }

// withResultMetadata returns the error of a handler with the metadata of the Result beside it, if the error has none of its own.
func withResultMetadata(output any, err error) error {
	if r, ok := output.(Result); ok && r.Metadata != nil && ErrorMetadata(err) == nil {
		return WithMetadata(err, r.Metadata)
	}
	return err
}

// storableMetadata returns the metadata of a failed attempt as a message can have them. Metadata that are no
// value, or too large, must not hide the failure: a text that says what is wrong with them is kept instead.
func storableMetadata(err error) map[string]any {
	metadata := ErrorMetadata(err)
	if metadata == nil {
		return nil
	}
	v, wrong := value.Normalize(metadata, metadataLimits)
	if wrong != nil {
		return map[string]any{"invalid_metadata": texts.Storable(wrong.Error(), maxMessage)}
	}
	out, _ := v.(map[string]any)
	return out
}
