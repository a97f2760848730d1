package actor

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/state"
)

// An envelope is a message on its way to the actor, and where the answer goes. reply has room for one answer, so that
// the actor is not held up by a caller who has given up. A nil message asks for nothing but that the run is active:
// its answer comes after a turn like any.
type envelope struct {
	message state.Message
	reply   chan error
}

// Ask delivers m and waits until the answer to it is committed. It may be called only while the outbox would not let
// the actor leave. An error of planning, such as workflow.ErrStale, says that the run has refused m and is as it was.
// If ctx ends while m waits for its turn, m is not taken back: it may be committed later, as with ErrUnknown.
func (a *Actor) Ask(ctx context.Context, m state.Message) error {
	if ctx == nil {
		return errNoContext
	}
	e := &envelope{m, make(chan error, 1)}
	select {
	case a.mailbox <- e: // first, so that ErrBusy says that it was full
	default:
		select {
		case a.mailbox <- e:
		// A caller who holds the actor comes here only if the actor has ended by itself, by an error or because the
		// engine closes.
		case <-a.done:
			return ErrStopped
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
		}
	}
	select {
	case err := <-e.reply:
		return err
	case <-a.done:
		// The actor may have answered and ended in one go, and select chooses either.
		return a.finalReply(e)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Deliver is Ask, but has the turn of the message in the caller's goroutine if the actor has nothing else to do: that
// spares two switches of goroutines, of which each may wake a thread. It returns when the turn is over, however soon
// ctx ends. Whoever calls it takes no longer than that to act on a Dispatch that Returns.
func (a *Actor) Deliver(ctx context.Context, m state.Message) error {
	if ctx == nil {
		return errNoContext
	}
	select {
	case a.turn <- struct{}{}:
	default:
		return a.Ask(ctx, m)
	}
	// Those who wait came before, and an alarm that is due comes behind them. One message may be in the hands of the
	// actor's goroutine by now, and one more may come into the mailbox: so no other is taken. What has broken the
	// actor is not asked for more.
	now := a.currentInstant()
	if len(a.mailbox) > 0 || a.broken != nil || a.isAlarmDue(now) {
		<-a.turn
		return a.Ask(ctx, m)
	}
	e := &envelope{m, make(chan error, 1)}
	a.lendTurn(func() error {
		a.hook.Turn(string(a.ID))
		return a.runTurnAt([]envelope{*e}, now)
	})
	return a.finalReply(e)
}

// lendTurn does something in the turn that its caller has taken, and gives that back. What breaks then, or ends the
// goroutine, ends the actor, which its own goroutine does.
func (a *Actor) lendTurn(f func() error) {
	a.lent = true
	err := errGone // unless f returns
	defer func() {
		a.lent, a.broken = false, err
		leaves := err != nil || a.wantsToLeave()
		<-a.turn
		if leaves {
			a.Nudge()
		}
	}()
	err = a.recoverPanic(f)
}

// errGone ends an actor whose turn was in a goroutine that was ended.
var errGone = errors.New("the goroutine that had a turn was ended")

// finalReply returns the reply that an actor gave on its way out.
func (a *Actor) finalReply(e *envelope) error {
	select {
	case err := <-e.reply:
		return err
	default:
		return ErrStopped
	}
}
