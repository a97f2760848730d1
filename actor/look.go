package actor

import (
	"context"

	"github.com/pawl-run/pawl/internal/state"
)

// Look calls at with the committed state of the run and the sequence of its last record, between two turns: at returns
// soon, changes nothing, and keeps only what does not change, such as tokens and groups. Like Ask it may be called only
// while the outbox would not let the actor leave. Errors: ErrStopped, the cause of ctx. Overview uses it: what is asked
// of an active run is in memory, and need not be read from files.
func (a *Actor) Look(ctx context.Context, at func(s *state.State, seq int64)) error {
	if ctx == nil {
		return errNoContext
	}
	if a.turn == nil || at == nil {
		return errUnfit
	}
	select {
	case a.turn <- struct{}{}:
	case <-a.done:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	seen := false
	a.lendTurn(func() error {
		if a.broken != nil {
			return a.broken
		}
		at(a.state, a.seq)
		seen = true
		return nil
	})
	if !seen { // at has panicked, or the turn before it
		return ErrStopped
	}
	return nil
}
