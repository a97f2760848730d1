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
