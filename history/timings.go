package history

import (
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// A TimingFilter says which Timings are wanted. The zero value asks for those of the last day, by node.
type TimingFilter struct {
	Workflow string `json:"workflow,omitzero"` // name of the definition; "" is any
	By       string `json:"by,omitzero"`       // what makes a row: "node", which "" is as well, "workflow" or "task", the type
	Within   string `json:"within,omitzero"`   // "hour", "day", which "" is as well, or "month": the last 60 minutes, 24 hours or 31 days
}

// Timings say how long attempts of tasks have waited and worked. An engine counts them in memory, keeps them in its directory when it
// is closed, and loses those of a life that ends by a crash. Attempts count when the run has taken their end: a result, a failure, a
// timeout or a snooze, not those that were cancelled. Whole runs count likewise.
type Timings struct {
	At     time.Time     `json:"at"`              // when they were read
	Since  time.Time     `json:"since,omitzero"`  // when the first attempt was counted; zero if none was
	By     string        `json:"by"`              // as in TimingFilter, never ""
	Within string        `json:"within"`          // likewise; "" of what pawl stats --archive reads, from Since until At
	Rows   []Timing      `json:"rows,omitzero"`   // that have attempts within a month, sorted by their names
	Total  Timing        `json:"total"`           // of all rows, without names
	Runs   []Timing      `json:"runs,omitzero"`   // whole runs by workflow: Attempts counts those that ended, Work is from start to end
	Points []TimingPoint `json:"points,omitzero"` // of all rows: a minute, an hour or a day each, oldest first, those without attempts too
	Load   []TypeLoad    `json:"load,omitzero"`   // what this process has to do now, of all workflows, by task type
}

// A Timing is one row of Timings. Its numbers are those of the filter; Today and Yesterday are the last 24 hours and the 24 before
// them, by whole hours, and LastWeek the 7 days before today, by days of UTC. Names beyond the first 500 combinations of workflow,
// node and type are "_OTHER".
type Timing struct {
	Workflow string          `json:"workflow,omitzero"` // "" of a row that is a task type
	Node     workflow.NodeID `json:"node,omitzero"`     // "" unless the row is a node
	Task     string          `json:"task,omitzero"`     // the type; "" of a row that is a workflow
	TimingSum
	Today     TimingSum `json:"today"`
	Yesterday TimingSum `json:"yesterday"`
	LastWeek  TimingSum `json:"lastWeek"`
}

// A TimingSum says how many attempts have ended in a time, and how long they took.
type TimingSum struct {
	Attempts int64     `json:"attempts"` // that ended
	Failed   int64     `json:"failed"`   // of these, by an error or a timeout, also where another attempt followed
	Rate     float64   `json:"rate"`     // attempts per second, since the first was counted if the time began before
	Queue    Quantiles `json:"queue"`    // how long attempts waited for a slot, their limits and a worker
	Work     Quantiles `json:"work"`     // how long somebody then worked on them; of none that nobody had begun
	// Meta are the numbers in the metadata of their results, of failed ones too, summed by name; of the first 8 names of a row's series.
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
	Work     time.Duration `json:"workP95Ns"` // that 95 of a hundred did not exceed
	// Meta is as in TimingSum.
	Meta map[string]float64 `json:"meta,omitzero"`
}

// A TypeLoad says how many attempts of a type a process has.
type TypeLoad struct {
	Task    string        `json:"task"`               // the type
	Waiting int           `json:"waiting"`            // that nobody performs yet
	Running int           `json:"running"`            // that a handler or a worker performs
	Pending int           `json:"pending"`            // whose results come later, through Complete
	Oldest  time.Duration `json:"oldestNs,omitzero"`  // how long one of the waiting has waited for
	Longest time.Duration `json:"longestNs,omitzero"` // how long one of the running has been performed for
}
