package actor

import (
	"context"

	"github.com/pawl-run/pawl/internal/state"
)

// A look is a question that the actor's goroutine answers between two turns.
type look struct {
	at   func(s *state.State, seq int64)
	done chan struct{}
}

// Look calls at with the committed state of the run and the sequence of its last record, in the actor's goroutine
// between two turns: at returns soon, changes nothing, and keeps only what does not change, such as tokens and
// groups. Like Ask it may be called only while the outbox would not let the actor leave. Errors: ErrStopped, the
// cause of ctx. Overview uses it: what is asked of an active run is in memory, and need not be read from files.
func (a *Actor) Look(ctx context.Context, at func(s *state.State, seq int64)) error {
	if ctx == nil {
		return errNoContext
	}
	if a.looks == nil || at == nil {
		return errUnfit
	}
	l := look{at, make(chan struct{})}
	select {
	case a.looks <- l:
		select {
		case <-l.done:
			return nil
		case <-a.done: // at has panicked
			return ErrStopped
		}
	case <-a.done:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
