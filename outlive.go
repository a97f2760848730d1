package pawl

import (
	"context"
	"sync"
)

// lateCalls are calls whose callers may leave before them, because the log of a remote directory does not answer.
//
// A commit that waits for a log cannot be taken back: its entry may be there already. So the call goes on, with all that it
// holds, to its end, which Close waits for; only the caller does not. group is added to with mu held and closed unset, so that nothing
// comes to it behind the Wait of closeAndWait.
type lateCalls struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// startLate has a call run in a goroutine of its own, unless Close has begun to wait: then it reports false.
func (c *lateCalls) startLate(call func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.group.Go(call)
	return true
}

// closeAndWait waits for the calls that are under way.
func (c *lateCalls) closeAndWait() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.group.Wait()
}

// callUntil is call, which commits by itself and not through an actor, until ctx is done: it returns the cause of that then, while
// call goes on. Without a log nothing waits for long, and call runs where it is.
func (e *Engine) callUntil(ctx context.Context, call func() error) error {
	if e.options.Remote.Log == nil {
		return call()
	}
	ended := make(chan error, 1)
	if !e.late.startLate(func() { ended <- call() }) {
		return call() // nothing is committed any more
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
