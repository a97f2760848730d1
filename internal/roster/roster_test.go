package roster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
)

// An actor stays while a caller may send to it, also one that has not sent yet.
func TestAnActorThatIsHeldStays(t *testing.T) {
	r := New(Options{Room: func(string, int, int) error { return nil }})
	a := actor.New("a", nil, nil, actor.Options{})
	for range 2 {
		held, err := r.Acquire(t.Context(), "a", &Newcomer{}, func() *actor.Actor { return a })
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
