package telemetry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testing/metertest"
)

// newMetrics returns metrics that nobody reads.
func newMetrics(t *testing.T) *telemetry.Metrics {
	m, err := telemetry.New(telemetry.Options{Provider: noop.NewMeterProvider()})
	require.NoError(t, err)
	return m
}

// Every plan is measured while there are few, and about MaxSamples a second of any number, the whole second long.
func TestSamples(t *testing.T) {
	const most = telemetry.MaxSamples
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ perSecond, least, most int }{{10, 20, 20}, {most, 2 * most, 2 * most}, {50 * most, 2 * most, 8 * most}} {
		m := newMetrics(t)
		chosen, last := 0, 0
		for i := range 2 * c.perSecond {
			if m.PlanBegins(at.Add(time.Duration(i)*time.Second/time.Duration(c.perSecond))) != 0 {
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

// After a rush the first plan is measured again, and a clock that was set back hides none.
func TestSamplesAfterARush(t *testing.T) {
	m := newMetrics(t)
	rush := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const n = 100_000
	chosen := 0
	for i := range n {
		if m.PlanBegins(rush.Add(time.Duration(i)*10*time.Microsecond)) != 0 {
			chosen++
		}
	}
	require.Less(t, chosen, n/5)
	for _, later := range []time.Duration{time.Hour, -time.Hour} {
		require.NotZero(t, m.PlanBegins(rush.Add(later)))
	}
}

// The records of all commits are counted, however few were collected late, also at Close.
func TestRecordsAreCountedLate(t *testing.T) {
	p := &metertest.Provider{}
	m, err := telemetry.New(telemetry.Options{Provider: p})
	require.NoError(t, err)
	s := &state.State{}
	counted := func() int { return int(p.Sums()["pawl.commit.records{}"]) }
	committed := 0
	for counted() == 0 {
		m.Committed(s, make([]decision.Record, 1), nil, 0)
		committed++
		require.LessOrEqual(t, committed, 1000, "nothing is counted")
	}
	require.Equal(t, committed, counted())
	require.Greater(t, committed, 1, "each is counted at once")
	m.Committed(s, make([]decision.Record, 7), nil, 0)
	require.Equal(t, committed, counted())
	require.NoError(t, m.Close())
	require.Equal(t, committed+7, counted())
}
