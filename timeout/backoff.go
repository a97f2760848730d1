package timeout

import "time"

// MaxNap bounds how long a timer sleeps that waits for an instant of the wall
// clock, so that a wall clock that jumps is noticed.
const MaxNap = time.Minute

// A Backoff is the exponential back-off of something that is tried until it
// succeeds: the first pause is First, each further one twice as long as the one
// before it, and none longer than Max. It has no bound of attempts and no jitter;
// see [Retry] for those.
type Backoff struct {
	First time.Duration // above 0
	Max   time.Duration
}

// Next returns the pause that follows one of last; last is 0 before the first.
func (b Backoff) Next(last time.Duration) time.Duration {
	if last > b.Max/2 {
		return b.Max
	}
	return min(max(2*last, b.First), b.Max)
}
