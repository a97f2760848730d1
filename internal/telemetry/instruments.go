package telemetry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/metric"
)

// A Kind says how a reader takes the values of an instrument.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"   // a sum that only grows, from 0 at Open
	Histogram Kind = "histogram" // a distribution
	Gauge     Kind = "gauge"     // a value that stands when it is asked for
)

// The labels.
const (
	workflowLabel = "pawl.workflow.name"
	statusLabel   = "pawl.run.status"
	typeLabel     = "pawl.task.type"
	outcomeLabel  = "pawl.task.outcome"
	errorLabel    = "error.type"
	tenantLabel   = "pawl.tenant"
	messageLabel  = "pawl.message"
	stateLabel    = "pawl.engine.state"
	boundLabel    = "pawl.bound"
	seatLabel     = "pawl.worker.seat.state"
	partLabel     = "pawl.store.part"
	scheduleLabel = "pawl.schedule.id"
	skipLabel     = "pawl.schedule.skip.reason"
	reportLabel   = "pawl.report.name"
)

// An Instrument describes one metric.
type Instrument struct {
	Name   string
	Kind   Kind
	Unit   string // in UCUM, as OpenTelemetry has it
	Text   string // its meaning
	Labels []string
	bounds []float64 // of the buckets of a histogram
	whole  bool      // a gauge of integers
	read   bool      // a counter that a collection reads
	real   bool      // a counter of numbers that are not whole
}

// An id is the place of an instrument in the table.
type id int

// The instruments.
const (
	runStarted id = iota
	runEnded
	runDuration
	taskDuration
	taskQueued
	taskWaiting
	taskOldest
	taskRunning
	taskPending
	taskReported
	workerLost
	leasesExpired
	workerSeats
	pageViewers
	deadLetters
	openApprovals
	approvalsAge
	alarmLag
	alarmOverdue
	commitDuration
	commitRecords
	planDuration
	mailboxWait
	actorsActive
	engineState
	boundRoom
	runActive
	runDamaged
	unfiledCount
	unfiledAge
	storeSize
	copyBehind
	logAppend
	logWaits
	logUnbased
	feedWaiting
	feedOldest
	feedSize
	feedLag
	feedFailing
	scheduleLag
	scheduleSkipped
	schedulePaused
	ids
)

// The bounds of buckets, in seconds: of what may last for days, and of what takes moments.
var (
	long  = []float64{0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400, 604800}
	short = []float64{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60}
)

// instruments is the table of all metrics. docs/metrics.md has the same rows.
var instruments = [ids]Instrument{
	runStarted:    {Name: "pawl.run.started", Kind: Counter, Unit: "{run}", Text: "Runs that began: started, as children, or forked.", Labels: []string{workflowLabel, tenantLabel}},
	runEnded:      {Name: "pawl.run.ended", Kind: Counter, Unit: "{run}", Text: "Runs that ended, by how.", Labels: []string{workflowLabel, statusLabel, tenantLabel}},
	runDuration:   {Name: "pawl.run.duration", Kind: Histogram, Unit: "s", Text: "Time from the beginning of a run to its end.", Labels: []string{workflowLabel, statusLabel, tenantLabel}, bounds: long},
	taskDuration:  {Name: "pawl.task.duration", Kind: Histogram, Unit: "s", Text: "Time of work of each attempt that ended.", Labels: []string{typeLabel, outcomeLabel, errorLabel, tenantLabel}, bounds: long},
	taskQueued:    {Name: "pawl.task.queue.duration", Kind: Histogram, Unit: "s", Text: "Time that an attempt has waited before somebody performed it.", Labels: []string{typeLabel, tenantLabel}, bounds: long},
	taskWaiting:   {Name: "pawl.task.waiting", Kind: Gauge, Unit: "{task}", Text: "Attempts that nobody performs yet.", Labels: []string{typeLabel}, whole: true},
	taskOldest:    {Name: "pawl.task.waiting.age", Kind: Gauge, Unit: "s", Text: "How long the oldest of them has waited.", Labels: []string{typeLabel}},
	taskRunning:   {Name: "pawl.task.running", Kind: Gauge, Unit: "{task}", Text: "Attempts that a handler or a worker performs.", Labels: []string{typeLabel}, whole: true},
	taskPending:   {Name: "pawl.task.pending", Kind: Gauge, Unit: "{task}", Text: "Attempts whose results come later, through Complete.", Labels: []string{typeLabel}, whole: true},
	taskReported:  {Name: "pawl.task.reported", Kind: Counter, Unit: "1", Text: "Numbers in the metadata of results, such as cost.", Labels: []string{workflowLabel, typeLabel, reportLabel, tenantLabel}, real: true},
	workerLost:    {Name: "pawl.worker.lost", Kind: Counter, Unit: "{task}", Text: "Attempts that a worker lost before their end.", Labels: []string{typeLabel, tenantLabel}},
	leasesExpired: {Name: "pawl.worker.leases.expired", Kind: Counter, Unit: "{lease}", Text: "Leases of tasks that ran out in pools of workers.", read: true},
	workerSeats:   {Name: "pawl.worker.seats", Kind: Gauge, Unit: "{seat}", Text: "Tasks that the workers of pools hold, and how many more they would take.", Labels: []string{seatLabel}, whole: true},
	pageViewers:   {Name: "pawl.page.viewers", Kind: Gauge, Unit: "{viewer}", Text: "Live pages of inspectors that somebody watches.", whole: true},

	deadLetters:   {Name: "pawl.dead_letters", Kind: Gauge, Unit: "{task}", Text: "Parked tasks, which wait for an operator.", Labels: []string{workflowLabel}, whole: true},
	openApprovals: {Name: "pawl.approvals.open", Kind: Gauge, Unit: "{approval}", Text: "Approvals that wait for people.", Labels: []string{workflowLabel}, whole: true},
	approvalsAge:  {Name: "pawl.approvals.open.age", Kind: Gauge, Unit: "s", Text: "For how long a run has had an open approval without a break, of the one that has for longest.", Labels: []string{workflowLabel}},

	alarmLag:       {Name: "pawl.alarm.lag", Kind: Histogram, Unit: "s", Text: "How late alarms of runs were, when they were committed.", bounds: long},
	alarmOverdue:   {Name: "pawl.alarm.overdue", Kind: Gauge, Unit: "s", Text: "For how long the earliest alarm has been due that is not committed; 0 if none is."},
	commitDuration: {Name: "pawl.commit.duration", Kind: Histogram, Unit: "s", Text: "Time that a run waits for its commit.", bounds: short},
	commitRecords:  {Name: "pawl.commit.records", Kind: Counter, Unit: "{record}", Text: "Records of journals that were committed."},
	planDuration:   {Name: "pawl.plan.duration", Kind: Histogram, Unit: "s", Text: "Time to plan one message.", Labels: []string{messageLabel}, bounds: short},
	mailboxWait:    {Name: "pawl.mailbox.wait", Kind: Histogram, Unit: "s", Text: "Time that a message waits for the turn of its run.", bounds: short},
	actorsActive:   {Name: "pawl.actor.active", Kind: Gauge, Unit: "{run}", Text: "Runs in memory.", whole: true},
	engineState:    {Name: "pawl.engine.state", Kind: Gauge, Unit: "1", Text: "1 for the state that the engine is in, 0 for the others.", Labels: []string{stateLabel}, whole: true},
	boundRoom:      {Name: "pawl.bound.room", Kind: Gauge, Unit: "1", Text: "The part of a bound that is left: 1 is all, 0 is none.", Labels: []string{boundLabel, typeLabel, tenantLabel}},

	runActive:    {Name: "pawl.run.active", Kind: Gauge, Unit: "{run}", Text: "Runs that have not ended.", Labels: []string{workflowLabel, statusLabel}, whole: true},
	runDamaged:   {Name: "pawl.run.damaged", Kind: Gauge, Unit: "{run}", Text: "Runs that could not be loaded when that was tried last.", whole: true},
	unfiledCount: {Name: "pawl.log.unfiled", Kind: Gauge, Unit: "{record}", Text: "Committed records that are in no file of a run.", whole: true},
	unfiledAge:   {Name: "pawl.log.unfiled.age", Kind: Gauge, Unit: "s", Text: "How old the oldest of them is."},
	storeSize:    {Name: "pawl.store.size", Kind: Gauge, Unit: "By", Text: "Bytes that the directory takes.", Labels: []string{partLabel}, whole: true},
	copyBehind:   {Name: "pawl.copy.behind", Kind: Gauge, Unit: "s", Text: "How far the copy that follows the directory is behind; 0 if it lacks nothing."},
	logAppend:    {Name: "pawl.log.outside.append.duration", Kind: Histogram, Unit: "s", Text: "Time until the log outside of the directory has a commit.", bounds: short},
	logWaits:     {Name: "pawl.log.outside.waiting.age", Kind: Gauge, Unit: "s", Text: "For how long a commit has waited for that log; 0 if none does."},
	logUnbased:   {Name: "pawl.log.outside.unbased", Kind: Gauge, Unit: "By", Text: "Changes in the log since the last base was begun.", whole: true},

	feedWaiting: {Name: "pawl.feed.waiting", Kind: Gauge, Unit: "{event}", Text: "Events that are not published yet.", whole: true},
	feedOldest:  {Name: "pawl.feed.waiting.age", Kind: Gauge, Unit: "s", Text: "How long ago the oldest of them was committed."},
	feedSize:    {Name: "pawl.feed.size", Kind: Gauge, Unit: "By", Text: "What they take in the directory.", whole: true},
	feedLag:     {Name: "pawl.feed.lag", Kind: Histogram, Unit: "s", Text: "Time from the commit of an event until it was published.", bounds: long},
	feedFailing: {Name: "pawl.feed.failing", Kind: Gauge, Unit: "s", Text: "For how long messages have failed; 0 while none does."},

	scheduleLag:     {Name: "pawl.schedule.lag", Kind: Histogram, Unit: "s", Text: "How late firings of schedules were, when their runs were committed.", Labels: []string{scheduleLabel}, bounds: long},
	scheduleSkipped: {Name: "pawl.schedule.skipped", Kind: Counter, Unit: "{firing}", Text: "Firings of schedules that were skipped, by why.", Labels: []string{scheduleLabel, skipLabel}},
	schedulePaused:  {Name: "pawl.schedule.paused", Kind: Gauge, Unit: "1", Text: "1 for a schedule that is paused because its runs failed, 0 for the others.", Labels: []string{scheduleLabel}, whole: true},
}

// Instruments returns what there is, in the order of the table.
func Instruments() []Instrument { return slices.Clone(instruments[:]) }

// makeInstruments makes the instruments.
func (m *Metrics) makeInstruments() (err error) {
	for i := range instruments {
		d := &instruments[i]
		switch unit, text := metric.WithUnit(d.Unit), metric.WithDescription(d.Text); {
		case d.Kind == Counter && d.read:
			m.reads[i], err = m.meter.Int64ObservableCounter(d.Name, unit, text)
			m.gauges = append(m.gauges, m.reads[i])
		case d.Kind == Counter && d.real:
			m.amounts[i], err = m.meter.Float64Counter(d.Name, unit, text)
		case d.Kind == Counter:
			m.counters[i], err = m.meter.Int64Counter(d.Name, unit, text)
		case d.Kind == Histogram:
			m.histograms[i], err = m.meter.Float64Histogram(d.Name, unit, text, metric.WithExplicitBucketBoundaries(d.bounds...))
		case d.whole:
			m.wholes[i], err = m.meter.Int64ObservableGauge(d.Name, unit, text)
			m.gauges = append(m.gauges, m.wholes[i])
		default:
			m.reals[i], err = m.meter.Float64ObservableGauge(d.Name, unit, text)
			m.gauges = append(m.gauges, m.reals[i])
		}
		if err != nil {
			return fmt.Errorf("make the metric %s: %w", d.Name, err)
		}
	}
	return nil
}

// Close ends the collections: gauges are observed no more, and counters have everything. It is called when no run commits any more, and does
// nothing on nil.
func (m *Metrics) Close() error {
	if m == nil {
		return nil
	}
	m.addLate()
	if m.registration == nil {
		return nil
	}
	return errors.Join(m.registration.Unregister())
}

// PrometheusName returns the name under which the exporter of OpenTelemetry for Prometheus has an instrument: with underscores, and
// with the unit and _total at its end. A histogram has it with _bucket, _count and _sum behind it.
func PrometheusName(d Instrument) string {
	name := strings.ReplaceAll(d.Name, ".", "_")
	switch {
	case d.Unit == "s":
		name += "_seconds"
	case d.Unit == "By":
		name += "_bytes"
	case d.Unit == "1" && d.Kind == Gauge:
		name += "_ratio"
	}
	if d.Kind == Counter {
		name += "_total"
	}
	return name
}
