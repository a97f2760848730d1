package testhook

import "time"

// A machine has two clocks. Instants that are stored come from the wall clock,
// which people and daemons set: it may jump. How long something takes comes from
// package time, whose readings carry a clock that never does. Only the wall clock
// is asked of the hook, so that tests can set it.

// Now returns the wall clock without a monotonic reading: what is stored and
// compared with what was stored. It may be earlier than the last one.
func (h *Hook) Now() time.Time {
	if h != nil {
		if f := h.now.Load(); f != nil {
			return (*f)().Round(0)
		}
	}
	return time.Now().Round(0)
}

// MaxNap returns how long a timer sleeps at most that waits for an instant of the wall
// clock: usual, unless a test has set another time.
func (h *Hook) MaxNap(usual time.Duration) time.Duration {
	if h == nil {
		return usual
	}
	return time.Duration(positiveOr(h.nap.Load(), int64(usual)))
}

// SetMaxNap sets what MaxNap returns, 0 restores the usual time. Where the clock never
// jumps, as in virtual time, a long nap spares a test the wakes between two instants.
func (h *Hook) SetMaxNap(d time.Duration) { h.nap.Store(int64(d)) }

// EraseAfter returns how long what was deleted stays before it is erased: usual, unless a test has set another time.
func (h *Hook) EraseAfter(usual time.Duration) time.Duration {
	if h == nil {
		return usual
	}
	return time.Duration(positiveOr(h.eraseAfter.Load(), int64(usual)))
}

// SetEraseAfter sets what EraseAfter returns, 0 restores the usual time.
func (h *Hook) SetEraseAfter(d time.Duration) { h.eraseAfter.Store(int64(d)) }

// Until returns how long it is by the wall clock to an instant, which may be past.
func (h *Hook) Until(at time.Time) time.Duration { return at.Sub(h.Now()) }

// OnNow has f be the wall clock and returns what ends that. There is one f at a
// time.
func (h *Hook) OnNow(f func() time.Time) (reset func()) {
	h.now.Store(&f)
	return func() { h.now.Store(nil) }
}
