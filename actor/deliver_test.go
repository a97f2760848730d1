package actor_test

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// completed returns the message that ends a task.
func completed(x actor.Dispatch) state.Message {
	return state.TaskCompleted{Token: x.Token, Attempt: x.Attempt, Epoch: x.Epoch, Output: "done"}
}

// deliverTo returns what delivers a message to an actor, and waits for the answer if that is pending.
func deliverTo(a *actor.Actor) func(context.Context, state.Message) error {
	return func(ctx context.Context, m state.Message) error {
		answers := make(chan error, 1)
		if pending, err := a.Deliver(ctx, m, func(err error) { answers <- err }); !pending {
			return err
		}
		return <-answers
	}
}

const twoTasks = `
name: two
start: a
nodes: [{id: a, task: t}, {id: b}, {id: c, task: t}, {id: d, task: t}]
transitions: [{from: a, to: b}, {from: b, to: c}, {from: b, to: d}]
`

// A message that is delivered to an actor which does nothing has its turn in the goroutine that delivers
// it, and the last Dispatch of the turn says so. A message that comes while the actor has a turn shares
// the next turn with those that wait.
func TestDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, twoTasks), fault: func() string { return "" }}
		var sent []actor.Dispatch
		opt, hook := options(), &testhook.Hook{}
		opt.Hook = hook
		a := actor.New("r", d, &office{perform: func(x actor.Dispatch) { sent = append(sent, x) }, stays: true}, opt)
		var turns []bool // in the goroutine of Deliver
		gate := make(chan struct{})
		hook.OnTurn(func(string) {
			turns = append(turns, strings.Contains(string(debug.Stack()), "(*Actor).Deliver"))
			<-gate
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		tell := func(m state.Message, how func(context.Context, state.Message) error) chan error {
			answer := make(chan error, 1)
			go func() { answer <- how(ctx, m) }()
			synctest.Wait()
			return answer
		}
		started := tell(state.Start{}, deliverTo(a)) // it is being loaded
		gate <- struct{}{}
		gate <- struct{}{}
		require.NoError(t, <-started)
		require.Equal(t, []bool{false, false}, turns)
		require.Len(t, sent, 1)
		require.False(t, sent[0].Returns)

		synctest.Wait()
		result := tell(completed(sent[0]), deliverTo(a))
		signals := []chan error{ // both wait for the turn
			tell(state.Signal{Name: "s", Early: true}, deliverTo(a)), tell(state.Signal{Name: "s", Early: true}, a.Ask),
		}
		gate <- struct{}{}
		require.NoError(t, <-result)
		gate <- struct{}{}
		require.NoError(t, errors.Join(<-signals[0], <-signals[1]))
		require.Equal(t, []bool{false, false, true, false}, turns)
		require.Len(t, sent, 3)
		require.False(t, sent[1].Returns)
		require.True(t, sent[2].Returns)

		synctest.Wait()
		hook.OnTurn(func(string) {})
		require.NoError(t, <-tell(completed(sent[1]), deliverTo(a)))
		require.NoError(t, <-tell(completed(sent[2]), a.Ask))
		stop()
		require.NoError(t, <-ended)
		require.ErrorIs(t, deliverTo(a)(t.Context(), state.Start{}), actor.ErrStopped)
		s, _, _, err := d.Load()
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, s.Status)
	})
}

// A run that ends in the goroutine of who delivers lets its actor go.
func TestDeliverEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, `{name: w, start: a, nodes: [{id: a, task: t}]}`), fault: func() string { return "" }}
		sent := make(chan actor.Dispatch, 1)
		a := actor.New("r", d, &office{perform: func(x actor.Dispatch) { sent <- x }}, options())
		go a.Run(t.Context())
		require.NoError(t, a.Ask(t.Context(), state.Start{}))
		began := time.Now()
		synctest.Wait()
		require.NoError(t, deliverTo(a)(t.Context(), completed(<-sent)))
		<-a.Done()
		require.Zero(t, time.Since(began), "it has not waited until it was idle")
	})
}

// A panic in the goroutine that delivers ends the actor, and not that goroutine.
func TestABrokenDeliverEndsTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, `{name: w, start: a, nodes: [{id: a, task: t}, {id: b, task: t}], transitions: [{from: a, to: b}]}`), fault: func() string { return "" }}
		sent := make(chan actor.Dispatch, 1)
		o := &office{perform: func(x actor.Dispatch) { sent <- x }, stays: true}
		a := actor.New("r", d, o, options())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(t.Context()) }()
		require.NoError(t, a.Ask(t.Context(), state.Start{}))
		synctest.Wait()
		o.perform = func(actor.Dispatch) { panic("no room") }
		require.ErrorIs(t, deliverTo(a)(t.Context(), completed(<-sent)), actor.ErrUnknown)
		require.ErrorContains(t, <-ended, "no room")
		require.ErrorIs(t, deliverTo(a)(t.Context(), state.Pause{}), actor.ErrStopped)
	})
}

// Every waiting caller gets an answer when a turn in the goroutine of another breaks: one message is in the hands of the
// actor's goroutine by then, the others are in the mailbox.
func TestABrokenDeliverAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, oneThenOther), fault: func() string { return "" }}
		sent := make(chan actor.Dispatch, 1)
		o := &office{perform: func(x actor.Dispatch) { sent <- x }, stays: true}
		a := actor.New("r", d, o, options())
		go a.Run(t.Context())
		require.NoError(t, a.Ask(t.Context(), state.Start{}))
		synctest.Wait()
		gate := make(chan struct{})
		o.perform = func(actor.Dispatch) { <-gate; panic("no room") }
		broken := deliver(t.Context(), deliverTo(a), completed(<-sent))
		answers := make(chan error, 3)
		for range cap(answers) {
			pending, err := a.Deliver(t.Context(), state.Signal{Name: "s", Early: true}, func(err error) { answers <- err })
			require.NoError(t, err)
			require.True(t, pending)
			synctest.Wait()
		}
		close(gate)
		require.ErrorIs(t, <-broken, actor.ErrUnknown)
		for range cap(answers) {
			require.Error(t, <-answers)
		}
		<-a.Done()
	})
}

// A lostDisk cannot be read any more once it has been.
type lostDisk struct {
	*disk
	read func() error
}

func (d lostDisk) Load() (*state.State, int64, []decision.Event, error) {
	if err := d.read(); err != nil {
		return nil, 0, nil, err
	}
	return d.disk.Load()
}

// A state that a failed commit has left ahead of the log never reaches the file, also if the engine closes just then.
func TestABrokenDeliverFlushesNothing(t *testing.T) {
	for range 20 { // which of the two is noticed first is drawn by the scheduler
		synctest.Test(t, func(t *testing.T) {
			fault := ""
			d := &disk{graph: graph(t, `{name: w, start: a, nodes: [{id: a, task: t}]}`), fault: func() string { return fault }}
			ctx, stop := context.WithCancel(t.Context())
			lost := lostDisk{d, func() error {
				if fault == "" {
					return nil
				}
				stop()
				return errCrash
			}}
			sent := make(chan actor.Dispatch, 1)
			a := actor.New("r", lost, &office{perform: func(x actor.Dispatch) { sent <- x }, stays: true}, options())
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			require.NoError(t, a.Ask(ctx, state.Start{}))
			synctest.Wait()
			fault = "before"
			require.ErrorIs(t, deliverTo(a)(t.Context(), completed(<-sent)), actor.ErrUnknown)
			require.ErrorIs(t, <-ended, errCrash)
			_, flushes := d.counts()
			require.Zero(t, flushes)
		})
	}
}

// A slowDisk ends a flush when it is told to.
type slowDisk struct {
	*disk
	ends chan func()
}

func (d slowDisk) Flush(ch state.Changes, told [][]decision.Told, done func(error)) {
	d.disk.Flush(ch, told, func(err error) { d.ends <- func() { done(err) } })
}

// A goroutine that loads the run again while a flush is under way waits for the flush, whichever goroutine it is.
func TestDeliverWaitsForAFlush(t *testing.T) {
	for _, fails := range []error{nil, errCrash} {
		synctest.Test(t, func(t *testing.T) {
			full := false
			d := &disk{graph: graph(t, `{name: w, start: a, nodes: [{id: a, task: t}]}`), fileError: fails, fault: func() string {
				if full {
					full = false
					return "before"
				}
				return ""
			}}
			opt := options()
			opt.FlushRecords = 1
			slow := slowDisk{d, make(chan func(), 8)}
			var sent []actor.Dispatch
			a := actor.New("r", slow, &office{perform: func(x actor.Dispatch) { sent = append(sent, x) }, stays: true}, opt)
			ctx, stop := context.WithCancel(t.Context())
			go a.Run(ctx)
			require.NoError(t, a.Ask(ctx, state.Start{}))
			synctest.Wait()
			full = true
			answer := make(chan error, 1)
			go func() { answer <- deliverTo(a)(ctx, completed(sent[0])) }()
			synctest.Wait()
			require.Empty(t, answer, "it is loaded from the file that is being written")
			(<-slow.ends)()
			require.ErrorIs(t, <-answer, actor.ErrUnknown)
			synctest.Wait()
			require.Len(t, sent, 2, "sent again")
			require.NoError(t, deliverTo(a)(ctx, completed(sent[1])))
			(<-slow.ends)() // which the end of the run leaves to the store
			stop()
			<-a.Done()
			records, _ := d.counts()
			require.Equal(t, 2, records)
		})
	}
}
