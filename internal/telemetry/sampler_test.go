package telemetry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/metertest"
)

// Every value is chosen while there are few, and about MaxSamples a second of any number, the whole second long.
func TestSamples(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ perSecond, least, most int }{{10, 20, 20}, {MaxSamples, 2 * MaxSamples, 2 * MaxSamples}, {50 * MaxSamples, 2 * MaxSamples, 8 * MaxSamples}} {
		var s sampler
		chosen, last := 0, 0
		for i := range 2 * c.perSecond {
			if s.takeOne(at.Add(time.Duration(i) * time.Second / time.Duration(c.perSecond)).UnixNano()) {
				chosen++
				if i > c.perSecond {
					last = i
				}
			}
		}
		require.GreaterOrEqual(t, chosen, c.least, "%d a second", c.perSecond)
		require.LessOrEqual(t, chosen, c.most, "%d a second", c.perSecond)
		require.Greater(t, last, 2*c.perSecond-c.perSecond/5, "the last window has values, too")
	}
}

// After a rush the first value counts again, and a clock that was set back hides none.
func TestSamplesAfterARush(t *testing.T) {
	var s sampler
	rush := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 100_000 {
		s.takeOne(rush.Add(time.Duration(i) * 10 * time.Microsecond).UnixNano())
	}
	require.Greater(t, s.stride.Load(), int64(1))
	for _, later := range []time.Duration{time.Hour, -time.Hour} {
		require.True(t, s.takeOne(rush.Add(later).UnixNano()))
	}
}

// The records of all commits are counted, however few were collected late, also at Close.
func TestRecordsAreCountedLate(t *testing.T) {
	p := &metertest.Provider{}
	m, err := New(Options{Provider: p})
	require.NoError(t, err)
	s := &state.State{}
	for i, want := range []int64{0, maxLate, maxLate} {
		n := []int{maxLate - 1, 1, 7}[i]
		m.Committed(s, make([]decision.Record, n), nil, 0)
		require.Equal(t, want, int64(p.Sums()["pawl.commit.records{}"]), i)
	}
	require.NoError(t, m.Close())
	require.Equal(t, int64(maxLate+7), int64(p.Sums()["pawl.commit.records{}"]))
}
