//go:build linux || darwin

package inspector

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// measureWork calls f and returns how long its goroutine has used a processor meanwhile: what it waited for does not
// count, nor does what others use of a machine that is loaded.
//
// The goroutine is locked to its thread meanwhile, so that the clock of the thread is its own. The work that f leaves to other
// goroutines does not count.
func measureWork(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := spentByThread()
	f()
	return spentByThread() - before
}

// spentByThread returns how long this thread has used a processor.
func spentByThread() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0 // no such clock: frames are as frequent as they may be
	}
	return time.Duration(t.Nano())
}
