package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/clock"
)

func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, time.Now().Round(0), clock.Now())
		jumped := time.Now().AddDate(10, 0, 0)
		reset := clock.Set(func() time.Time { return jumped })
		require.Equal(t, jumped.Round(0), clock.Now(), "without a monotonic reading")
		require.Equal(t, time.Hour, clock.Until(jumped.Add(time.Hour)))
		require.Equal(t, -time.Hour, clock.Until(jumped.Add(-time.Hour)))
		reset()
		require.Equal(t, time.Now().Round(0), clock.Now())
	})
}
