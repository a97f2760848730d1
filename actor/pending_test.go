package actor_test

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/state"
)

// onDisk returns an actor of a run on a disk without faults, but for those of the options, that has begun.
func onDisk(t *testing.T, d *disk, o actor.Options) *actor.Actor {
	d.graph = graph(t, twoTasks)
	a := actor.New("r", d, &office{perform: func(actor.Dispatch) {}, stays: true}, o)
	go a.Run(t.Context())
	require.NoError(t, a.Ask(t.Context(), state.Start{}))
	synctest.Wait()
	return a
}

// A message that is pending has its turn before one that the same caller delivers later, also while the actor's
// goroutine has it in its hands, and does not run.
func TestPendingMessagesAreNotOvertaken(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		d := &disk{fault: func() string { return "" }}
		a := onDisk(t, d, options())
		answers := make(chan string, 2)
		signal := func(name string) (pending bool) {
			pending, err := a.Deliver(t.Context(), state.Signal{Name: name, Early: true}, func(err error) {
				require.NoError(t, err)
				answers <- name
			})
			require.NoError(t, err)
			return pending
		}
		for range 100 { // the actor may have its turn before this goroutine goes on
			require.NoError(t, a.Look(t.Context(), func(*state.State, int64) { require.True(t, signal("one")) }))
			pending := signal("two")
			require.True(t, pending || len(answers) == 1, "it would be before one")
			require.Equal(t, "one", <-answers)
			if pending {
				require.Equal(t, "two", <-answers)
				return
			}
		}
		t.Error("one was never pending")
	})
}

// A run that waits keeps nothing of what it was told last.
func TestAWaitingActorKeepsNoMessages(t *testing.T) {
	d := &disk{graph: graph(t, twoTasks), fault: func() string { return "" }}
	a := actor.New("r", d, &office{perform: func(actor.Dispatch) {}, stays: true}, options())
	go a.Run(t.Context())
	require.NoError(t, a.Ask(t.Context(), state.Start{}))
	freed := make(chan struct{})
	func() {
		payload := make([]any, 1<<16)
		runtime.SetFinalizer(&payload[0], func(*any) { close(freed) })
		require.ErrorIs(t, a.Ask(t.Context(), state.TaskCompleted{Token: 99, Attempt: 1, Output: payload}), state.ErrStale)
	}()
	for range 1000 { // a finalizer runs some time behind the collection
		runtime.GC()
		select {
		case <-freed:
			runtime.KeepAlive(a)
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("the refused message is held still")
	runtime.KeepAlive(a)
}

// A waiting caller learns that nobody knows whether the message was taken, without the stack, when the function that
// tells of the fault panics; and that the actor has ended, when that function ends the actor's goroutine.
func TestAnswersBehindAFaultThatDoesNotReturn(t *testing.T) {
	for name, fault := range map[string]func(){"panic": func() { panic("logger") }, "goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			broken := false
			o := options()
			o.Fault = func(actor.Place, error) { fault() }
			a := onDisk(t, &disk{fault: func() string {
				if broken {
					return "before"
				}
				return ""
			}}, o)
			answers := make(chan error, 2)
			require.NoError(t, a.Look(t.Context(), func(*state.State, int64) {
				for range cap(answers) {
					pending, err := a.Deliver(t.Context(), state.Signal{Name: "s", Early: true}, func(err error) { answers <- err })
					require.NoError(t, err)
					require.True(t, pending)
				}
				broken = true
			}))
			for range cap(answers) {
				err := <-answers
				require.True(t, errors.Is(err, actor.ErrUnknown) || errors.Is(err, actor.ErrStopped), "%s: %v", name, err)
				require.NotContains(t, err.Error(), "\n", name)
			}
			<-a.Done()
		})
	}
}
