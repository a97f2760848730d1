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

// Until returns how long it is by the wall clock to an instant, which may be past.
func (h *Hook) Until(at time.Time) time.Duration { return at.Sub(h.Now()) }

// OnNow has f be the wall clock and returns what ends that. There is one f at a
// time.
func (h *Hook) OnNow(f func() time.Time) (reset func()) {
	h.now.Store(&f)
	return func() { h.now.Store(nil) }
}
