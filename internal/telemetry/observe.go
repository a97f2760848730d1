package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// observe tells a collection what stands.
func (m *Metrics) observe(_ context.Context, o metric.Observer) error {
	m.observeTasks(o)
	m.waits.all(func(name string, n waitCount) {
		m.whole(o, deadLetters, int64(n.letters), values{name})
		m.whole(o, openApprovals, int64(n.approvals), values{name})
	})
	m.whole(o, actorsActive, int64(m.sources.Actors()), values{})
	m.observeEngine(o)
	if f, ok := m.sources.Feed(); ok {
		m.whole(o, feedWaiting, f.Waiting, values{})
		m.whole(o, feedSize, f.Bytes, values{})
		failing := time.Duration(0)
		if !f.Failing.IsZero() {
			failing = time.Since(f.Failing)
		}
		m.real(o, feedFailing, failing, values{})
	}
	return nil
}

// observeEngine tells how the engine stands, and how full its bounds are.
func (m *Metrics) observeEngine(o metric.Observer) {
	now := m.sources.State()
	for _, s := range states {
		n := int64(0)
		if s == now {
			n = 1
		}
		m.whole(o, engineState, n, values{string(s)})
	}
	for _, r := range m.sources.Rooms() {
		left := max(float64(r.Most-r.Used)/float64(r.Most), 0)
		o.ObserveFloat64(m.reals[boundRoom], left, m.series.seriesOf(boundRoom, values{r.Bound}).observe...)
	}
}

// observeTasks tells of attempts by type. All types beyond MaxNames are one.
func (m *Metrics) observeTasks(o metric.Observer) {
	others := TaskStand{Type: Other}
	found := false
	for _, s := range m.sources.Tasks() {
		if m.series.nameOf(typeLabel, s.Type) == Other {
			others.Waiting, others.Running, others.Pending = others.Waiting+s.Waiting, others.Running+s.Running, others.Pending+s.Pending
			others.Oldest, found = max(others.Oldest, s.Oldest), true
			continue
		}
		m.observeTask(o, s)
	}
	if found {
		m.observeTask(o, others)
	}
}

// observeTask tells of the attempts of one type.
func (m *Metrics) observeTask(o metric.Observer, s TaskStand) {
	v := values{s.Type}
	m.whole(o, taskWaiting, int64(s.Waiting), v)
	m.real(o, taskOldest, s.Oldest, v)
	m.whole(o, taskRunning, int64(s.Running), v)
	m.whole(o, taskPending, int64(s.Pending), v)
}

// whole tells the value of a gauge of integers.
func (m *Metrics) whole(o metric.Observer, of id, n int64, v values) {
	o.ObserveInt64(m.wholes[of], n, m.series.seriesOf(of, v).observe...)
}

// real tells the value of a gauge of seconds.
func (m *Metrics) real(o metric.Observer, of id, d time.Duration, v values) {
	o.ObserveFloat64(m.reals[of], max(d, 0).Seconds(), m.series.seriesOf(of, v).observe...)
}
