package crowd

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However many names there are, the memory for them is bounded, and those who pause leave it.
func TestCallersThatAreCountedAreBounded(t *testing.T) {
	p, now := NewPacer(1, 1), time.Unix(100, 0)
	for n := range maxPaced {
		require.Zero(t, p.CountRequest(strconv.Itoa(n), now))
	}
	require.Zero(t, p.CountRequest("first beyond", now))
	require.Equal(t, time.Second, p.CountRequest("second beyond", now), "who shares what is left")
	require.Equal(t, time.Second, p.CountRequest("7", now))
	require.Len(t, p.buckets, maxPaced)
	now = now.Add(time.Second)
	require.Zero(t, p.CountRequest("7", now))
	require.Zero(t, p.CountRequest("second beyond", now))
	require.Len(t, p.buckets, 2, "the others have paused")
}
