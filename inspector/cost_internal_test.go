package inspector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Pauses are in proportion to what was done, and have an end: a page stays live, however loaded the machine is.
func TestPauses(t *testing.T) {
	const ms = time.Millisecond
	for _, x := range []struct{ cost, took, want time.Duration }{
		{0, 0, 250 * ms},                // four frames a second
		{ms, 20 * ms, 230 * ms},         // counted from the beginning of a frame
		{ms, 900 * ms, 199 * ms},        // what it waited for counts only there
		{10 * ms, 10 * ms, 1990 * ms},   // half a hundredth of a processor
		{300 * ms, 300 * ms, 2000 * ms}, // the end of it
		{time.Hour, time.Hour, 2000 * ms},
	} {
		require.Equal(t, x.want, framePause(x.cost, x.took), "%v in %v", x.cost, x.took)
	}
	require.Equal(t, 990*ms, whyPause(10*ms))
	require.Equal(t, 10*time.Second, whyPause(time.Minute))
}
