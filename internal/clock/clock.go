// Package clock tells the two clocks of a machine apart. Instants that are
// stored come from the wall clock, which people and daemons set: it may jump.
// How long something takes comes from package time, whose readings carry a clock
// that never does.
package clock

import (
	"sync/atomic"
	"time"
)

// wall is what Now calls; nil outside tests.
var wall atomic.Pointer[func() time.Time]

// Now returns the wall clock without a monotonic reading: what is stored and
// compared with what was stored. It may be earlier than the last one.
func Now() time.Time {
	if f := wall.Load(); f != nil {
		return (*f)().Round(0)
	}
	return time.Now().Round(0)
}

// Until returns how long it is by the wall clock to an instant, which may be past.
func Until(at time.Time) time.Duration { return at.Sub(Now()) }

// Set has f be the wall clock of the process and returns what ends that. There is
// one f at a time. Only tests call it.
func Set(f func() time.Time) (reset func()) {
	wall.Store(&f)
	return func() { wall.Store(nil) }
}
