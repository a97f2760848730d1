package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Transactions come in order, as many as make an entry; too many are dropped and told, and
// those that come afterwards are kept again.
func TestTapes(t *testing.T) {
	var kept tapes
	kept.addTransaction([]byte("before")) // nobody follows
	require.NoError(t, kept.beginKeeping())
	require.ErrorIs(t, kept.beginKeeping(), ErrFollowed)
	large := make([]byte, maxEntry/2)
	for range 5 {
		kept.addTransaction(large)
		kept.addTransaction(nil) // it wrote nothing that a copy needs
	}
	next := int64(2) // each follower leaves out a number
	for _, want := range []int{2, 2, 1, 0} {
		e, more, lost := kept.takeSome()
		require.Equal(t, next, e.number)
		require.Len(t, e.changes, want)
		require.Equal(t, next+int64(want) < 7, more)
		require.False(t, lost)
		next += int64(want)
	}
	for range maxTapes/len(large) + 3 {
		kept.addTransaction(large)
		next++
	}
	e, _, lost := kept.takeSome()
	require.Empty(t, e.changes)
	require.True(t, lost)
	kept.addTransaction([]byte("after"))
	e, _, lost = kept.takeSome()
	require.Equal(t, [][]byte{[]byte("after")}, e.changes)
	require.Equal(t, next, e.number)
	require.False(t, lost)
	kept.endKeeping()
	kept.addTransaction([]byte("between")) // nobody follows
	require.NoError(t, kept.beginKeeping())
	kept.addTransaction([]byte("again"))
	again, _, _ := kept.takeSome()
	require.Greater(t, again.number, next+1, "it does not go on from the first follower")
	kept.endKeeping()
	kept.waitForEnd()
	require.ErrorIs(t, kept.beginKeeping(), ErrClosed)
}
