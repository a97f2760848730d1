package timeout_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/timeout"
)

// Pauses double from the first one, and stay at the longest.
func TestBackoff(t *testing.T) {
	for _, test := range []struct {
		name string
		of   timeout.Backoff
		want []time.Duration
	}{
		{"doubled", timeout.Backoff{First: 10, Max: 1000}, []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000}},
		{"the longest is a power", timeout.Backoff{First: 1, Max: 4}, []time.Duration{1, 2, 4, 4}},
		{"the first is too long", timeout.Backoff{First: 10, Max: 5}, []time.Duration{5, 5}},
		{"no overflow", timeout.Backoff{First: math.MaxInt64 / 2, Max: math.MaxInt64}, []time.Duration{math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64}},
	} {
		t.Run(test.name, func(t *testing.T) {
			last := time.Duration(0)
			for i, want := range test.want {
				last = test.of.Next(last)
				require.Equal(t, want, last, "pause %d", i+1)
			}
		})
	}
}
