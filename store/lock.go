package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A LockedError says who has a directory, as far as the system tells: Linux does, others do not.
// It is ErrLocked.
type LockedError struct {
	Process int    // that has the lock; 0 if it is not known
	Command string // what it is, such as "pawl ls", if it is the command pawl and no engine of a program
}

// Error names the holder, and what to do about it.
func (e *LockedError) Error() string {
	switch {
	case e.Command != "":
		return fmt.Sprintf("the directory is in use by the command %q, process %d: wait until it has ended, or end it", e.Command, e.Process)
	case e.Process != 0:
		return fmt.Sprintf("%v, of process %d: close that one", ErrLocked, e.Process)
	}
	return ErrLocked.Error() + ": close that one"
}

// Is reports that it is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// lockWait is how long an opening waits for the lock of a directory unless it is told otherwise: longer than a command
// takes that looks at a directory, and than the system takes to end a process that was killed.
const lockWait = time.Second

// A lockWish is how somebody waits for the lock of a directory.
//
// The lock is one of flock, which tells nobody that it is free, so it is tried again and again. The
// first try when it is free gets it: with commands that look at the directory one after another, an
// engine might never be the first. Therefore an engine that waits shuts the gate, before which
// commands stop; see lockGate.
type lockWish struct {
	limit    time.Duration // how long it waits; not at all if it is not positive
	gives    bool          // it stops before the gate, and lets an engine go first
	forOther bool          // it waits for commands alone: an engine goes on for long
}

// Bounds of the pauses between two tries.
const (
	minLockPause = time.Millisecond
	maxLockPause = 20 * time.Millisecond
)

// acquire calls try until it has the lock of the file at path, or is to wait no more. A wait that ctx ends fails with the cause.
func (w lockWish) acquire(ctx context.Context, path string, try func() (*os.File, error)) (*os.File, error) {
	over, stop := context.WithTimeout(ctx, max(w.limit, 0))
	defer stop()
	gate := lockGate{dir: filepath.Dir(path)}
	defer gate.open()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for next := minLockPause; ; next = min(2*next, maxLockPause) {
		f, err := w.tryOnce(&gate, try)
		var held *LockedError
		if !errors.Is(err, ErrLocked) || w.forOther && errors.As(err, &held) && held.Command == "" {
			return f, err
		}
		pause.Reset(next)
		select {
		case <-pause.C:
			if over.Err() == nil {
				continue
			}
		case <-over.Done():
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, err
	}
}

// tryOnce makes one try, and shuts the gate if that fails.
func (w lockWish) tryOnce(gate *lockGate, try func() (*os.File, error)) (*os.File, error) {
	if w.gives && gate.isShut() {
		return nil, fmt.Errorf("%w, which is starting: ask again", ErrLocked)
	}
	f, err := try()
	if errors.Is(err, ErrLocked) && w.limit > 0 && !w.gives {
		gate.shut()
	}
	return f, err
}

// AwaitEngine waits until an engine waits for the directory at path, which this process has opened
// with [Options.GivesWay] or inspects, and returns nil. It fails with the cause of ctx.
//
// It looks ten times a second, which is a few calls of the system.
func AwaitEngine(ctx context.Context, path string) error {
	if ctx == nil {
		return errors.New("await an engine: the context is nil")
	}
	gate := lockGate{dir: path}
	look := time.NewTicker(lookAtGate)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
			if gate.isShut() {
				return nil
			}
		}
	}
}

// lookAtGate is how often a command that has a directory looks whether an engine waits.
const lookAtGate = 100 * time.Millisecond

// commandOf returns which command of pawl the arguments of a process are, "" if it is another program. Only the name of the
// command is told: the other arguments may be anybody's secrets.
func commandOf(arguments []string) string {
	if len(arguments) == 0 || filepath.Base(arguments[0]) != "pawl" {
		return ""
	}
	if len(arguments) > 1 && arguments[1] != "" && strings.Trim(arguments[1], "abcdefghijklmnopqrstuvwxyz") == "" {
		return "pawl " + arguments[1]
	}
	return "pawl"
}

// lockWish returns how a directory is waited for that is opened with these options.
func (o *Options) lockWish() lockWish {
	return lockWish{limit: cmp.Or(o.LockWait, lockWait), gives: o.GivesWay}
}
