package telemetry

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// observe tells a collection what stands.
func (m *Metrics) observe(_ context.Context, o metric.Observer) error {
	m.addLate()
	m.observeTasks(o)
	m.waits.eachWorkflow(func(name string, n waitCount, asks time.Time) {
		m.observeCount(o, deadLetters, int64(n.letters), values{name})
		m.observeCount(o, openApprovals, int64(n.approvals), values{name})
		m.observeSeconds(o, approvalsAge, ageOf(asks), values{name})
	})
	m.observeCount(o, actorsActive, int64(m.sources.Actors()), values{})
	m.observeEngine(o)
	m.observeRooms(o)
	m.observeSchedules(o)
	m.observeFigures(o)
	m.observeSeconds(o, alarmOverdue, ageOf(m.earliestDue(time.Now())), values{})
	m.observeDirectory(o)
	if f, ok := m.sources.Feed(); ok {
		m.observeCount(o, feedWaiting, f.Waiting, values{})
		m.observeSeconds(o, feedOldest, ageOf(f.Oldest), values{})
		m.observeCount(o, feedSize, f.Bytes, values{})
		m.observeSeconds(o, feedFailing, ageOf(f.Failing), values{})
	}
	return nil
}

// addLate adds to counters what they lack.
func (m *Metrics) addLate() {
	if n := m.records.takeLate(); n != 0 {
		m.addTo(commitRecords, n, values{})
	}
}

// observeDirectory tells of the runs of the directory, and how far its files and its log are.
func (m *Metrics) observeDirectory(o metric.Observer) {
	sums := map[values]int64{}
	for _, r := range m.sources.Runs() {
		sums[values{m.series.nameOf(workflowLabel, r.Workflow), r.Status.String()}] += r.Runs
	}
	for v := range m.seen.addSeries(maps.Keys(sums)) {
		m.observeCount(o, runActive, sums[v], v)
	}
	m.observeCount(o, runDamaged, int64(m.sources.Damaged()), values{})
	records, oldest := m.sources.Unfiled()
	m.observeCount(o, unfiledCount, records, values{})
	m.observeSeconds(o, unfiledAge, ageOf(oldest), values{})
	for part, n := range m.sources.Sizes() {
		m.observeCount(o, storeSize, n, values{part})
	}
	if at, ok := m.sources.CopyBehind(); ok {
		m.observeSeconds(o, copyBehind, ageOf(at), values{})
	}
	if s, ok := m.sources.LogOutside(); ok {
		m.observeSeconds(o, logWaits, s.Waits, values{})
		m.observeCount(o, logUnbased, s.Unbased, values{})
	}
}

// ageOf returns how long ago an instant was; 0 of none.
func ageOf(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return time.Since(at)
}

// observeEngine tells how the engine stands.
func (m *Metrics) observeEngine(o metric.Observer) {
	now := m.sources.State()
	for _, s := range states {
		n := int64(0)
		if s == now {
			n = 1
		}
		m.observeCount(o, engineState, n, values{string(s)})
	}
}

// observeSchedules tells which schedules are paused because their runs failed. All beyond MaxNames are one; one that was deleted is not paused.
func (m *Metrics) observeSchedules(o metric.Observer) {
	paused := map[values]int64{}
	for id, failed := range m.sources.Schedules() {
		v := values{m.series.nameOf(scheduleLabel, id)}
		if paused[v] = max(paused[v], 0); failed {
			paused[v] = 1
		}
	}
	for v := range m.schedules.addSeries(maps.Keys(paused)) {
		m.observeCount(o, schedulePaused, paused[v], v)
	}
}

// observeRooms tells how full the bounds are. All types beyond MaxNames are one, as are tenants that are no labels. A type or
// tenant that has nothing any more has all of its room.
func (m *Metrics) observeRooms(o metric.Observer) {
	used := map[values]float64{}
	for _, r := range append(m.sources.Rooms(), m.mailboxes.room()) {
		v := values{r.Bound, m.series.nameOf(typeLabel, r.Type), m.series.nameOf(tenantLabel, r.Tenant)}
		used[v] = max(used[v], float64(r.Used)/float64(r.Most))
	}
	for v := range m.rooms.addSeries(maps.Keys(used)) {
		o.ObserveFloat64(m.reals[boundRoom], max(1-used[v], 0), m.series.seriesOf(boundRoom, v).observe...)
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
	m.observeCount(o, taskWaiting, int64(s.Waiting), v)
	m.observeSeconds(o, taskOldest, s.Oldest, v)
	m.observeCount(o, taskRunning, int64(s.Running), v)
	m.observeCount(o, taskPending, int64(s.Pending), v)
}

// observeCount tells the value of a gauge of integers.
func (m *Metrics) observeCount(o metric.Observer, of id, n int64, v values) {
	o.ObserveInt64(m.wholes[of], n, m.series.seriesOf(of, v).observe...)
}

// observeSeconds tells the value of a gauge of seconds.
func (m *Metrics) observeSeconds(o metric.Observer, of id, d time.Duration, v values) {
	o.ObserveFloat64(m.reals[of], max(d, 0).Seconds(), m.series.seriesOf(of, v).observe...)
}

// seenValues are the series of a gauge that were told once, and are told from then on although there is nothing: a back end
// would go on with the last value. The zero value is ready.
type seenValues struct {
	mu sync.Mutex
	of map[values]bool
}

// addSeries adds series, and returns all.
func (s *seenValues) addSeries(more iter.Seq[values]) map[values]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[values]bool{}
	}
	for v := range more {
		s.of[v] = true
	}
	return maps.Clone(s.of)
}
