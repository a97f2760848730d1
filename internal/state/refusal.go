package state

import "errors"

// The reasons for which a message is refused, beside those that have data. Package pawl exports them: callers test for
// them with errors.Is.
var (
	// ErrRunNotFound answers a message to a run that has not begun: no run has
	// its id.
	ErrRunNotFound = errors.New("no such run")
	// ErrStale answers a result whose key does not name a running attempt:
	// late, for an older attempt, or of another timeline. Nothing changed.
	ErrStale = errors.New("stale key: no such attempt is running")
	// ErrEnded answers a message to a run that has ended. Nothing changed.
	ErrEnded = errors.New("the run has ended")
	// ErrNotLive answers a message about a token or node where nothing waits
	// for it. Nothing changed.
	ErrNotLive = errors.New("nothing there waits for this")
	// ErrAmbiguous answers a message that several tokens could take; name one.
	ErrAmbiguous = errors.New("ambiguous: more than one thread fits")
	// ErrRunExists answers a Start of an id that stands for another run.
	ErrRunExists = errors.New("the run exists with another definition or input")
	// ErrUnknown answers a message whose commit has failed: the message may or may
	// not have been taken.
	ErrUnknown = errors.New("the outcome is unknown: the commit failed; docs/engine.md says which calls may be repeated")
	// ErrAlreadyVoted answers a second vote of one person on one approval.
	ErrAlreadyVoted = errors.New("already voted")
	// ErrGroupClosed answers a message about a group that was closed, whose join
	// has fired, or that has ended in another way.
	ErrGroupClosed = errors.New("the group is closed")
	// ErrConflict answers a patch of another revision than the run has. Nothing
	// changed.
	ErrConflict = errors.New("the run has another revision")
	// ErrSuspended answers a message to a run that an internal fault suspended.
	ErrSuspended = errors.New("the run is suspended")
)
