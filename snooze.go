package pawl

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// The bounds of Snooze.
const (
	MinSnooze = time.Second
	MaxSnooze = 30 * 24 * time.Hour
)

// Snooze returns an error by which a handler asks to be called again after d: because
// what it looks for is not there yet. That is no failure and costs no attempt of the
// retry policy, and needs none. The wait is durable and holds no slot; Task.Attempt
// counts on, so that the next call has a key of its own.
//
// A time that is shorter than MinSnooze, or longer than MaxSnooze, is taken for that.
// The limit snoozes of the definition, 10,000 by default, bounds how often a task may
// ask; beyond it the attempt fails with the code limit_exceeded. The timeout of a node
// counts from each call anew, that of the run goes on.
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
		return min(max(s.After, MinSnooze), MaxSnooze), true
	case lacksDescriptors(err):
		return descriptorPause, true
	}
	return 0, false
}

// descriptorPause is after how long a task is called again that could open no file.
const descriptorPause = 5 * time.Second

// lacksDescriptors reports whether a handler's error says that the process, or the system,
// has too many open files. That passes, and says nothing of the task; an error that the
// handler has judged, as Permanent or a TaskError, is left at that.
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
