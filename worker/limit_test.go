package worker

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A rate or burst out of all proportion is a very long or very short time, not a
// negative one.
func TestLimitsOutOfAllProportion(t *testing.T) {
	century := 100 * 365 * 24 * time.Hour
	for _, c := range []struct {
		limit           Limit
		interval, slack time.Duration
	}{
		{Limit{Rate: 1e-10}, century, 0},
		{Limit{Rate: 0.001, Burst: 1e7}, 1000 * time.Second, century},
		{Limit{Rate: math.SmallestNonzeroFloat64, Burst: math.MaxInt}, century, century},
		{Limit{Rate: math.Inf(1), Burst: 5}, 0, 0},
		{Limit{Rate: math.NaN(), Burst: 5}, 0, 0},
		{Limit{Rate: -1}, 0, 0},
		{Limit{Rate: 2, Burst: 3}, time.Second / 2, time.Second},
	} {
		b := newBucket(c.limit)
		require.Equal(t, c.interval, b.interval, "%+v", c.limit)
		require.Equal(t, c.slack, b.slack, "%+v", c.limit)
	}
}

// Types that workers only name leave nothing behind.
func TestLinesThatWereNeverUsedAreForgotten(t *testing.T) {
	p, _ := newPool(t, Options{Limits: map[string]Limit{every: {Rate: 5}}})
	for i := range 10 {
		require.Empty(t, poll1(t, joined(t, p, "ann", 1, fmt.Sprintf("type%d", i))))
	}
	require.Empty(t, p.queue.types)
}

// A worker that holds something is not forgotten, but silent all the same.
func TestAWorkerIsSilentWhileItHoldsATask(t *testing.T) {
	bubble(t, Options{Lease: time.Hour, Expiry: time.Minute}, func(t *testing.T, p *Pool, f *fake) {
		ann := joined(t, p, "ann", 1, "a")
		f.dispatch("a", "k1")
		require.Len(t, poll1(t, ann), 1)
		pass(30 * time.Minute)
		require.Equal(t, 30*time.Minute, p.Status().Workers[0].Silent)
		pass(31 * time.Minute) // its lease runs out, and a minute after it was last found busy
		require.Empty(t, p.Status().Workers)
	})
}
