// Package late has calls whose callers may leave before them.
package late

import (
	"context"
	"sync"
)

// Calls are those of an engine, because the log of a remote directory does not answer.
//
// A commit that waits for a log cannot be taken back: its entry may be there already. So the call goes on, with all that it
// holds, to its end, which Close waits for; only the caller does not. group is added to with mu held and closed unset, so that nothing
// comes to it behind the Wait of Close.
type Calls struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// Start has a call run in a goroutine of its own, unless Close has begun to wait: then it reports false.
func (c *Calls) Start(call func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.group.Go(call)
	return true
}

// Close waits for the calls that are under way.
func (c *Calls) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.group.Wait()
}

// Until is call until ctx is done: it returns the cause of that then, while call goes on.
func (c *Calls) Until(ctx context.Context, call func() error) error {
	ended := make(chan error, 1)
	if !c.Start(func() { ended <- call() }) {
		return call() // nothing is committed any more
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return Cause(ctx)
	}
}
