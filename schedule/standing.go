package schedule

import (
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// A Standing says how a schedule stands in an engine.
type Standing struct {
	Schedule  Schedule         `json:"schedule"`
	AppliedAt time.Time        `json:"appliedAt"`          // when it came to the engine
	Paused    *Pause           `json:"paused,omitzero"`    // nil if it is not
	Why       string           `json:"why"`                // what it waits for, or why it does not fire, in a sentence
	Next      []Firing         `json:"next"`               // at most five
	Events    []Event          `json:"events"`             // the last five, the newest first
	Running   []workflow.RunID `json:"running,omitzero"`   // its runs that are not over
	Waiting   time.Time        `json:"waiting,omitzero"`   // the instant of the firing that waits for a run to end; zero if none does
	Backfills []Backfill       `json:"backfills,omitzero"` // what is left of them
	Fired     int64            `json:"fired"`              // runs that it has started
	Failures  int              `json:"failures,omitzero"`  // in a row
	LagMillis int64            `json:"lagMillis"`          // how late the last run that began by itself did, in milliseconds; retries and downtime count
}

// A Pause says since when a schedule fires no more, and who paused it.
type Pause struct {
	At       time.Time `json:"at"`
	By       string    `json:"by,omitzero"`
	Reason   string    `json:"reason,omitzero"`
	Incident bool      `json:"incident,omitzero"` // its runs have failed, so often as PauseAfterFailures says
}

// A Backfill asks for the firings of a schedule whose instants are later than From and not later than To, which has passed. At most
// Most of its runs are there at once.
type Backfill struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Most int       `json:"most"` // from 1 to 100

	By     string `json:"by,omitzero"`     // who asked for it; the engine says so
	Reason string `json:"reason,omitzero"` // likewise
}

// An Event is what became of a firing, or of the schedule itself.
type Event struct {
	Num int64 `json:"num"` // from 1; the engine keeps the last thousand
	// Kind is started (a run has begun), joined (there was a run of this id), skipped (Skip says why), refused (no run could begin,
	// and Error says why) or waiting (a run of the schedule is to end before); or, of the schedule itself, paused or resumed.
	Kind string    `json:"kind"`
	At   time.Time `json:"at"` // when it was decided

	Cause     string    `json:"cause,omitzero"`     // of a firing: instant, trigger or backfill
	Scheduled time.Time `json:"scheduled,omitzero"` // its instant
	Until     time.Time `json:"until,omitzero"`     // of several firings in a row that were skipped for one reason: the last instant
	Count     int       `json:"count,omitzero"`     // how many they were, or 10,000 if they were more; 0 of one
	// Skip is why it was skipped: overlap (a run of the schedule was not over), window (it was due before the window of CatchUp),
	// most (CatchUp.Most later ones were made up for instead), paused (the schedule was), or a [Left].
	Skip   string `json:"skip,omitzero"`
	Error  string `json:"error,omitzero"`  // why it was refused
	By     string `json:"by,omitzero"`     // who paused, resumed, triggered or backfilled it
	Reason string `json:"reason,omitzero"` // likewise

	Run     workflow.RunID     `json:"run,omitzero"`     // that it started, that it has joined, or for which it was skipped
	Status  workflow.RunStatus `json:"status,omitzero"`  // with which the run that it started has ended
	EndedAt time.Time          `json:"endedAt,omitzero"` // zero while it goes on, and of one that was purged before the engine saw its end
}

// A Change says what applying a set of schedules does to one of them.
type Change struct {
	ID     string   `json:"id"`
	Kind   string   `json:"kind"`            // created, changed, deleted or unchanged
	Fields []string `json:"fields,omitzero"` // that change, of one that is changed
}
