package telemetry

import (
	"context"
	"reflect"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Scope is the name under which the instruments are made.
const Scope = "github.com/pawl-run/pawl"

// Options say where the figures go.
type Options struct {
	Provider metric.MeterProvider // nil counts nothing
	Tenants  bool                 // the names of tenants are labels
}

// Sources are what a collection asks for what stands. All answer from memory, at once, and are needed.
type Sources struct {
	// Tasks returns what attempts there are, by type.
	Tasks func() []TaskStand
	// EndAttempt notes that the attempt of a token that is out has ended, how, and with which code; it calls TaskEnded. It
	// returns the type of the task, and false if nobody knows of such an attempt.
	EndAttempt func(run workflow.RunID, token workflow.TokenID, o Outcome, code string) (kind string, known bool)
	// Actors returns how many runs are in memory.
	Actors func() int
	// State returns how the engine stands.
	State func() State
	// Rooms returns how full the bounds are. The fullest of several with the same names counts.
	Rooms func() []Room
	// Overdue returns when the earliest alarm was due of a run that sleeps and should not any more; zero without one.
	Overdue func() time.Time
	// Runs returns how many runs have not ended.
	Runs func() []RunStand
	// Damaged returns how many runs could not be loaded when that was tried last.
	Damaged func() int
	// Unfiled returns how many committed records are in no file of a run, and when the oldest was made.
	Unfiled func() (records int64, oldest time.Time)
	// Sizes returns how many bytes the directory takes, by part, as far as that is known.
	Sizes func() map[string]int64
	// CopyBehind returns when everything was committed that the copy of the directory has, if it lacks something; zero if it
	// lacks nothing; ok is false without a copy.
	CopyBehind func() (at time.Time, ok bool)
	// LogOutside returns how the directory stands with its log outside; ok is false without one.
	LogOutside func() (s LogStand, ok bool)
	// Feed returns how far the feed is; ok is false without one.
	Feed func() (f FeedStand, ok bool)
	// Schedules returns the ids of all schedules, and whether each is paused because its runs failed.
	Schedules func() map[string]bool
}

// A State says whether an engine works.
type State string

// The states.
const (
	Open        State = "open"
	Maintenance State = "maintenance"
	Failed      State = "failed" // no call works until the directory is opened again
	Fenced      State = "fenced" // likewise, since another engine has the directory
)

// states are all of them.
var states = []State{Open, Maintenance, Failed, Fenced}

// A RunStand says how many runs of a workflow have a status.
type RunStand struct {
	Workflow string
	Status   workflow.RunStatus
	Runs     int64
}

// A LogStand says for how long a commit has waited for a log outside, and how many bytes of changes came since the last base.
type LogStand struct {
	Waits   time.Duration
	Unbased int64
}

// A Room says how full a bound is.
type Room struct {
	Bound        string
	Type, Tenant string // "" unless it is one of these
	Used, Most   int64
}

// A FeedStand says how far a feed is.
type FeedStand struct {
	Waiting int64     // events
	Oldest  time.Time // when the first of them was committed; zero if none waits
	Bytes   int64     // that they take
	Failing time.Time // since when messages fail; zero if none does
}

// A TaskStand says how many attempts of a type there are.
type TaskStand struct {
	Type    string
	Waiting int
	Running int
	Pending int
	Oldest  time.Duration // that one of the waiting has waited for
}

// An Outcome says how an attempt has ended.
type Outcome string

// The outcomes.
const (
	TaskCompleted Outcome = "completed"
	TaskFailed    Outcome = "failed"    // for good
	TaskRetried   Outcome = "retried"   // it failed, and another attempt follows
	TaskSnoozed   Outcome = "snoozed"   // it has asked to be called again
	TaskParked    Outcome = "parked"    // it failed, and waits for an operator
	TaskCancelled Outcome = "cancelled" // the run does not want it any more
)

// Metrics are the instruments of an engine. A nil one counts nothing. Its methods may be called from any goroutine, and with
// any lock held, for they take none but their own.
type Metrics struct {
	sources    Sources // set by Watch
	series     allSeries
	counters   [ids]metric.Int64Counter
	amounts    [ids]metric.Float64Counter
	histograms [ids]metric.Float64Histogram
	wholes     [ids]metric.Int64ObservableGauge
	reals      [ids]metric.Float64ObservableGauge
	reads      [ids]metric.Int64ObservableCounter

	registration metric.Registration
	meter        metric.Meter
	gauges       []metric.Observable
	born         time.Time
	waits        waits
	seen         seenValues // of runActive
	rooms        seenValues // of boundRoom
	schedules    seenValues // of schedulePaused
	alarms       alarms
	mailboxes    mailboxes
	figures      figures
	plans        sampler
	commits      sampler
	mails        sampler
	records      lateCount // of commitRecords
}

// New returns the metrics of an engine; nil without a provider. They tell no gauges before Watch.
func New(o Options) (*Metrics, error) {
	if o.Provider == nil {
		return nil, nil
	}
	m := &Metrics{series: allSeries{tenants: o.Tenants}, meter: o.Provider.Meter(Scope), born: time.Now()}
	err := m.makeInstruments()
	return m, err
}

// Watch has collections ask sources from now on. It is called once, before a run commits, and does nothing on nil.
func (m *Metrics) Watch(s Sources) (err error) {
	if m == nil {
		return nil
	}
	m.sources = s
	m.registration, err = m.meter.RegisterCallback(m.observe, m.gauges...)
	return err
}

// addTo adds to a counter.
func (m *Metrics) addTo(of id, n int64, v values) {
	m.counters[of].Add(context.Background(), n, m.series.seriesOf(of, v).add...)
}

// recordTime adds a time to a histogram. A clock that was set back makes no time negative.
func (m *Metrics) recordTime(of id, d time.Duration, v values) {
	m.histograms[of].Record(context.Background(), max(d, 0).Seconds(), m.series.seriesOf(of, v).record...)
}

// TaskBegan counts that somebody performs an attempt, which has waited for that.
func (m *Metrics) TaskBegan(kind, tenant string, waited time.Duration) {
	if m == nil {
		return
	}
	m.recordTime(taskQueued, waited, values{kind, tenant})
}

// TaskEnded counts that an attempt is over, on which somebody has worked for a time; 0 if nobody has. Code is that of its
// error; "" without.
func (m *Metrics) TaskEnded(kind, tenant string, o Outcome, code string, worked time.Duration) {
	if m == nil {
		return
	}
	m.recordTime(taskDuration, worked, values{kind, string(o), code, tenant})
}

// WorkerLost counts that a worker has an attempt no more, whose end did not come.
func (m *Metrics) WorkerLost(kind, tenant string) {
	if m == nil {
		return
	}
	m.addTo(workerLost, 1, values{kind, tenant})
}

// Now returns an instant for the methods that count how long something has taken; 0 on nil.
func (m *Metrics) Now() time.Duration {
	if m == nil {
		return 0
	}
	return max(time.Since(m.born), 1)
}

// PlanBegins returns an instant for Planned, at an instant of the engine's clock; 0 if this plan is not among those that are measured.
func (m *Metrics) PlanBegins(at time.Time) time.Duration {
	if m == nil || !m.plans.takeOne(at.UnixNano()) {
		return 0
	}
	return m.Now()
}

// Planned counts that a message was planned, since an instant of PlanBegins; 0 is none.
func (m *Metrics) Planned(message state.Message, since time.Duration) {
	if m == nil || since == 0 {
		return
	}
	m.recordTime(planDuration, m.Now()-since, values{reflect.TypeOf(message).Name()})
}

// MessageSent returns an instant for Waited; 0 if this message is not among those that are measured. A message that finds its run at rest
// knows of no clock: the one of the plans is enough.
func (m *Metrics) MessageSent() time.Duration {
	if m == nil || !m.mails.takeOne(m.plans.latestInstant()) {
		return 0
	}
	return m.Now()
}

// Waited counts that a message was in a mailbox, since an instant of MessageSent; 0 is none.
func (m *Metrics) Waited(since time.Duration) {
	if m == nil || since == 0 {
		return
	}
	m.recordTime(mailboxWait, m.Now()-since, values{})
}

// LogAppended counts that the log outside of the directory has a commit, which came to it at an instant.
func (m *Metrics) LogAppended(since time.Time) {
	if m == nil {
		return
	}
	m.recordTime(logAppend, time.Since(since), values{})
}

// Published counts that an event was published which was committed at an instant.
func (m *Metrics) Published(at time.Time) {
	if m == nil {
		return
	}
	m.recordTime(feedLag, time.Since(at), values{})
}

// ScheduleFired counts that a run of a schedule was committed, so long after it was due.
func (m *Metrics) ScheduleFired(schedule string, late time.Duration) {
	if m == nil {
		return
	}
	m.recordTime(scheduleLag, late, values{schedule})
}

// ScheduleSkipped counts firings of a schedule that were skipped for one reason.
func (m *Metrics) ScheduleSkipped(schedule, reason string, firings int) {
	if m == nil {
		return
	}
	m.addTo(scheduleSkipped, int64(firings), values{schedule, reason})
}

// Loaded takes note of how a run stands that was read, since an instant.
func (m *Metrics) Loaded(s *state.State, since time.Time) {
	if m == nil {
		return
	}
	m.noteWaits(s, since)
}

// CommitBegins returns an instant for Committed, at an instant of the engine's clock; 0 if the time of this commit is not among those that
// are measured.
func (m *Metrics) CommitBegins(at time.Time) time.Duration {
	if m == nil || !m.commits.takeOne(at.UnixNano()) {
		return 0
	}
	return m.Now()
}

// Committed counts what a commit has made of a run, by the events of its records. s is the state after it, and began the
// instant of CommitBegins; 0 is none.
func (m *Metrics) Committed(s *state.State, records []decision.Record, told []decision.Told, began time.Duration) {
	if m == nil {
		return
	}
	if began != 0 {
		m.recordTime(commitDuration, m.Now()-began, values{})
	}
	if n := m.records.addLater(int64(len(records))); n != 0 {
		m.addTo(commitRecords, n, values{})
	}
	for i := range records {
		if alarm, ok := records[i].Message.(state.AlarmFired); ok {
			m.recordTime(alarmLag, records[i].At.Sub(time.UnixMilli(alarm.At)), values{})
		}
	}
	m.noteWaits(s, records[len(records)-1].At)
	for i := range told {
		m.countEvent(s, records, told[i].Bare())
	}
}

// countEvent counts one event of a commit.
func (m *Metrics) countEvent(s *state.State, records []decision.Record, e *decision.Event) {
	name := s.Graph.Definition.Name
	switch e.Type {
	case workflow.EventWorkflowStarted, workflow.EventWorkflowForked:
		m.addTo(runStarted, 1, values{name, s.Tenant})
	case workflow.EventWorkflowCompleted, workflow.EventWorkflowFailed, workflow.EventWorkflowTimedOut, workflow.EventWorkflowCancelled:
		v := values{name, s.Status.String(), s.Tenant}
		m.addTo(runEnded, 1, v)
		m.recordTime(runDuration, s.EndedAt.Sub(s.StartedAt), v)
	case workflow.EventTaskCompleted:
		m.endAttempt(s, records, e, TaskCompleted)
	case workflow.EventTaskFailed:
		m.endAttempt(s, records, e, TaskFailed)
	case workflow.EventTaskRetrying:
		m.endAttempt(s, records, e, TaskRetried)
	case workflow.EventTaskSnoozed:
		m.endAttempt(s, records, e, TaskSnoozed)
	case workflow.EventTaskParked:
		m.endAttempt(s, records, e, TaskParked)
	default: // it changes nothing that is counted
	}
}

// endAttempt counts the attempt whose end an event tells, and what it has reported. No attempt ends where an operator
// retries a task that was parked. The dispatcher knows the attempts that are out; of one that it does not know, such as
// one whose result comes with Maintenance, the message tells.
func (m *Metrics) endAttempt(s *state.State, records []decision.Record, e *decision.Event, o Outcome) {
	code := decision.ErrorCode(e)
	kind, known := m.sources.EndAttempt(s.Run, e.Token, o, code)
	i := int(e.Record - records[0].Seq)
	if i < 0 || i >= len(records) || state.TokenOf(records[i].Message) != e.Token {
		return
	}
	id, metadata := state.MetadataOf(records[i].Message)
	if _, snoozed := records[i].Message.(state.TaskSnoozed); id == 0 && !snoozed {
		return
	}
	if !known {
		kind = typeOf(s, e)
		m.TaskEnded(kind, s.Tenant, o, code, 0)
	}
	if len(metadata) == 0 {
		return
	}
	for _, x := range amount.Of(metadata, s.MetaLimits()...) {
		v := values{s.Graph.Definition.Name, kind, x.Name, s.Tenant}
		m.amounts[taskReported].Add(context.Background(), x.Float(), m.series.seriesOf(taskReported, v).add...)
	}
}

// typeOf returns the task type of the node of an event, or what an expression has chosen there.
func typeOf(s *state.State, e *decision.Event) string {
	if chosen := s.Token(e.Token).Remembered().Chosen; chosen != "" {
		return chosen
	}
	if n := s.Graph.Node(e.Node); n != nil {
		return n.Task
	}
	return ""
}
