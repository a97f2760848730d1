package schedule

import (
	"cmp"
	"time"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/reading"
)

// A Schedule says when runs of a workflow begin, and with what. Exactly one of Cron, Every, After and At is set. The
// zero value of every other field is its default. It is data, read by [Parse] or built in Go, and written as canonical
// JSON; [Check] says what is wrong with it. All instants are whole seconds.
type Schedule struct {
	ID       string   // 1 to 200 bytes without / and @; the id of a run is ID@INSTANT
	Workflow Workflow // the workflow that it starts

	Cron   []string      // expressions of five fields, at most 100: it fires at every instant of any of them, once
	Every  time.Duration // from one second: at all multiples since 1970-01-01 UTC, later by Offset
	Offset time.Duration // with Every, less than it
	After  time.Duration // from one second: the time after the end of the previous run
	At     []time.Time   // at most 1,000 instants

	Except   []string // with Cron and Every: expressions of five fields, at most 100; minutes for which, and in which, it does not fire
	Timezone string   // a name of the IANA database, such as Europe/Berlin; "" is UTC
	DST      DST      // with Cron: what it does when clocks change
	Start    time.Time
	End      time.Time // it fires neither before Start nor at or after End; zero: no bound

	Input  any               // an expression, or an object whose texts are expressions; see [Timetable.Input]
	Labels map[string]string // labels of the runs, as in workflow.Run
	Tenant string            // tenant of the runs, as in workflow.Run

	MetaLimits map[string]float64 // limits of each run, as in workflow.Run

	Overlap            Overlap       // what it does while one of its runs has not ended
	CatchUp            CatchUp       // which of the firings due while no engine ran are made up for
	Jitter             time.Duration // at most 24 hours and Every: each instant is delayed by less than this, and until those before it are due; see [Firing]
	PauseAfterFailures int           // pauses it after so many failed runs in a row; 0: never

	places reading.Places // where the fields were written, if it was parsed
}

// A Workflow names the published definition that a schedule starts.
type Workflow struct {
	Name    string
	Version int // 0: the latest when it fires
}

// A CatchUp limits the firings that are made up for after a time without an engine: of the firings due within the
// window before now, only the latest Most fire. The window counts from the instant with its jitter, or from when one
// before it was due if that is later. It does not apply to triggers or backfills. A window that becomes wider makes up for no firing that was
// told as skipped.
type CatchUp struct {
	Window time.Duration // from 10 seconds to 366 days; 0: 24 hours
	Most   int           // at most 1,000; 0: 1
}

// DST says what cron expressions do when clocks change. The zero value of a field is the behaviour that the documentation of
// the package describes, which depends on the expression; any other value applies to all expressions of the schedule.
type DST struct {
	Missing  Missing
	Repeated Repeated
}

// The bounds of schedules.
const (
	maxID         = 200 // bytes: the instant comes behind it, and a run's id has 255
	maxCrons      = 100
	maxInstants   = 1_000
	maxCatchUp    = 1_000
	maxWindow     = 366 * 24 * time.Hour
	minWindow     = 10 * time.Second
	maxJitter     = 24 * time.Hour
	maxSchedules  = 10_000
	maxInputDepth = 100
	maxBytes      = limits.MaxDefinitionBytes
)

// enumerations are the lists of values of the types that have one.
var enumerations = []any{overlaps, missings, repeateds}

// An Overlap says what a schedule does at an instant when an earlier run of it
// has not ended. A paused run has not ended.
type Overlap string

// The policies of an overlap. The empty value is OverlapSkip.
const (
	OverlapSkip   Overlap = "skip"   // this firing is left out
	OverlapBuffer Overlap = "buffer" // it starts when that run has ended; at most one waits
	OverlapCancel Overlap = "cancel" // that run is cancelled, and this one starts
	OverlapAllow  Overlap = "allow"  // both run
)

var overlaps = []Overlap{OverlapSkip, OverlapBuffer, OverlapCancel, OverlapAllow}

// Missing says what becomes of a time that clocks jump over.
type Missing string

// The policies of a missing time.
const (
	MissingShift Missing = "shift" // it fires later by the length of the jump: at 03:30 for 02:30
	MissingSkip  Missing = "skip"  // it does not fire
)

var missings = []Missing{MissingShift, MissingSkip}

// Repeated says what becomes of a time that the clock shows twice.
type Repeated string

// The policies of a repeated time.
const (
	RepeatedFirst Repeated = "first"
	RepeatedBoth  Repeated = "both"
	RepeatedLast  Repeated = "last"
)

var repeateds = []Repeated{RepeatedFirst, RepeatedBoth, RepeatedLast}

// The defaults of a schedule.
const (
	defaultWindow = 24 * time.Hour
	defaultMost   = 1
)

// Complete returns a copy of s with its defaults filled in: Timezone, Overlap and CatchUp. The version of the workflow
// and the fields of DST keep their zero values, which are not the same at each firing.
func (s Schedule) Complete() Schedule {
	s.Timezone = cmp.Or(s.Timezone, "UTC")
	s.Overlap = cmp.Or(s.Overlap, OverlapSkip)
	s.CatchUp.Window = cmp.Or(s.CatchUp.Window, defaultWindow)
	s.CatchUp.Most = cmp.Or(s.CatchUp.Most, defaultMost)
	return s
}
