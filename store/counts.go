package store

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A RunCount says how many runs of a workflow have a status.
type RunCount struct {
	Workflow string             `json:"workflow"` // name of the definition
	Status   workflow.RunStatus `json:"status"`
	Runs     int64              `json:"runs"` // at least 1
}

// getIncidents finds the runs that go on by the index over statuses, and looks at a row of each.
const (
	getCounts = `SELECT workflow, status, runs, crc FROM run_counts`
	putCount  = `INSERT INTO run_counts (workflow, status, runs, crc) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT DO UPDATE SET runs = excluded.runs, crc = excluded.crc`
	dropCount = `DELETE FROM run_counts WHERE workflow = ? AND status = ?`

	getIncidents = `SELECT num FROM runs INDEXED BY runs_status WHERE status IN (1, 2) AND failure IS NOT NULL`
)

type countKey struct {
	workflow string
	status   workflow.RunStatus
}

// runCounts are the rows of run_counts, which runs have an incident, and how the transaction under way
// changes both. The lock of the index guards them.
//
// rows says what the last commit left, and changed what the transaction under way adds to that. A
// transaction that fails leaves changed as it is, and the next one clears it before it begins.
type runCounts struct {
	rows      map[countKey]int64
	changed   map[countKey]int64
	incidents map[int64]bool // by the number of the run; all are true
	noted     map[int64]bool // false: it has none any more
}

// loadCounts reads the rows.
//
// A row that has changed is refused, since a count that is wrong would stay wrong.
func (d *Dir) loadCounts() error {
	d.counts = runCounts{map[countKey]int64{}, map[countKey]int64{}, map[int64]bool{}, map[int64]bool{}}
	err := d.db.Each(getIncidents, func(r *sqlite.Row) error { d.counts.incidents[r.Int64(0)] = true; return nil })
	if err != nil {
		return err
	}
	return d.db.Each(getCounts, func(r *sqlite.Row) error {
		if !index.CRCMatches(r, 1, 3) {
			return &CorruptError{File: d.pathOf(indexFile), What: "a row of its table run_counts has changed: " + r.Text(0)}
		}
		d.counts.rows[countKey{r.Text(0), workflow.RunStatus(r.Int64(1))}] = r.Int64(2)
		return nil
	})
}

// countRun notes that the transaction under way makes one more run, or with -1 one less.
//
// It is called where a row of a run is written, with a status that the row has left or taken.
func (c *runCounts) countRun(name string, s workflow.RunStatus, n int64) {
	c.changed[countKey{name, s}] += n
}

// hasIncident reports whether a run goes on and has a failure nevertheless, which is an incident.
func hasIncident(h *Head) bool {
	return h.Failure != nil && (h.Status == workflow.RunRunning || h.Status == workflow.RunPaused)
}

// noteIncident notes whether the transaction under way leaves a run with an incident.
func (c *runCounts) noteIncident(num int64, before, after *Head) {
	if has := hasIncident(after); has || hasIncident(before) {
		c.noted[num] = has
	}
}

// clearChanges forgets what a transaction has changed.
func (c *runCounts) clearChanges() {
	clear(c.changed)
	clear(c.noted)
}

// writeChanges writes what the transaction under way has changed, as its last statements.
func (c *runCounts) writeChanges(db *sqlite.Conn) error {
	for key, n := range c.changed {
		status, runs := int64(key.status), c.rows[key]+n
		var err error
		switch {
		case n == 0:
		case runs > 0:
			_, err = db.Exec(putCount, index.RowWithCRC(key.workflow, status, runs)...)
		default:
			_, err = db.Exec(dropCount, key.workflow, status)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepChanges takes over what the transaction has changed, which is committed now.
func (c *runCounts) keepChanges() {
	for key, n := range c.changed {
		if c.rows[key] += n; c.rows[key] <= 0 {
			delete(c.rows, key)
		}
	}
	for num, has := range c.noted {
		if c.incidents[num] = has; !has {
			delete(c.incidents, num)
		}
	}
	c.clearChanges()
}

// Counts returns how many runs there are, by workflow and status, in the order of both. It
// looks at no run.
func (d *Dir) Counts(ctx context.Context) ([]RunCount, error) {
	var out []RunCount
	err := d.readIndexUntil(ctx, func(*sqlite.Conn) error {
		all := maps.Clone(d.counts.rows)
		for key, n := range d.redo.ahead {
			all[key] += n
		}
		for key, n := range all {
			if n > 0 {
				out = append(out, RunCount{key.workflow, key.status, n})
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b RunCount) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status))
	})
	return out, err
}

// countOf returns how many runs fit a name and statuses; no status means any.
//
// It is used to choose an index, so it need not be of one moment with what is read.
func (c *runCounts) countOf(name string, statuses []workflow.RunStatus) (n int64) {
	for key := range maps.Keys(c.rows) {
		if (name == "" || key.workflow == name) && (len(statuses) == 0 || slices.Contains(statuses, key.status)) {
			n += c.rows[key]
		}
	}
	return n
}

// Commits returns how many transactions this life of the directory has committed.
func (d *Dir) Commits() int64 { return d.commits.Load() }
