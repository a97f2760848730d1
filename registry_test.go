package pawl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
)

// An actor stays while a caller may send to it, also one that has not sent yet.
func TestAnActorThatIsHeldStays(t *testing.T) {
	r := newRegistry(1, nil, nil)
	a := actor.New("a", nil, nil, actor.Options{})
	for range 2 {
		held, err := r.acquireActor(t.Context(), "a", &birth{}, func() *actor.Actor { return a })
		require.NoError(t, err)
		require.Same(t, a, held)
	}
	require.False(t, r.letActorGo(a))
	r.releaseActor(a)
	require.False(t, r.letActorGo(a), "there is another")
	r.releaseActor(a)
	require.True(t, r.letActorGo(a))
	require.False(t, r.hasActor("a"))
}
