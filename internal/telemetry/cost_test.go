package telemetry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/pawl-run/pawl/internal/telemetry"
)

// An event allocates nothing here once its labels were there, whether or not somebody counts.
func TestAnEventAllocatesNothing(t *testing.T) {
	counted, err := telemetry.New(telemetry.Options{Provider: noop.NewMeterProvider()})
	require.NoError(t, err)
	for _, m := range []*telemetry.Metrics{nil, counted} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			m.TaskBegan("work", "acme", time.Second)
			m.TaskEnded("work", "acme", telemetry.TaskFailed, "timeout", time.Second)
			m.Waited(m.Now())
			m.WorkerLost("work", "acme")
			m.Published(time.Time{})
			m.ScheduleFired("nightly", time.Second)
			m.ScheduleSkipped("nightly", "overlap", 1)
		}))
	}
}

// An engine pays this for an attempt: nothing to speak of without metrics.
func BenchmarkAttempt(b *testing.B) {
	counted, err := telemetry.New(telemetry.Options{Provider: noop.NewMeterProvider()})
	require.NoError(b, err)
	for name, m := range map[string]*telemetry.Metrics{"off": nil, "on": counted} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.TaskBegan("work", "", time.Second)
				m.TaskEnded("work", "", telemetry.TaskFailed, "timeout", time.Second)
			}
		})
	}
}
