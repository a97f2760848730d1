package store

import "sync"

// An indexLock is a mutex. That of a remote directory has a gate before it: a commit may hold the lock for as long as
// its log does not answer, and whoever waits at a channel is seen to wait by a bubble of
// testing/synctest.
type indexLock struct {
	gate chan struct{} // of capacity 1; nil without
	mu   sync.Mutex
}

// Lock takes the lock.
func (l *indexLock) Lock() {
	if l.gate != nil {
		l.gate <- struct{}{}
	}
	l.mu.Lock()
}

// TryLock takes the lock if that goes at once, and reports whether it has.
func (l *indexLock) TryLock() bool {
	if l.gate != nil {
		select {
		case l.gate <- struct{}{}:
		default:
			return false
		}
	}
	if l.mu.TryLock() {
		return true
	}
	if l.gate != nil {
		<-l.gate
	}
	return false
}

// Unlock gives the lock back.
func (l *indexLock) Unlock() {
	l.mu.Unlock()
	if l.gate != nil {
		<-l.gate
	}
}
