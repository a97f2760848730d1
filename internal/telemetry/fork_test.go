package telemetry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/metertest"
	"github.com/pawl-run/pawl/workflow"
)

// A fork and an imported run count the one record that has made them, and no alarm: the others are those of the run that they come from.
func TestForksCountNothingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		e := open(t, t.TempDir(), &p, pawl.Options{})
		start(t, e, "r", define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {for: 1h}}, {id: b, wait: {event: x}}]\ntransitions: [{from: a, to: b}]"))
		<-time.After(2 * time.Hour)
		count := func() (alarms int, records float64) {
			p.Collect(t.Context())
			return p.Counts()["pawl.alarm.lag{}"], p.Sums()["pawl.commit.records{}"]
		}
		alarms, before := count()
		require.Equal(t, 1, alarms)
		for _, id := range []workflow.RunID{"f1", "f2"} {
			require.NoError(t, e.Fork(t.Context(), "r", id, pawl.ForkOptions{}))
		}
		from, err := e.Recording(t.Context(), "r")
		require.NoError(t, err)
		require.NoError(t, e.Import(t.Context(), from, "imported", pawl.ForkOptions{}))
		alarms, after := count()
		require.Equal(t, 1, alarms)
		require.InDelta(t, before+3, after, 0)
		requireSome(t, map[string]int{"pawl.run.started{pawl.workflow.name=w}": 4}, p.Counts())
	})
}
