package pawl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
)

// An actor stays while a caller may send to it, also one that has not sent yet.
func TestAnActorThatIsHeldStays(t *testing.T) {
	r := newRegistry(1)
	a := actor.New("a", nil, nil, actor.Options{})
	for range 2 {
		held, err := r.hold(t.Context(), "a", true, func() *actor.Actor { return a })
		require.NoError(t, err)
		require.Same(t, a, held)
	}
	require.False(t, r.leave(a))
	r.release(a)
	require.False(t, r.leave(a), "there is another")
	r.release(a)
	require.True(t, r.leave(a))
	require.False(t, r.has("a"))
}
