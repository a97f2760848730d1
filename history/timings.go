package history

import (
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// A TimingFilter says which Timings are wanted. The zero value asks for those of the last day, by node.
type TimingFilter struct {
	Workflow string `json:"workflow,omitzero"` // name of the definition; "" is any
	By       string `json:"by,omitzero"`       // what makes a row: "node" (or ""), "workflow", or "task", the type
	Within   string `json:"within,omitzero"`   // "hour", "day" (or ""), or "month": the last 60 minutes, 24 hours or 31 days
}

// Timings say how long attempts of tasks have waited and worked. An engine counts them in memory, keeps them in its directory when it
// is closed, and loses those since Open if it crashes. An attempt is counted when the run has recorded its end: a result, a failure, a
// timeout or a snooze, but not a cancellation. Whole runs are counted likewise.
type Timings struct {
	At     time.Time     `json:"at"`              // when they were read
	Since  time.Time     `json:"since,omitzero"`  // when the first attempt was counted; zero if none was
	By     string        `json:"by"`              // as in TimingFilter, never ""
	Within string        `json:"within"`          // likewise; "" for pawl stats --archive, which reads from Since until At
	Rows   []Timing      `json:"rows,omitzero"`   // rows with attempts within a month, sorted by name
	Total  Timing        `json:"total"`           // of all rows, without names
	Runs   []Timing      `json:"runs,omitzero"`   // whole runs by workflow: Attempts counts those that ended, Work is from start to end
	Points []TimingPoint `json:"points,omitzero"` // sums of all rows per minute, hour or day, oldest first, also where there were no attempts
	Load   []TypeLoad    `json:"load,omitzero"`   // the present load of this process, for all workflows, by task type
}

// A Timing is one row of Timings. Its numbers are those of the filter; Today and Yesterday are the last 24 hours and the 24 before
// them, by whole hours, and LastWeek the 7 days before today, by days of UTC. Names beyond the first 500 combinations of workflow,
// node and type are "_OTHER".
type Timing struct {
	Workflow string          `json:"workflow,omitzero"` // "" if the row is a task type
	Node     workflow.NodeID `json:"node,omitzero"`     // "" unless the row is a node
	Task     string          `json:"task,omitzero"`     // the type; "" if the row is a workflow
	TimingSum
	Today     TimingSum `json:"today"`
	Yesterday TimingSum `json:"yesterday"`
	LastWeek  TimingSum `json:"lastWeek"`
}

// A TimingSum says how many attempts have ended in a period, and how long they took.
type TimingSum struct {
	Attempts int64     `json:"attempts"` // that ended
	Failed   int64     `json:"failed"`   // how many of these failed, by an error or a timeout, even if another attempt followed
	Rate     float64   `json:"rate"`     // attempts per second of the period, or since the first counted attempt if that is later
	Queue    Quantiles `json:"queue"`    // how long attempts waited for a slot, their limits and a worker
	Work     Quantiles `json:"work"`     // how long handlers or workers then worked on them; attempts that had not begun are left out
	// Meta are the numbers in the metadata of their results, also failed ones, summed by name, for the first 8 names of a row's series.
	Meta map[string]float64 `json:"meta,omitzero"`
}

// Quantiles are the times that half, 95 and 99 of a hundred attempts did not exceed, within 6 %, or 10 µs; 0 without attempts.
type Quantiles struct {
	P50 time.Duration `json:"p50Ns"`
	P95 time.Duration `json:"p95Ns"`
	P99 time.Duration `json:"p99Ns"`
}

// A TimingPoint is the sum of a minute, an hour or a day.
type TimingPoint struct {
	At       time.Time     `json:"at"` // its beginning
	Attempts int64         `json:"attempts"`
	Failed   int64         `json:"failed"`
	Work     time.Duration `json:"workP95Ns"` // work time that 95 of a hundred did not exceed
	// Meta is as in TimingSum.
	Meta map[string]float64 `json:"meta,omitzero"`
}

// A TypeLoad says how many attempts of a type a process has.
type TypeLoad struct {
	Task    string        `json:"task"`               // the type
	Waiting int           `json:"waiting"`            // attempts not yet being performed
	Running int           `json:"running"`            // attempts that a handler or a worker performs
	Pending int           `json:"pending"`            // attempts whose results come later, through Complete
	Oldest  time.Duration `json:"oldestNs,omitzero"`  // the longest wait among the waiting
	Longest time.Duration `json:"longestNs,omitzero"` // the longest time among the running
}
