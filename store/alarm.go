package store

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

const (
	getDue       = `SELECT id, num, alarm FROM runs WHERE (alarm, num) > (?, ?) AND alarm <= ? ORDER BY alarm, num LIMIT ?`
	getNextAlarm = `SELECT num, alarm FROM runs WHERE alarm > ? ORDER BY alarm LIMIT ?`

	alarmRows = 64 // the first alarm in them that has not changed counts
)

// DueAlarms returns the runs whose alarm is at or before an instant, earliest
// first.
//
// The engine wakes those of them that are not in memory; an actor has a timer of its own.
//
// It asks often, and of alarms alone, which the redo log changes with every task: so nothing is moved for it.
func (d *Dir) DueAlarms(before time.Time) ([]workflow.RunID, error) {
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
	out := make([]workflow.RunID, len(due))
	for i := range due {
		out[i] = due[i].run
	}
	return slices.Compact(out), nil
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
