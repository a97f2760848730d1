package schedule

import (
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// A Standing is the state of a schedule in an engine.
type Standing struct {
	Schedule  Schedule         `json:"schedule"`
	AppliedAt time.Time        `json:"appliedAt"`          // when it was applied to the engine
	Paused    *Pause           `json:"paused,omitzero"`    // nil if it is not
	Why       string           `json:"why"`                // a sentence: what it waits for, or why it does not fire
	Next      []Firing         `json:"next"`               // at most five
	Events    []Event          `json:"events"`             // the last five, the newest first
	Running   []workflow.RunID `json:"running,omitzero"`   // its runs that have not ended
	Waiting   time.Time        `json:"waiting,omitzero"`   // the instant of the firing that waits for a run to end; zero if none does
	Backfills []Backfill       `json:"backfills,omitzero"` // the unfinished ones
	Fired     int64            `json:"fired"`              // runs that it has started
	Failures  int              `json:"failures,omitzero"`  // failed runs in a row
	LagMillis int64            `json:"lagMillis"`          // how late its last scheduled run began, in milliseconds; retries and downtime count
}

// A Pause says since when a schedule is paused, and by whom.
type Pause struct {
	At       time.Time `json:"at"`
	By       string    `json:"by,omitzero"`
	Reason   string    `json:"reason,omitzero"`
	Incident bool      `json:"incident,omitzero"` // the engine paused it, since PauseAfterFailures runs in a row have failed
}

// A Backfill asks for the firings of a schedule whose instants are later than From and not later than To, which has passed. At
// most Most of its runs are live at once.
type Backfill struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Most int       `json:"most"` // from 1 to 100

	By     string `json:"by,omitzero"`     // who asked for it; set by the engine
	Reason string `json:"reason,omitzero"` // likewise
}

// An Event is the outcome of a firing, or a change of the schedule itself.
type Event struct {
	Num int64 `json:"num"` // from 1; the engine keeps the last thousand
	// Kind is started (a run has begun), joined (a run with this id existed), skipped (Skip says why), refused (no run could begin,
	// and Error says why) or waiting (a run of the schedule must end first); or, for the schedule itself, paused or resumed.
	Kind string    `json:"kind"`
	At   time.Time `json:"at"` // when it was decided

	Cause     string    `json:"cause,omitzero"`     // cause of a firing: instant, trigger or backfill
	Scheduled time.Time `json:"scheduled,omitzero"` // its instant
	Until     time.Time `json:"until,omitzero"`     // if several firings in a row were skipped for one reason: the last instant
	Count     int       `json:"count,omitzero"`     // how many these were, at most 10,000; 0 for one
	// Skip is why it was skipped: overlap (a run of the schedule had not ended), window (it was due before the window of
	// CatchUp), most (CatchUp.Most later ones were made up for instead), paused (the schedule was paused), or a [Left].
	Skip   string `json:"skip,omitzero"`
	Error  string `json:"error,omitzero"`  // why it was refused
	By     string `json:"by,omitzero"`     // who paused, resumed, triggered or backfilled it
	Reason string `json:"reason,omitzero"` // likewise

	Run     workflow.RunID     `json:"run,omitzero"`     // the run that it started or joined, or that caused the skip
	Status  workflow.RunStatus `json:"status,omitzero"`  // final status of the run that it started
	EndedAt time.Time          `json:"endedAt,omitzero"` // zero until the run has ended, or if it was purged before the engine saw its end
}

// A Change says how applying a set of schedules changes one of them.
type Change struct {
	ID     string   `json:"id"`
	Kind   string   `json:"kind"`            // created, changed, deleted or unchanged
	Fields []string `json:"fields,omitzero"` // the fields that change, if Kind is changed
}
