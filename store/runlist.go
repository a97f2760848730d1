package store

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A RunFilter selects runs of the index, and says in which order they are listed and
// how many. The zero value selects all, oldest first.
//
// All conditions must hold. Conditions that an index knows lead to the runs that are looked at; the others are asked of the rows.
//
// After names a run, and its place is found when the list begins. If that run was purged and another
// was started under its id, this is the place of the new one: what was started in between is passed
// over without an error. Where ids come again, begin anew after a purge.
type RunFilter struct {
	Workflow   string               // name of the definition; "" is any
	Parent     workflow.RunID       // whose children; "" is any
	Tenant     string               // on whose behalf; "" is any
	ForkedFrom workflow.RunID       // whose forks; "" is any
	Labels     map[string]string    // all of these; nil is any
	Roots      bool                 // only runs without a parent
	Prefix     string               // of the id
	Status     []workflow.RunStatus // any of these; none is any
	Since      time.Time            // started at this instant or later; zero is no bound
	Until      time.Time            // started before this instant; zero is no bound
	EndedSince time.Time            // ended at this instant or later; zero is no bound
	EndedUntil time.Time            // ended before this instant; zero is no bound
	Where      string               // a condition in CEL on what Runs tells of a run, such as status == "failed"; "" is any
	Newest     bool                 // those that were started last come first
	After      workflow.RunID       // those that come after this run in the order of the list; "" is from the first
	Limit      int                  // at most so many runs; 0 is all
	Effort     time.Duration        // of a processor, about, that looking at runs may take; 0 is no bound. Then the list ends with an *EffortError
}

// statusMask returns the statuses as bits.
//
// For example, running and paused, which are 1 and 2, give 0b110. No status at all gives 0, which
// the query takes for any.
func (f *RunFilter) statusMask() int64 {
	var mask int64
	for _, s := range f.Status {
		mask |= 1 << min(s, 62) // which none has
	}
	return mask
}

// A list holds the lock of the index for a page at a time: for so many runs that it
// looks at, whether or not they fit, and so many bytes of those that fit.
//
// Two bounds are needed: runs that do not fit cost time and no memory, and rows that fit may have
// outputs of many KB each.
const (
	listRows  = 256
	listBytes = 4 << 20
)

// The numbers of runs that may fit, behind the last one that was looked at; and the
// rows of those that do.
const (
	fittingRuns = index.RunColumns + `WHERE num IN (SELECT value FROM json_each(?1))
		AND (?2 = '' OR workflow = ?2) AND (?3 = '' OR parent = ?3) AND (?4 = 0 OR parent = '') AND (?5 = '' OR substr(id, 1, length(?5)) = ?5)
		AND (?6 = 0 OR ?6 >> status & 1) AND (?7 IS NULL OR started_at >= ?7) AND (?8 IS NULL OR started_at < ?8)
		AND (?9 IS NULL OR ended_at >= ?9) AND (?10 IS NULL OR ended_at < ?10) AND (?12 = '' OR tenant = ?12) AND (?13 = '' OR forked_from = ?13)
		AND NOT EXISTS (SELECT 1 FROM json_each(?14) AS w WHERE NOT EXISTS
			(SELECT 1 FROM labels AS l WHERE l.key = w.value ->> 0 AND l.value = w.value ->> 1 AND l.num = runs.num)) ORDER BY `
	fittingUp   = fittingRuns + `num LIMIT ?11`
	fittingDown = fittingRuns + `num DESC LIMIT ?11`
	idOfRun     = `SELECT id FROM runs WHERE num = ?`
)

// AllHeads yields the rows of all runs that fit the filter, in the order of their
// starts, in pages: commits go on in between. If the run that it begins after does not exist, it
// fails with ErrRunNotFound, and with a *WhereError if its condition cannot be compiled, or
// evaluated for a run that is looked at. A row that is damaged is yielded with its run and a *CorruptError, whether or not it fits, and the
// list goes on if the caller does; every other error is the last one.
func (d *Dir) AllHeads(f RunFilter) iter.Seq2[Head, error] {
	return d.HeadsUntil(context.Background(), f)
}

// HeadsUntil is AllHeads until ctx is done, with whose error it fails then, also while no run fits, or a commit waits for a log that does not answer;
// nil is never done.
//
// A list is not of one moment: a run may change between two pages. It yields each run at most
// once, for its number, which the pages go by, does not change. Rows are decoded, and conditions
// evaluated, when the lock is free.
func (d *Dir) HeadsUntil(ctx context.Context, f RunFilter) iter.Seq2[Head, error] {
	if ctx == nil {
		ctx = context.Background()
	}
	return func(yield func(Head, error) bool) {
		l := runList{d: d, filter: f, effort: effort{most: f.Effort}}
		err := l.beginList(ctx)
		for err == nil && !l.done {
			var rows []index.Row
			if err = ctx.Err(); err == nil {
				rows, err = l.nextPage(ctx)
			}
			for i := range rows {
				fits := false
				if err == nil {
					err = ctx.Err()
				}
				if err == nil {
					fits, err = l.takeRow(&rows[i])
				}
				if damage := (*CorruptError)(nil); errors.As(err, &damage) && damage.Run != "" {
					l.listed++ // whether it fits is not known
					if !yield(Head{Run: damage.Run}, err) || l.isFull() {
						return
					}
					fits, err = false, nil
				}
				if err == nil && fits {
					l.listed++
					if !yield(rows[i].Head, nil) || l.isFull() {
						return
					}
				}
				l.effort.spend(lookUnits)
				if err == nil && i < len(rows)-1 {
					err = l.effort.stopAt(rows[i].Run, 0)
				}
			}
			if err == nil && !l.done {
				err = l.effort.stopAt(l.lastID, 0)
			}
		}
		if err != nil {
			yield(Head{}, err)
		}
	}
}

// beginAfter passes over the runs up to one of them.
func (l *runList) beginAfter(ctx context.Context, id workflow.RunID) error {
	row, err := l.d.readRowUntil(ctx, id)
	if err != nil && (!errors.Is(err, ErrCorrupt) || row.Num == 0) { // a damaged row has its place all the same
		return err
	}
	l.last = row.Num
	n := slices.IndexFunc(l.runs, func(num int64) bool { return num > row.Num != l.filter.Newest && num != row.Num })
	if n < 0 {
		n = len(l.runs)
	}
	l.runs = l.runs[n:]
	return nil
}

// A runList is a list on its way.
//
// A list goes by numbers, in one of two ways: by an index that has the runs in that order, page
// by page, with last; or by numbers that were gathered and sorted before, with runs.
type runList struct {
	d        *Dir
	filter   RunFilter
	where    *filter.Where // of the filter; nil without
	label    *label        // of the filter, that the fewest runs have; nil without any
	gathered bool
	runs     []int64        // if gathered: the numbers that are yet to be looked at
	last     int64          // otherwise: the last number that was looked at; 0 before the first
	listed   int            // runs that were yielded
	rarer    int            // 1 if fewer runs have the statuses than the workflow, -1 if not; 0 before that was asked
	labelled int            // 1 if fewer runs have the label than what else has an index, likewise
	lastID   workflow.RunID // of the last one that was looked at; "" if the effort is not bounded
	effort   effort
	done     bool
}

// errPageFull ends a page whose rows are large.
var errPageFull = errors.New("the page is full")

// nextPage returns the rows of the next page, which are still to be decoded.
//
// candidates says which runs are looked at, the query which of them fit. A page ends early if its
// rows are large; the next one then begins behind the last row that was taken, and not behind the
// last candidate.
func (l *runList) nextPage(ctx context.Context) (rows []index.Row, err error) {
	f := &l.filter
	query, limit, roots := fittingUp, listRows, int64(0)
	if f.Roots {
		roots = 1
	}
	if f.Newest {
		query = fittingDown
	}
	if f.Limit > 0 && l.where == nil {
		limit = min(limit, f.Limit-l.listed)
	}
	err = l.d.readRuns(ctx, func(db *sqlite.Conn) error {
		page, err := l.candidates(db)
		if l.done = len(page) < listRows; err != nil || len(page) == 0 {
			return err
		}
		last, size := page[len(page)-1], 0
		err = db.Each(query, func(r *sqlite.Row) error {
			rows = append(rows, index.ScanRow(r))
			w := &rows[len(rows)-1]
			if size += w.TextBytes(); size > listBytes {
				last = w.Num
				return errPageFull
			}
			return nil
		}, numberList(page), f.Workflow, string(f.Parent), roots, f.Prefix, f.statusMask(),
			boundMillis(f.Since), boundMillis(f.Until), boundMillis(f.EndedSince), boundMillis(f.EndedUntil), int64(limit), f.Tenant, string(f.ForkedFrom), labelList(f.Labels))
		if errors.Is(err, errPageFull) {
			l.done, err = false, nil
		}
		l.last, l.runs = last, l.runs[slices.Index(l.runs, last)+1:]
		if l.effort.most > 0 && err == nil {
			l.effort.spend((len(page) - len(rows)) * lookUnits) // the others are paid for one by one
			err = db.Each(idOfRun, func(r *sqlite.Row) error { l.lastID = workflow.RunID(r.Text(0)); return nil }, last)
		}
		return err
	})
	return rows, err
}

// isFull reports whether as many runs are listed as the filter asks for.
func (l *runList) isFull() bool { return l.filter.Limit > 0 && l.listed >= l.filter.Limit }

// boundMillis returns a bound of instants, which are whole milliseconds, as the first that is not
// before it; NULL without one.
func boundMillis(t time.Time) driver.Value {
	if t.IsZero() {
		return nil
	}
	return column.Millis(t.Add(time.Millisecond - time.Nanosecond))
}

// numberList returns numbers as the queries take them that have num IN a list.
func numberList(page []int64) string {
	list, _ := json.Marshal(page) //nolint:errchkjson // numbers
	return string(list)
}
