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
	// ErrRunExists: the id of a Start is that of a run with another definition
	// or input.
	ErrRunExists = workflow.ErrRunExists
	// ErrRunNotFound: no run has this id.
	ErrRunNotFound = store.ErrRunNotFound
	// ErrNotPublished: no definition has this name and version.
	ErrNotPublished = store.ErrNotPublished
	// ErrPublished: this name and version is published with other content.
	ErrPublished = store.ErrPublished
	// ErrLocked: another process, or another engine of this one, has the
	// directory open. errors.As a *LockedError says who, as far as the system tells.
	ErrLocked = store.ErrLocked
	// ErrForeign: the folder given to Open holds other files, and no engine has
	// been in it. Nothing was changed; use an empty or a new folder.
	ErrForeign = store.ErrForeign
	// ErrFenced: the directory was taken from this engine, by somebody who has
	// removed its lock file or has moved the directory. Nothing can be committed
	// here any more: close it.
	ErrFenced = store.ErrFenced
	// ErrCorrupt: what is stored is damaged, or not ours; errors.As a
	// *CorruptError says what and where. Nothing was changed.
	ErrCorrupt = store.ErrCorrupt
	// ErrVersion: another version of pawl wrote what is stored. Nothing was
	// changed.
	ErrVersion = store.ErrVersion
	// ErrFailed: the disk did not do what it was asked, or the engine directory
	// was taken away. Close the engine and open it again: whatever was
	// acknowledged is there.
	ErrFailed = store.ErrFailed
	// ErrFollowed: somebody else's Follow of this engine has not returned yet.
	ErrFollowed = store.ErrFollowed
	// ErrNoBase: a Restore found nothing that is old enough to begin with.
	ErrNoBase = store.ErrNoBase
	// ErrNoSpace: the disk is full. Nothing was changed.
	ErrNoSpace = store.ErrNoSpace
	// ErrStale: the key names no attempt that runs. Nothing changed.
	ErrStale = workflow.ErrStale
	// ErrEnded: the run has ended.
	ErrEnded = workflow.ErrEnded
	// ErrNotEnded: the run has not ended.
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
	// ErrAgain: a Rerun would do again what has completed; see AgainError.
	ErrAgain = errors.New("it would do again what has completed, which ForkOptions.Again allows")
	// ErrSuspended: an internal fault suspended the run; see its Failure.
	ErrSuspended = workflow.ErrSuspended
	// ErrUnknown: a commit failed, so the message may or may not have been
	// taken. Sending it again is safe.
	ErrUnknown = workflow.ErrUnknown
	// ErrBusy: too much waits already; try again later.
	ErrBusy = actor.ErrBusy
	// ErrClosed: the engine is closed, or closing.
	ErrClosed = errors.New("the engine is closed")
	// ErrMaintenance: the engine was opened with Options.Maintenance, in which no run goes on.
	ErrMaintenance = errors.New("the engine is open for maintenance, and no run goes on: start your program")
	// ErrInvalid: an argument is not what the method takes; the error says which.
	ErrInvalid = errors.New("invalid argument")
	// ErrPending is returned by an Executor whose result will come later,
	// through Engine.Complete or Engine.Fail.
	ErrPending = errors.New("the result comes later")
)

// A CorruptError says what is damaged and where: errors.As finds it in errors that are
// ErrCorrupt.
type CorruptError = store.CorruptError

// A LockedError says who has a directory: errors.As finds it in errors that are ErrLocked.
type LockedError = store.LockedError

// A LeftBehindError says that Close has left handlers behind, which have not returned
// although their contexts have ended; the context of Close gives them the time to. All else is closed, and
// nothing is lost: what they return is dropped, and their tasks run again when the
// directory is opened.
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

// maxTold bounds how many tasks the text of a LeftBehindError names.
const maxTold = 10

// Error names the tasks, the first ten of them.
func (e *LeftBehindError) Error() string {
	if len(e.Tasks) == 1 {
		return "closed, but a handler has not returned, although its context has ended" + tasksText(e.Tasks)
	}
	return fmt.Sprintf("closed, but %d handlers have not returned, although their contexts have ended", len(e.Tasks)) + tasksText(e.Tasks)
}

// tasksText names tasks.
func tasksText(tasks []TaskID) (text string) {
	for i, t := range tasks[:min(len(tasks), maxTold)] {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		text += fmt.Sprintf("%stask %q at node %q of run %q", sep, t.Task, string(t.Node), string(t.Run))
	}
	if more := len(tasks) - maxTold; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
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
