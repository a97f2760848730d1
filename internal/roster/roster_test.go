package roster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/workflow"
)

// An actor stays while a caller may send to it, also one that has not sent yet.
func TestAnActorThatIsHeldStays(t *testing.T) {
	r := New(Options{Room: func(string, int, int) error { return nil }})
	a, newcomer := actor.New("a", nil, nil, actor.Options{}), &Newcomer{}
	for range 2 {
		held, err := r.Acquire(t.Context(), "a", newcomer, func() *actor.Actor { return a })
		require.NoError(t, err)
		require.Same(t, a, held)
	}
	require.False(t, r.LetGo(a))
	r.Release(a)
	require.False(t, r.LetGo(a), "there is another")
	r.Release(a)
	require.True(t, r.LetGo(a))
	require.False(t, r.Has("a"))
}

// A newcomer waits for the one for which an actor was started, until that one's run is there, or the actor has left; a run that was
// before does not.
func TestNewcomersWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Room: func(string, int, int) error { return nil }})
		start := func() *actor.Actor { return actor.New("a", nil, nil, actor.Options{}) }
		first, err := r.Acquire(t.Context(), "a", &Newcomer{}, start)
		require.NoError(t, err)
		got := make(chan *actor.Actor, 2)
		for range 2 {
			go func() {
				a, err := r.Acquire(t.Context(), "a", &Newcomer{}, start)
				if err != nil {
					t.Error(err)
				}
				got <- a
			}()
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = r.Acquire(gone, "a", &Newcomer{}, start)
		require.ErrorIs(t, err, context.Canceled)
		same, err := r.Acquire(t.Context(), "a", nil, start)
		require.NoError(t, err)
		require.Same(t, first, same)
		r.Release(same)
		synctest.Wait()
		require.Empty(t, got)

		r.NoteStatus("a", workflow.RunCreated) // as while its run ends in the commit that begins it, which may fail
		synctest.Wait()
		require.Empty(t, got)

		r.Release(first)
		require.True(t, r.LetGo(first), "its run has not begun")
		synctest.Wait()
		require.Len(t, got, 1)
		second := <-got
		require.NotSame(t, first, second)
		r.NoteStatus("a", workflow.RunRunning)
		synctest.Wait()
		require.Same(t, second, <-got)
	})
}

// Nobody gets the id of a run that is to be forked before each actor has left that has looked for it and found nothing, and no
// newcomer gets such an actor. An actor that has found a run stays.
func TestWhoIsMadeWithoutAnActorWaitsForThatOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Room: func(string, int, int) error { return nil }})
		start := func() *actor.Actor { return actor.New("a", nil, nil, actor.Options{}) }
		for _, of := range []*Newcomer{nil, {}} {
			a, err := r.Acquire(t.Context(), "a", of, start)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			blocked, newcomer := make(chan func(), 1), make(chan *actor.Actor, 1)
			go func() {
				_, err := r.Block(ctx, "a")
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				release, err := r.Block(t.Context(), "a")
				if err != nil {
					t.Error(err)
				}
				blocked <- release
			}()
			synctest.Wait()
			go func() {
				a, err := r.Acquire(t.Context(), "a", &Newcomer{}, start)
				if err != nil {
					t.Error(err)
				}
				newcomer <- a
			}()
			synctest.Wait()
			cancel()
			synctest.Wait()
			require.Empty(t, blocked)
			require.Empty(t, newcomer)

			r.Release(a)
			require.True(t, r.LetGo(a), "it has found no run")
			var next *actor.Actor
			select { // either of the two is first
			case release := <-blocked:
				synctest.Wait()
				require.Empty(t, newcomer)
				release()
				next = <-newcomer
				r.NoteStatus("a", workflow.RunRunning)
			case next = <-newcomer:
				synctest.Wait()
				require.Empty(t, blocked)
				r.NoteLoaded("a", "", workflow.RunRunning)
				(<-blocked)()
			}
			require.NotSame(t, a, next)
			release, err := r.Block(t.Context(), "a")
			require.NoError(t, err, "the run of an actor that stays is there")
			release()
			r.Release(next)
			require.True(t, r.LetGo(next))
		}
	})
}
