package inspector

import (
	"testing"
	"testing/synctest"
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
		require.Equal(t, x.want, new(frameBudget).chargeFrame(x.cost, x.took), "%v in %v", x.cost, x.took)
	}
	require.Equal(t, 990*ms, whyPause(10*ms))
	require.Equal(t, 10*time.Second, whyPause(time.Minute))
}

// A page that rests saves some, and shows at once what happens then, four times a second, until that is used up.
func TestAPageThatRestsSaves(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var b frameBudget
		frame := func() time.Duration { // of 5 ms
			b.saveUntil(time.Now())
			pause := b.chargeFrame(5*ms, 5*ms)
			<-time.After(pause)
			return pause
		}
		require.Equal(t, 995*ms, frame(), "a page that was just opened")
		<-time.After(time.Second)
		require.Equal(t, 245*ms, frame(), "a second of rest is a frame")
		require.Greater(t, frame(), 900*ms)
		<-time.After(time.Hour)
		for range 5 {
			require.Equal(t, 245*ms, frame())
		}
		require.Greater(t, frame(), 900*ms, "an hour of rest is no more than five")
	})
}
