package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/metertest"
)

// Events of several ages wait when an engine is opened. The age is that of the oldest that is left, whichever of them are published.
func TestAgeOfFoundEvents(t *testing.T) {
	for stuck, want := range []time.Duration{25 * time.Hour, 15 * time.Hour, 5 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			dir, opened := t.TempDir(), false
			o := pawl.Options{Logger: slog.New(slog.DiscardHandler), Executor: pawl.Handlers{}, Feed: pawl.FeedOptions{
				To: pawl.FeedFunc(func(_ context.Context, m pawl.FeedMessage) error {
					if opened && string(m.Run) != fmt.Sprint("r", stuck) {
						return nil
					}
					return errors.New("the broker does not take it")
				})}}
			e, err := pawl.Open(t.Context(), dir, o)
			require.NoError(t, err)
			for i := range 3 {
				start(t, e, fmt.Sprint("r", i), define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: x}}]"))
				<-time.After([]time.Duration{10 * time.Hour, 10 * time.Hour, 4 * time.Hour}[i])
			}
			require.NoError(t, e.Close(t.Context()))
			opened = true
			var p metertest.Provider
			e = open(t, dir, &p, o)
			<-time.After(time.Hour)
			require.InDelta(t, want.Seconds(), p.Collect(t.Context())["pawl.feed.waiting.age{}"], 60)
			require.NoError(t, e.Close(t.Context()))
		})
	}
}
