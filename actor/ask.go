package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/state"
)

// An envelope is a message on its way to the actor, and where the answer goes: to a channel that has room for it, so that
// the actor is not held up by a caller who has given up, to a function, or to nobody. A nil message asks for nothing but
// that the run is active: its answer comes after a turn like any.
type envelope struct {
	message state.Message
	reply   chan error
	told    func(error)
	sent    time.Duration // to the mailbox, as metrics have it; 0 without
}

// answerOnce answers whoever waits for that.
func (e *envelope) answerOnce(err error) {
	reply, told := e.reply, e.told
	e.reply, e.told = nil, nil
	if reply != nil {
		reply <- err
	} else if told != nil {
		told(err)
	}
}

// answerBatch answers those of the turn's batch who have no answer yet, and forgets the batch: a run that waits keeps no
// messages.
func (a *Actor) answerBatch(batch []envelope, err error) {
	for i := range batch {
		batch[i].answerOnce(err)
	}
	a.batch = nil
}

// Ask delivers m and waits until the answer to it is committed. It may be called only while the outbox would not let
// the actor leave. An error of planning, such as state.ErrStale, says that the run has refused m and is as it was.
// If ctx ends while m waits for its turn, m is not taken back: it may be committed later, as with ErrUnknown.
func (a *Actor) Ask(ctx context.Context, m state.Message) error {
	reply := make(chan error, 1)
	if err := a.postMessage(ctx, &envelope{message: m, reply: reply}); err != nil {
		return err
	}
	select {
	case err := <-reply:
		return err
	case <-a.done:
		// The actor may have answered and ended in one go, and select chooses either.
		return finalReply(reply)
	case <-ctx.Done():
		return late.Cause(ctx)
	}
}

// postMessage puts a message into the mailbox, and waits while that is full.
func (a *Actor) postMessage(ctx context.Context, e *envelope) (err error) {
	a.waiting.Add(1)
	e.sent = a.options.Metrics.MessageSent()
	defer func() {
		if err != nil {
			a.waiting.Add(-1)
		}
	}()
	select {
	case a.mailbox <- e: // first, so that ErrBusy says that it was full
		a.options.Metrics.MailboxFilled(a, len(a.mailbox), cap(a.mailbox))
		return nil
	default:
		a.options.Metrics.MailboxFilled(a, len(a.mailbox), cap(a.mailbox))
	}
	select {
	case a.mailbox <- e:
		return nil
	// A caller who holds the actor comes here only if the actor has ended by itself, by an error or because the
	// engine closes.
	case <-a.done:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("%w: too many messages wait: %w", ErrBusy, late.Cause(ctx))
	}
}

// Waiting returns how many messages wait in the mailbox.
func (a *Actor) Waiting() int { return len(a.mailbox) }

// Deliver delivers m and waits for no answer. If the actor has something else to do, m is in the mailbox when Deliver
// returns, pending, and told is called with the answer, once, by the actor's goroutine: it must return at once. Until
// then the outbox must not let the actor leave. While the mailbox is full Deliver waits.
//
// Otherwise the message has its turn in the caller's goroutine, which spares two switches of goroutines, where each may
// wake a thread, and Deliver returns the answer, not pending, when the turn is over, however soon ctx ends. The caller
// takes no longer than that to act on a Dispatch that Returns.
func (a *Actor) Deliver(ctx context.Context, m state.Message, told func(error)) (pending bool, err error) {
	// The messages that wait came before, also one that the actor's goroutine has taken from the mailbox, and an alarm
	// that is due comes behind them. One more may come into the mailbox: so no other is taken. A broken actor is not
	// asked for more.
	select {
	case a.turn <- struct{}{}:
		now := a.currentInstant()
		if a.waiting.Load() == 0 && a.broken == nil && !a.isAlarmDue(now) {
			return false, a.takeTurn(m, now)
		}
		<-a.turn
	default:
	}
	if err := a.postMessage(ctx, &envelope{message: m, told: told}); err != nil {
		return false, err
	}
	select {
	case <-a.done: // which may have been before: then nobody else answers
		a.answerAll(ErrStopped)
	default:
	}
	return true, nil
}

// takeTurn has the turn of a message in the turn that its caller has taken.
func (a *Actor) takeTurn(m state.Message, now time.Time) error {
	answer := ErrStopped // unless there is one
	a.lendTurn(func() error {
		a.hook.Turn(string(a.ID))
		return a.runTurnAt([]envelope{{message: m, told: func(err error) { answer = err }}}, now)
	})
	return answer
}

// lendTurn does something in the turn that its caller has taken, and gives that back. If f panics or ends the goroutine,
// the actor ends; its own goroutine does that.
func (a *Actor) lendTurn(f func() error) {
	a.lent = true
	err := errGone // unless f returns
	defer func() {
		a.lent, a.broken, a.batch = false, err, nil
		leaves := err != nil || a.wantsToLeave()
		<-a.turn
		if leaves {
			a.Nudge()
		}
	}()
	err = a.recoverPanic(f)
}

// errGone ends an actor if a goroutine was ended that had a turn of it.
var errGone = errors.New("the goroutine that had a turn was ended")

// finalReply returns the reply that an actor gave on its way out.
func finalReply(reply chan error) error {
	select {
	case err := <-reply:
		return err
	default:
		return ErrStopped
	}
}
