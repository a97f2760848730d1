package store

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A Head is a run's row in the index: what can be known of it without loading
// it. It is never behind the run.
//
// It is the copy of a row, which the caller may keep.
type Head = index.Head

// Each is answered by an index, and pages of ids are read by a number that rises, so that commits
// get in between: nothing here takes longer because there are many runs.
const (
	getHead     = index.RunColumns + `WHERE id = ?`
	getIDs      = `SELECT id FROM runs WHERE num IN (SELECT value FROM json_each(?)) ORDER BY num`
	getLeftover = `SELECT id, num, 0 FROM runs WHERE status >= 4 AND seq > filed AND ? <= 0 AND num > ? AND num IN (SELECT key >> 32 FROM log) ORDER BY num LIMIT ?`
	getQuiet    = `SELECT id, num, at, seq FROM runs INDEXED BY runs_status WHERE status = 1 AND (at <= ? OR at > ?) AND num > ? ORDER BY num LIMIT ?`
)

// decodeRow completes a row that was read, and returns a *CorruptError if it is damaged,
// a *SealedError if it cannot be opened.
// The row may be large, so that nobody should wait for its decoding: it is called
// without the lock.
func (d *Dir) decodeRow(r *index.Row) error {
	err := r.OpenTexts(d.sealer)
	if err != nil && !r.IsDamaged() {
		return err
	}
	if err == nil {
		err = r.DecodeTexts()
	}
	if err != nil || r.IsDamaged() {
		return &CorruptError{Run: r.Run, File: d.pathOf(indexFile), What: "its row in the index is damaged", Err: err}
	}
	return nil
}

// readRow reads the row of one run.
func (d *Dir) readRow(id workflow.RunID) (index.Row, error) {
	return d.readRowUntil(context.Background(), id)
}

// readRowUntil is readRow until ctx ends. A damaged row comes with its error as far as it could be read: see Inspection.Row.
func (d *Dir) readRowUntil(ctx context.Context, id workflow.RunID) (index.Row, error) {
	var out index.Row
	err := d.readIndexUntil(ctx, func(db *sqlite.Conn) (err error) {
		out, err = d.queryRow(db, id)
		return err
	})
	if err == nil {
		err = d.decodeRow(&out)
	}
	return out, err
}

// hasRunID looks for a run, and for nothing of it: to read a row costs twice as much, also where it is missing.
const hasRunID = `SELECT 1 FROM runs WHERE id = ?`

// HasRun reports whether there is a run. Like Load, it waits for flushes that were asked for.
func (d *Dir) HasRun(id workflow.RunID) (found bool, err error) {
	d.flusher.waitForRun(id, false)
	err = d.readIndex(func(db *sqlite.Conn) (err error) {
		found, err = db.One(hasRunID, func(*sqlite.Row) error { return nil }, string(id))
		return err
	})
	if err != nil {
		err = explainLoad("look for a run", err)
	}
	return found, err
}

// queryRow reads a row, which is still to be decoded.
func (d *Dir) queryRow(db *sqlite.Conn, id workflow.RunID) (out index.Row, err error) {
	found, err := db.One(getHead, func(r *sqlite.Row) error {
		r = d.patchRow(r)
		out = index.ScanRow(r)
		return r.Err()
	}, string(id))
	if err == nil && !found {
		err = fmt.Errorf("%w: %q", ErrRunNotFound, string(id))
	}
	return out, err
}

// Head returns the row of one run. It fails with ErrRunNotFound.
func (d *Dir) Head(id workflow.RunID) (Head, error) { return d.HeadUntil(context.Background(), id) }

// HeadUntil is Head until ctx is done, with whose error it fails then.
func (d *Dir) HeadUntil(ctx context.Context, id workflow.RunID) (Head, error) {
	r, err := d.readRowUntil(ctx, id)
	return r.Head, err
}

// FileSize returns how many bytes the file of a run has, 0 if there is no file yet. It fails as
// HeadUntil does.
func (d *Dir) FileSize(ctx context.Context, id workflow.RunID) (int64, error) {
	r, err := d.readRowUntil(ctx, id)
	return r.FileSize, err
}

// Unfinished returns the runs that have not ended, oldest first.
//
// The engine wakes them when it is opened; by then what is committed is all that is known of
// them.
func (d *Dir) Unfinished() ([]workflow.RunID, error) {
	l := runList{d: d, filter: RunFilter{Status: []workflow.RunStatus{
		workflow.RunCreated, workflow.RunRunning, workflow.RunPaused, workflow.RunSuspended,
	}}}
	var out []workflow.RunID
	for n := listRows; n == listRows; {
		err := d.readRuns(context.Background(), func(db *sqlite.Conn) error {
			page, err := l.candidates(db)
			if n = len(page); err != nil || n == 0 {
				return err
			}
			l.last = page[n-1]
			return db.Each(getIDs, func(r *sqlite.Row) error { out = append(out, workflow.RunID(r.Text(0))); return nil }, numberList(page))
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Leftover returns the runs that have ended and are not flushed. The caller loads and
// flushes them.
//
// A crash, or a Close before their flush, has left their records in the log.
func (d *Dir) Leftover() ([]workflow.RunID, error) { return d.queryIDs(getLeftover, 0) }

// A QuietRun is a run that has not ended and has had no commit for a while.
type QuietRun struct {
	Run workflow.RunID
	Seq int64     // of its last record
	At  time.Time // of its last record
}

// Quiet returns the running runs whose last record is not after since, or is
// after until, that is, was made before the clock was set back; oldest run
// first.
//
// From them, whoever looks for stalled runs takes those that wait for nothing.
func (d *Dir) Quiet(since, until time.Time) ([]QuietRun, error) {
	var out []QuietRun
	for num, n := int64(0), idPage; n == idPage; {
		n = 0
		err := d.readRuns(context.Background(), func(db *sqlite.Conn) error {
			return db.Each(getQuiet, func(r *sqlite.Row) error {
				out = append(out, QuietRun{Run: workflow.RunID(r.Text(0)), Seq: r.Int64(3), At: column.TimeAt(r, 2)})
				num = r.Int64(1)
				n++
				return nil
			}, since.UnixMilli(), until.UnixMilli(), num, int64(idPage))
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// idPage is how many ids are read at a time: commits go on in between.
const idPage = 512

// queryIDs returns all ids that a query finds in pages. It takes the order and the
// number of the last row before the page, rest, and the size of the page.
//
// order is the column by which the query pages, besides the number: of runs with one alarm, say,
// the number goes on where the page ended.
func (d *Dir) queryIDs(query string, order int64, rest ...driver.Value) ([]workflow.RunID, error) {
	var out []workflow.RunID
	for num, n := int64(0), idPage; n == idPage; {
		n = 0
		err := d.readRuns(context.Background(), func(db *sqlite.Conn) error {
			return db.Each(query, func(r *sqlite.Row) error {
				out = append(out, workflow.RunID(r.Text(0)))
				num, order = r.Int64(1), r.Int64(2)
				n++
				return nil
			}, append(append([]driver.Value{order, num}, rest...), int64(idPage))...)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

const (
	putLabel    = `INSERT INTO labels (num, key, value, crc) VALUES (?, ?, ?, ?)`
	someOfLabel = `SELECT 1 FROM labels WHERE key = ?1 AND value = ?2 LIMIT ?3`
	countLabel  = `SELECT count(*) FROM (` + someOfLabel + `)`
)

// inLabel leads to the runs with a label: its queries take the key as well.
var inLabel = runOrder{
	`SELECT num FROM labels WHERE key = ?4 AND value = ?3 AND num > ?1 ORDER BY num LIMIT ?2`,
	`SELECT num FROM labels WHERE key = ?4 AND value = ?3 AND num < ?1 ORDER BY num DESC LIMIT ?2`,
}

// putLabels lists the labels of a new run, by which it is found.
func putLabels(db *sqlite.Conn, num int64, labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if _, err := db.Exec(putLabel, index.RowWithCRC(num, key, labels[key])...); err != nil {
			return err
		}
	}
	return nil
}

// A label of a filter, and how many runs have it, up to maxGathered.
//
// The number is found once, for the list: looked at are the runs that the rarest label leads to.
type label struct {
	key, value string
	runs       int64
}

// chooseLabel finds which label of the filter the fewest runs have.
//
// It stops counting where a label is no help, and more than that need not be told apart.
func (l *runList) chooseLabel(ctx context.Context) error {
	if len(l.filter.Labels) == 0 {
		return nil
	}
	return l.d.readRuns(ctx, func(db *sqlite.Conn) error {
		for _, key := range slices.Sorted(maps.Keys(l.filter.Labels)) {
			v, n := l.filter.Labels[key], int64(0)
			_, err := db.One(countLabel, func(r *sqlite.Row) error { n = r.Int64(0); return nil }, key, v, int64(maxGathered))
			if err != nil {
				return err
			}
			if l.label == nil || n < l.label.runs {
				l.label = &label{key, v, n}
			}
		}
		return nil
	})
}

// labelIsRarer reports whether the label leads to fewer runs than the statuses, the workflow
// and the tenant do. It says the same for all pages.
func (l *runList) labelIsRarer() bool {
	if l.labelled == 0 {
		f, n := &l.filter, l.label.runs
		l.labelled = 1
		if len(f.Status) > 0 && l.d.counts.countOf("", f.Status) < n || f.Workflow != "" && l.d.counts.countOf(f.Workflow, nil) < n || f.Tenant != "" && n == maxGathered {
			l.labelled = -1
		}
	}
	return l.labelled > 0
}

// labelList returns labels as the queries of lists take them: a list of pairs.
func labelList(labels map[string]string) string {
	list := make([][2]string, 0, len(labels))
	for key, v := range labels {
		list = append(list, [2]string{key, v})
	}
	text, _ := json.Marshal(list) //nolint:errchkjson // texts
	return string(text)
}

const (
	getDue       = `SELECT id, num, alarm FROM runs WHERE (alarm, num) > (?, ?) AND alarm <= ? ORDER BY alarm, num LIMIT ?`
	getNextAlarm = `SELECT num, alarm FROM runs WHERE alarm > ? ORDER BY alarm LIMIT ?`

	alarmRows = 64 // the first alarm in them that has not changed counts
)

// A DueAlarm is the alarm of a run.
type DueAlarm struct {
	Run workflow.RunID
	At  time.Time
}

// DueAlarms returns the runs whose alarm is at or before an instant, earliest
// first.
//
// The engine wakes those of them that are not in memory; an actor has a timer of its own.
//
// It asks often, and of alarms alone, which the redo log changes with every task: so nothing is moved for it.
func (d *Dir) DueAlarms(before time.Time) ([]DueAlarm, error) {
	due, err := d.dueAlarmsBehind(before)
	if err != nil {
		return nil, err
	}
	until := before.UnixMilli()
	for last, n := (dueAlarm{at: math.MinInt64}), idPage; n == idPage; {
		n = 0
		err := d.readIndex(func(db *sqlite.Conn) error {
			return db.Each(getDue, func(r *sqlite.Row) error {
				last = dueAlarm{workflow.RunID(r.Text(0)), r.Int64(1), r.Int64(2)}
				if n++; !d.redo.behind[last.num].changesAlarm() {
					due = append(due, last)
				}
				return nil
			}, last.at, last.num, until, int64(idPage))
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(due, func(a, b dueAlarm) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.num, b.num)) })
	out := make([]DueAlarm, len(due))
	for i := range due {
		out[i] = DueAlarm{due[i].run, time.UnixMilli(due[i].at).UTC()}
	}
	return slices.CompactFunc(out, func(a, b DueAlarm) bool { return a.Run == b.Run }), nil
}

// A dueAlarm is the alarm of a run, in milliseconds.
type dueAlarm struct {
	run     workflow.RunID
	num, at int64
}

// dueAlarmsBehind returns the alarms that are due and that pawl.db lacks.
func (d *Dir) dueAlarmsBehind(before time.Time) (due []dueAlarm, err error) {
	err = d.readIndex(func(*sqlite.Conn) error {
		for num, r := range d.redo.behind {
			if at, ok := r.changedAlarm(); ok && at <= before.UnixMilli() {
				due = append(due, dueAlarm{r.run, num, at})
			}
		}
		return nil
	})
	return due, err
}

// NextAlarm returns an instant at or before the earliest alarm of any run that is after an instant; zero without one.
//
// Until then nobody needs to look at the alarms again, unless a commit sets an earlier one. It is earlier than all only
// if so many runs have had earlier ones that nobody looks through them.
func (d *Dir) NextAlarm(after time.Time) (time.Time, error) {
	from := int64(math.MinInt64)
	if !after.IsZero() {
		from = after.UnixMilli()
	}
	var next time.Time
	err := d.readIndex(func(db *sqlite.Conn) error {
		found := int64(math.MaxInt64)
		for _, r := range d.redo.behind {
			if at, ok := r.changedAlarm(); ok && at > from {
				found = min(found, at)
			}
		}
		seen, ended := 0, false
		err := db.Each(getNextAlarm, func(r *sqlite.Row) error {
			if seen++; !ended && (seen == alarmRows || !d.redo.behind[r.Int64(0)].changesAlarm()) {
				found, ended = min(found, r.Int64(1)), true
			}
			return nil
		}, from, int64(alarmRows))
		if found < math.MaxInt64 {
			next = time.UnixMilli(found).UTC()
		}
		return err
	})
	return next, err
}
