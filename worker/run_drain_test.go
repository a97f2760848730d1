package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
)

// A client that is drained finishes what it holds, however many leases that takes, and takes nothing more.
func TestRunFinishesWhatItHoldsWhenItIsDrained(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		drain, ended := make(chan struct{}), make(chan error, 1)
		c := client(p, "ann", 2)
		c.Drain = drain
		go func() {
			ended <- c.Run(t.Context(), pawl.Handlers{"a": func(ctx context.Context, t pawl.Task) (any, error) {
				pass(10 * time.Minute)
				return "done", ctx.Err()
			}})
		}()
		f.dispatch("a", "k1")
		pass(time.Minute)
		close(drain)
		synctest.Wait()
		f.dispatch("a", "k2")
		pass(5 * time.Minute)
		require.Empty(t, ended, "it is at k1")
		require.NoError(t, <-ended)
		require.Equal(t, "done", f.result("k1"))
		s := p.Status()
		require.EqualValues(t, 1, s.Processed)
		require.Zero(t, s.Expired)
		require.Empty(t, s.Workers, "it says goodbye")
	})
}

// Nor does it wait for a pool that nobody reaches.
func TestRunThatIsDrainedDoesNotWaitForThePool(t *testing.T) {
	drained := make(chan struct{})
	close(drained)
	c := &Client{URL: "http://127.0.0.1:1", ID: "ann", Drain: drained}
	require.NoError(t, c.Run(t.Context(), pawl.Handlers{}))
}
