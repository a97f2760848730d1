//go:build !linux && !darwin

package inspector

import "time"

// measureWork calls f and returns how long that took, at most what it has used of a processor.
func measureWork(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}
