package store

import (
	"context"
	"sync"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// An indexLock is a mutex. That of a remote directory has a gate before it: a commit may hold the lock for as long as
// its log does not answer, and whoever waits at a channel is seen to wait by a bubble of
// testing/synctest.
//
// The zero value is an unlocked mutex without a gate. The gate is taken first and given back
// last.
type indexLock struct {
	gate chan struct{} // of capacity 1; nil without
	mu   sync.Mutex
}

// Lock takes the lock.
func (l *indexLock) Lock() { _ = l.lockUntil(context.Background()) }

// lockUntil takes the lock, unless ctx ends before: then it fails with its error. Without a gate nobody holds the lock for long.
func (l *indexLock) lockUntil(ctx context.Context) error {
	if l.gate != nil {
		select {
		case l.gate <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	return nil
}

// TryLock takes the lock if that goes at once, and reports whether it has.
//
// A gate that was taken is given back if the mutex behind it is not free.
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

// readIndex calls f with the connection to pawl.db, which nobody else uses meanwhile.
//
// It takes two locks. If many readers come at the same time, one waits for mu, and the others
// behind it for reading: so the committer, which takes mu alone, has one reader before it at
// most. f should be short; large values are decoded after it.
func (d *Dir) readIndex(f func(*sqlite.Conn) error) error {
	return d.readIndexUntil(context.Background(), f)
}

// readIndexUntil is readIndex for who waits for the commit of a log that does not answer no longer than ctx.
func (d *Dir) readIndexUntil(ctx context.Context, f func(*sqlite.Conn) error) error {
	if err := d.reading.lockUntil(ctx); err != nil {
		return err
	}
	defer d.reading.Unlock()
	if err := d.mu.lockUntil(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if d.dead != nil {
		return d.dead
	}
	return d.indexError(f(d.db))
}
