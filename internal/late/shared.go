package late

import (
	"context"
	"sync"
)

// A Shared is a call whose answer serves all who wait for it. A nil Shared answers that all is well.
//
// One call is under way at most, and whoever comes meanwhile waits for the next: each is answered by a call that began behind its own
// question. So many callers cost no more than one that asks again and again.
type Shared struct {
	calls  *Calls
	call   func() error
	closed error
	busy   chan struct{} // has room for the call that is under way

	mu   sync.Mutex
	next *sharedAnswer // of the call that has not begun; nil if nobody waits for one
}

// A sharedAnswer is that of one call. err is set when ended is closed.
type sharedAnswer struct {
	ended chan struct{}
	err   error
}

// Share returns a call that many may wait for. closed is its error once Close has begun to wait.
func (c *Calls) Share(call func() error, closed error) *Shared {
	return &Shared{calls: c, call: call, closed: closed, busy: make(chan struct{}, 1)}
}

// Until returns the error of a call that begins after Until, or the cause of ctx if that is done before.
func (s *Shared) Until(ctx context.Context) error {
	if s == nil {
		return nil
	}
	a := s.joinNext()
	if a == nil {
		return s.closed
	}
	select {
	case <-a.ended:
		return a.err
	case <-ctx.Done():
		return Cause(ctx)
	}
}

// joinNext returns the answer of the next call, which it starts unless somebody waits for it already; nil if none can be started.
func (s *Shared) joinNext() *sharedAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		return s.next
	}
	a := &sharedAnswer{ended: make(chan struct{})}
	if !s.calls.Start(func() { s.answerCallers(a) }) {
		return nil
	}
	s.next = a
	return a
}

// answerCallers makes the next call, behind the one that is under way.
func (s *Shared) answerCallers(a *sharedAnswer) {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	s.mu.Lock()
	s.next = nil // whoever comes from now on needs a call that begins later
	s.mu.Unlock()
	a.err = s.call()
	close(a.ended)
}
