package rate

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A rate or burst out of all proportion is a very long or very short time, not a
// negative one.
func TestRatesOutOfAllProportion(t *testing.T) {
	century := 100 * 365 * 24 * time.Hour
	for _, c := range []struct {
		rate            float64
		burst           int
		interval, slack time.Duration
	}{
		{1e-10, 0, century, 0},
		{0.001, 1e7, 1000 * time.Second, century},
		{math.SmallestNonzeroFloat64, math.MaxInt, century, century},
		{math.Inf(1), 5, 0, 0},
		{math.NaN(), 5, 0, 0},
		{-1, 0, 0, 0},
		{2, 3, time.Second / 2, time.Second},
	} {
		b := NewBucket(c.rate, c.burst)
		require.Equal(t, c.interval, b.interval, "%+v", c)
		require.Equal(t, c.slack, b.slack, "%+v", c)
	}
}

func TestEventsAreSpacedAfterABurst(t *testing.T) {
	b, now := NewBucket(2, 3), time.Unix(100, 0)
	require.True(t, b.IsRested(now))
	for range 3 {
		require.False(t, b.NextEvent().After(now))
		b.CountEvent(now)
	}
	require.Equal(t, now.Add(time.Second/2), b.NextEvent())
	require.False(t, b.IsRested(now.Add(3*time.Second/2-1)))
	require.True(t, b.IsRested(now.Add(3*time.Second/2)))
}
