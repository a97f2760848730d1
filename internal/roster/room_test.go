package roster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/workflow"
)

var errFull = errors.New("full")

// startRun starts a run of tenant t that nobody holds; waits says that it only waits.
func startRun(t *testing.T, r *Roster, id workflow.RunID, waits bool) error {
	t.Helper()
	a, err := r.Acquire(t.Context(), id, &Newcomer{Tenant: "t"}, func() *actor.Actor { return actor.New(id, nil, nil, actor.Options{}) })
	if err != nil {
		return err
	}
	r.NoteWaits(id, waits)
	r.Release(a)
	return nil
}

func newBounded(most int) *Roster {
	return New(Options{Most: most, ByTenant: true, Room: func(_ string, active, _ int) error {
		if active >= most {
			return errFull
		}
		return nil
	}})
}

// At the bound the run that waits for longest makes room, no other, and not one that is held or that has gone on.
func TestTheRunThatWaitsForLongestLeaves(t *testing.T) {
	r := newBounded(4)
	require.NoError(t, startRun(t, r, "busy", false))
	for _, id := range []workflow.RunID{"a", "b", "c"} {
		require.NoError(t, startRun(t, r, id, true))
	}
	require.Equal(t, 1, r.CountBusy())
	require.Equal(t, map[string]int{"t": 1}, r.CountByTenant())
	held := r.Hold("a")
	require.NoError(t, startRun(t, r, "d", true))
	require.True(t, r.slots["b"].leaves, "a is held")
	require.Equal(t, 1, r.leaving)

	r.NoteWaits("b", false) // a message came before it left
	require.False(t, r.slots["b"].leaves)
	require.Zero(t, r.leaving)
	require.Equal(t, map[string]int{"t": 2}, r.CountByTenant())
	r.Release(held)

	require.NoError(t, startRun(t, r, "e", false))
	require.True(t, r.slots["c"].leaves)
	require.True(t, r.LetGo(r.slots["c"].actor))
	require.Zero(t, r.leaving)
	require.NoError(t, startRun(t, r, "f", false))
	require.ErrorIs(t, startRun(t, r, "g", false), errFull)
	require.Equal(t, map[string]int{"t": 4}, r.CountByTenant())
	for _, id := range r.IDs() {
		r.Ended(r.slots[id].actor)
	}
	require.Zero(t, r.CountBusy())
	require.Empty(t, r.CountByTenant())
	require.Zero(t, r.waiting.Len()+r.leaving)
}

// No more actors than a bound are about to leave: from then on a start is refused until one has left.
func TestActorsThatAreToLeaveAreBounded(t *testing.T) {
	r := newBounded(1)
	for i := range maxLeaving + 1 {
		require.NoError(t, startRun(t, r, workflow.RunID(fmt.Sprint(i)), true))
	}
	require.ErrorIs(t, startRun(t, r, "more", true), errFull)
	require.True(t, r.LetGo(r.slots["0"].actor))
	require.NoError(t, startRun(t, r, "more", true))
}

// A run whose actor leaves while it has tasks out counts until it is loaded again and only waits, has ended, or is purged.
func TestARunWithTasksOutCountsWithoutItsActor(t *testing.T) {
	r := newBounded(2)
	leave := func(id workflow.RunID) {
		t.Helper()
		require.True(t, r.LetGo(r.slots[id].actor))
		require.False(t, r.Has(id))
	}
	wake := func(id workflow.RunID) {
		t.Helper()
		a, err := r.Acquire(t.Context(), id, nil, func() *actor.Actor { return actor.New(id, nil, nil, actor.Options{}) })
		require.NoError(t, err)
		r.Release(a)
	}
	for _, id := range []workflow.RunID{"works", "waits"} {
		require.NoError(t, startRun(t, r, id, id == "waits"))
		r.NoteStatus(id, workflow.RunRunning)
		leave(id)
	}
	require.Equal(t, 1, r.CountBusy())
	require.Equal(t, map[string]int{"t": 1}, r.CountByTenant())
	require.NoError(t, startRun(t, r, "other", false))
	require.ErrorIs(t, startRun(t, r, "more", false), errFull)
	require.NoError(t, startRun(t, r, "works", false), "it is there, and counts")
	require.Equal(t, map[string]int{"t": 2}, r.CountByTenant())

	r.NoteLoaded("works", "t", workflow.RunPaused)
	leave("works")
	require.Equal(t, 2, r.CountBusy())
	wake("works")
	require.Equal(t, map[string]int{"t": 2}, r.CountByTenant(), "also before it is loaded")
	r.NoteLoaded("works", "t", workflow.RunRunning)
	r.NoteWaits("works", true)
	leave("works")
	require.Equal(t, 1, r.CountBusy())

	for _, last := range []workflow.RunStatus{workflow.RunCompleted, workflow.RunCreated} { // the second as after a commit that failed
		wake("works")
		r.NoteLoaded("works", "t", workflow.RunRunning)
		leave("works")
		require.Equal(t, 2, r.CountBusy())
		wake("works")
		r.NoteStatus("works", last)
		leave("works")
		require.Equal(t, 1, r.CountBusy(), last)
	}
	wake("works")
	r.NoteLoaded("works", "t", workflow.RunRunning)
	leave("works")
	r.Forget("works")
	r.Forget("other") // it has an actor
	require.Equal(t, 1, r.CountBusy())
	require.Equal(t, map[string]int{"t": 1}, r.CountByTenant())
	require.Empty(t, r.away)
}

// A place that is reserved counts from then on: until it is released, or the actor that comes to it has left.
func TestAPlaceIsReservedUntilItsActorComes(t *testing.T) {
	for name, most := range map[string]int{"of a tenant": 0, "of all": 2} {
		t.Run(name, func(t *testing.T) {
			r := New(Options{Most: most, ByTenant: most == 0, Room: func(_ string, active, ofTenant int) error {
				if most > 0 && active >= 2 || ofTenant >= 2 {
					return errFull
				}
				return nil
			}})
			reserve := func(id workflow.RunID) func() {
				t.Helper()
				release, err := r.ReservePlace(id, "t")
				require.NoError(t, err)
				return release
			}
			requireFull := func() {
				t.Helper()
				_, err := r.ReservePlace("more", "t")
				require.ErrorIs(t, err, errFull)
				require.ErrorIs(t, startRun(t, r, "more", false), errFull)
			}
			reserve("a")
			release := reserve("b")
			requireFull()
			release()
			require.NoError(t, startRun(t, r, "c", false))
			requireFull()
			r.Ended(r.slots["c"].actor)

			a, err := r.Acquire(t.Context(), "a", nil, func() *actor.Actor { return actor.New("a", nil, nil, actor.Options{}) })
			require.NoError(t, err)
			require.Equal(t, 1, r.CountBusy())
			reserve("a")() // the run is there: that is refused later, and the run counts as before
			reserve("b")
			requireFull()
			r.Release(a)
			r.Ended(a)
			r.Forget("b")
			require.Zero(t, r.CountBusy())
			require.Empty(t, r.CountByTenant())
		})
	}
}
