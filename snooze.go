package pawl

import (
	"errors"
	"fmt"
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
// What is shorter than MinSnooze, or longer than MaxSnooze, is taken for that. The
// limit snoozes of the definition, 10,000 by default, bounds how often a task may ask;
// beyond it the attempt fails with the code limit_exceeded. The timeout of a node counts
// from each call anew, that of the run goes on.
func Snooze(d time.Duration) error { return SnoozeError{After: d} }

// A SnoozeError is what Snooze returns. A handler's error that wraps one is one.
type SnoozeError struct {
	After time.Duration // until the next call
}

// Error says that this is no failure.
func (e SnoozeError) Error() string { return fmt.Sprintf("call again after %v", e.After) }

// snoozeOf returns the bounded delay that a handler's error asks for, if it is a snooze.
// An error whose methods panic is none: it fails the attempt, see failureOf.
func snoozeOf(err error) (after time.Duration, snoozed bool) {
	defer func() {
		if recover() != nil {
			snoozed = false
		}
	}()
	var s SnoozeError
	if !errors.As(err, &s) {
		return 0, false
	}
	return min(max(s.After, MinSnooze), MaxSnooze), true
}
