package actor_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

const oneThenOther = `{name: w, start: a, nodes: [{id: a, task: t}, {id: b, task: t}], transitions: [{from: a, to: b}]}`

// ways are how a message may be delivered.
func ways(a *actor.Actor) map[string]func(context.Context, state.Message) error {
	return map[string]func(context.Context, state.Message) error{"ask": a.Ask, "deliver": deliverTo(a)}
}

// deliver delivers a message in a goroutine, which waits for its answer.
func deliver(ctx context.Context, how func(context.Context, state.Message) error, m state.Message) chan error {
	answer := make(chan error, 1)
	go func() { answer <- how(ctx, m) }()
	synctest.Wait()
	return answer
}

// A look waits no longer than it may, whichever goroutine has the turn that does not end.
func TestLookGivesUp(t *testing.T) {
	for _, way := range []string{"ask", "deliver"} {
		synctest.Test(t, func(t *testing.T) {
			answers, stalls := make(chan struct{}), false
			d := &disk{graph: graph(t, oneThenOther), fault: func() string {
				if stalls {
					<-answers // the disk does not, before
				}
				return ""
			}}
			var sent []actor.Dispatch
			a := actor.New("r", d, &office{perform: func(x actor.Dispatch) { sent = append(sent, x) }, stays: true}, options())
			ctx, stop := context.WithCancel(t.Context())
			go a.Run(ctx)
			require.NoError(t, a.Ask(ctx, state.Start{}))
			synctest.Wait()
			stalls = true
			answer := deliver(ctx, ways(a)[way], completed(sent[0]))
			soon, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			require.ErrorIs(t, a.Look(soon, func(*state.State, int64) {}), context.DeadlineExceeded)
			stalls = false
			close(answers)
			require.NoError(t, <-answer)
			seq := int64(0)
			require.NoError(t, a.Look(ctx, func(_ *state.State, n int64) { seq = n }))
			require.EqualValues(t, 2, seq)
			stop()
			<-a.Done()
		})
	}
}

// Messages keep the order in which they came into the mailbox, also beside one that is delivered in a goroutine of its
// own.
func TestDeliverKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, oneThenOther), fault: func() string { return "" }}
		var sent []actor.Dispatch
		opt, hook := options(), &testhook.Hook{}
		opt.Hook = hook
		a := actor.New("r", d, &office{perform: func(x actor.Dispatch) { sent = append(sent, x) }, stays: true}, opt)
		ctx, stop := context.WithCancel(t.Context())
		go a.Run(ctx)
		require.NoError(t, a.Ask(ctx, state.Start{}))
		synctest.Wait()
		turns := make(chan struct{})
		hook.OnTurn(func(string) { <-turns })
		result := deliver(ctx, deliverTo(a), completed(sent[0]))
		first := deliver(ctx, a.Ask, state.Signal{Name: "first", Early: true})
		second := deliver(ctx, a.Ask, state.Signal{Name: "second", Early: true})
		close(turns)
		require.NoError(t, errors.Join(<-result, <-first, <-second))
		stop()
		<-a.Done()
		var names []string
		for _, r := range d.records {
			if s, ok := r.Message.(state.Signal); ok {
				names = append(names, s.Name)
			}
		}
		require.Equal(t, []string{"first", "second"}, names)
	})
}

// A result that came before the timeout of its attempt counts, whoever has the turn meanwhile.
func TestAResultBeforeItsTimeout(t *testing.T) {
	for _, way := range []string{"ask", "deliver"} {
		synctest.Test(t, func(t *testing.T) {
			d := &disk{graph: graph(t, `{name: w, start: a, nodes: [{id: a}, {id: c, task: t}, {id: d, task: t, timeout: 10s}], transitions: [{from: a, to: c}, {from: a, to: d}]}`), fault: func() string { return "" }}
			sent := map[workflow.NodeID]actor.Dispatch{}
			opt, hook := options(), &testhook.Hook{}
			opt.Hook = hook
			a := actor.New("r", d, &office{perform: func(x actor.Dispatch) { sent[x.Node.ID] = x }, stays: true}, opt)
			ctx, stop := context.WithCancel(t.Context())
			go a.Run(ctx)
			require.NoError(t, a.Ask(ctx, state.Start{}))
			synctest.Wait()
			turns := make(chan struct{})
			hook.OnTurn(func(string) { <-turns })
			<-time.NewTimer(9 * time.Second).C
			other := deliver(ctx, ways(a)[way], completed(sent["c"]))
			late := deliver(ctx, a.Ask, completed(sent["d"])) // a second before its timeout
			<-time.NewTimer(2 * time.Second).C
			close(turns)
			require.NoError(t, errors.Join(<-other, <-late))
			stop()
			<-a.Done()
			s, _, _, _ := d.Load()
			require.Equal(t, workflow.RunCompleted, s.Status)
		})
	}
}

// If the goroutine of a turn is ended, the actor ends, and nothing waits for either.
func TestATurnWhoseGoroutineIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, oneThenOther), fault: func() string { return "" }}
		var sent []actor.Dispatch
		opt, hook := options(), &testhook.Hook{}
		opt.Hook = hook
		a := actor.New("r", d, &office{perform: func(x actor.Dispatch) { sent = append(sent, x) }, stays: true}, opt)
		ended := make(chan error, 1)
		go func() { ended <- a.Run(t.Context()) }()
		require.NoError(t, a.Ask(t.Context(), state.Start{}))
		synctest.Wait()
		hook.OnTurn(func(string) { runtime.Goexit() })
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = deliverTo(a)(t.Context(), completed(sent[0]))
		}()
		<-gone
		<-a.Done()
		require.ErrorContains(t, <-ended, "was ended")
		require.ErrorIs(t, a.Look(t.Context(), func(*state.State, int64) {}), actor.ErrStopped)
	})
}

// An end that is committed is told, also if the actor breaks before it has.
func TestAnEndThatWasNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, `{name: w, start: a, nodes: [{id: a, task: t}]}`), fault: func() string { return "" }}
		var sent []actor.Dispatch
		opt, hook := options(), &testhook.Hook{}
		opt.Hook = hook
		o := &office{perform: func(x actor.Dispatch) { sent = append(sent, x) }, stays: true}
		ctx, stop := context.WithCancel(t.Context())
		a := actor.New("r", d, o, opt)
		go a.Run(ctx)
		require.NoError(t, a.Ask(ctx, state.Start{}))
		synctest.Wait()
		broken := false
		hook.OnHit(func(point string) {
			if point == "release.begin" && !broken {
				broken = true
				panic("broken")
			}
		})
		require.Error(t, a.Ask(ctx, completed(sent[0])))
		synctest.Wait() // the actor ends when it has answered
		select {
		case <-a.Done():
			a = actor.New("r", d, o, opt)
			go a.Run(ctx)
		default:
		}
		synctest.Wait()
		require.Equal(t, workflow.RunCompleted, o.outcome.Status)
		stop()
		<-a.Done()
	})
}
