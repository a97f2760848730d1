package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
)

// Types that workers only name leave nothing behind.
func TestLinesThatWereNeverUsedAreForgotten(t *testing.T) {
	p, _ := newPool(t, Options{Types: map[string]pawl.TypeLimit{every: {Rate: 5}}})
	for i := range 10 {
		require.Empty(t, poll1(t, joined(t, p, "ann", 1, fmt.Sprintf("type%d", i))))
	}
	require.Empty(t, slices.Collect(p.queue.tasks.Types()))
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
