package store

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/shown"
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
	Workflow   string
	Parent     workflow.RunID
	Tenant     string
	ForkedFrom workflow.RunID
	Labels     map[string]string
	Roots      bool
	Prefix     string
	Status     []workflow.RunStatus
	Since      time.Time
	Until      time.Time
	EndedSince time.Time
	EndedUntil time.Time
	Where      string
	Newest     bool
	Sort       string // for package internal/ranking, which orders what a directory lists
	After      workflow.RunID
	Limit      int
	Effort     time.Duration
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

// A list looks at the runs that one index leads to, and at no others. Most indexes have the numbers of
// runs in their order: runs with a status, of a workflow, of a parent, with a label. The runs of other
// indexes are gathered and sorted first, unless they are many.

// maxGathered is how many numbers of runs are gathered for a list.
const maxGathered = 8192

// A runOrder leads to the numbers of runs: to all, or to those that have one value. Its
// queries take the number from which on, how many, the value, and the key of a label.
//
// Each query is answered by its index alone, and stops after a page, however many runs there are.
type runOrder struct{ up, down string }

var (
	inAll      = runOrder{`SELECT num FROM runs WHERE num > ?1 ORDER BY num LIMIT ?2`, `SELECT num FROM runs WHERE num < ?1 ORDER BY num DESC LIMIT ?2`}
	inStatus   = orderBy(`INDEXED BY runs_status WHERE status = ?3`)
	inWorkflow = orderBy(`INDEXED BY runs_workflow WHERE workflow = ?3`)
	inTenant   = orderBy(`INDEXED BY runs_tenant WHERE tenant <> '' AND tenant = ?3`)
	inForked   = orderBy(`INDEXED BY runs_forked WHERE forked_from <> '' AND forked_from = ?3`)
	inParent   = orderBy(`INDEXED BY runs_parent WHERE parent <> '' AND parent = ?3`)
)

func orderBy(which string) runOrder {
	return runOrder{
		`SELECT num FROM runs ` + which + ` AND num > ?1 ORDER BY num LIMIT ?2`,
		`SELECT num FROM runs ` + which + ` AND num < ?1 ORDER BY num DESC LIMIT ?2`,
	}
}

const (
	nextPrefixed = `SELECT num, id FROM runs WHERE id >= ?1 AND id > ?2 ORDER BY id LIMIT ?3`
	nextEnded    = `SELECT num, ended_at FROM runs INDEXED BY runs_ended
		WHERE ended_at IS NOT NULL AND ended_at >= ?1 AND (ended_at, num) > (?1, ?2) AND ended_at < ?3 ORDER BY ended_at, num LIMIT ?4`
)

// candidates returns the numbers of the runs that are to be looked at next.
//
// The order of the cases is that of how few runs they lead to, as a rule: children of one run and
// its forks are few; for a label, a status and a workflow the counts decide. Each of several
// statuses has a page of its own; merged, their first runs are the next ones of the list.
func (l *runList) candidates(db *sqlite.Conn) (page []int64, err error) {
	f := &l.filter
	switch {
	case l.gathered:
		return l.runs[:min(len(l.runs), listRows)], nil
	case f.Parent != "":
		return l.readOrder(db, inParent, nil, string(f.Parent))
	case f.ForkedFrom != "":
		return l.readOrder(db, inForked, nil, string(f.ForkedFrom))
	case l.label != nil && l.labelIsRarer():
		return l.readOrder(db, inLabel, nil, l.label.value, l.label.key)
	case f.Tenant != "":
		return l.readOrder(db, inTenant, nil, f.Tenant)
	case len(f.Status) > 0 && (f.Workflow == "" || l.statusIsRarer()):
		for _, s := range f.Status {
			if page, err = l.readOrder(db, inStatus, page, int64(s)); err != nil {
				return nil, err
			}
		}
		slices.Sort(page)
		if page = slices.Compact(page); f.Newest {
			slices.Reverse(page)
		}
		return page[:min(len(page), listRows)], nil
	case f.Workflow != "":
		return l.readOrder(db, inWorkflow, nil, f.Workflow)
	}
	return l.readOrder(db, inAll, nil)
}

// statusIsRarer reports whether the index over statuses leads to fewer runs than that over
// workflows. It says the same for all pages.
func (l *runList) statusIsRarer() bool {
	if l.rarer == 0 {
		f := &l.filter
		if l.rarer = -1; l.d.counts.countOf("", f.Status) <= l.d.counts.countOf(f.Workflow, nil) {
			l.rarer = 1
		}
	}
	return l.rarer > 0
}

// readOrder appends the next numbers to a page.
func (l *runList) readOrder(db *sqlite.Conn, order runOrder, page []int64, values ...driver.Value) ([]int64, error) {
	query, from := order.up, l.last
	if l.filter.Newest {
		query = order.down
		if from == 0 {
			from = math.MaxInt64
		}
	}
	args := append([]driver.Value{from, int64(listRows)}, values...)
	err := db.Each(query, func(r *sqlite.Row) error { page = append(page, r.Int64(0)); return nil }, args...)
	return page, err
}

// gatherRuns finds the numbers of the runs that only an index of another order leads to:
// those with a prefix, and those that ended in a span of time.
//
// It gives up, and leaves it to another order, when there are more than can be sorted in memory
// at little cost.
func (l *runList) gatherRuns(ctx context.Context) error {
	f := &l.filter
	var read func(db *sqlite.Conn) (n int, err error)
	switch {
	case l.asksIncidents():
		read = l.runsWithIncident
	case f.Parent != "", f.ForkedFrom != "", l.label != nil && l.label.runs < listRows:
		return nil
	case f.Prefix != "":
		read = l.prefixedRuns()
	case !f.EndedSince.IsZero():
		read = l.endedRuns()
	default:
		return nil
	}
	for n := listRows; n == listRows; {
		err := l.d.readRuns(ctx, func(db *sqlite.Conn) (err error) { n, err = read(db); return err })
		if err != nil {
			return err
		}
		if len(l.runs) > maxGathered {
			l.runs = nil // another order leads to most of them as well
			return nil
		}
	}
	l.gathered = true
	slices.Sort(l.runs)
	if f.Newest {
		slices.Reverse(l.runs)
	}
	return nil
}

// asksIncidents reports whether the list is of runs that go on and have an incident.
//
// The code of a join that is not met is that of an incident as long as the run goes on.
func (l *runList) asksIncidents() bool {
	return l.where != nil && l.where.Bounds.Code == workflow.CodeJoinUnmet && len(l.filter.Status) > 0 &&
		!slices.ContainsFunc(l.filter.Status, func(s workflow.RunStatus) bool { return s != workflow.RunRunning && s != workflow.RunPaused })
}

// runsWithIncident reads the numbers of all runs that have one.
//
// It is called with the lock of the index, which guards them; nothing is read.
func (l *runList) runsWithIncident(*sqlite.Conn) (int, error) {
	l.runs = slices.Collect(maps.Keys(l.d.counts.incidents))
	return 0, nil
}

// prefixedRuns returns a reader of the next numbers of runs whose id has the prefix.
func (l *runList) prefixedRuns() func(db *sqlite.Conn) (n int, err error) {
	prefix, last := l.filter.Prefix, ""
	return func(db *sqlite.Conn) (n int, err error) {
		err = db.Each(nextPrefixed, func(r *sqlite.Row) error {
			if last = r.Text(1); strings.HasPrefix(last, prefix) {
				n++
				l.runs = append(l.runs, r.Int64(0))
			}
			return nil
		}, prefix, last, int64(listRows))
		return n, err
	}
}

// endedRuns returns a reader of the next numbers of runs that ended in the span.
func (l *runList) endedRuns() func(db *sqlite.Conn) (n int, err error) {
	at, until, last := boundMillis(l.filter.EndedSince), boundMillis(l.filter.EndedUntil), int64(0)
	if until == nil {
		until = int64(math.MaxInt64)
	}
	return func(db *sqlite.Conn) (n int, err error) {
		err = db.Each(nextEnded, func(r *sqlite.Row) error {
			n++
			last, at = r.Int64(0), r.Int64(1)
			l.runs = append(l.runs, last)
			return nil
		}, at, last, until, int64(listRows))
		return n, err
	}
}

// A WhereError says why a condition on runs cannot be compiled, or evaluated for a run.
type WhereError = filter.Error

// FilterRun returns a row of the index as conditions on runs see it.
//
// It is the only way in which a condition sees a run, so that it means the same in all lists.
func FilterRun(h *Head) filter.Run {
	if h == nil {
		return filter.Run{}
	}
	r := filter.Run{
		ID: h.Run, Workflow: h.Workflow, Version: h.Version, Status: h.Status, Labels: h.Labels, StartedAt: h.StartedAt, EndedAt: h.EndedAt,
		Parent: h.Parent, ForkedFrom: h.ForkedFrom.Run, Tenant: h.Tenant, Seq: h.Seq,
	}
	if h.Failure != nil {
		r.Code = h.Failure.Code
	}
	return r
}

// compileWhere compiles the condition of a filter, and narrows the filter to the runs for which
// an index tells that it can be true.
//
// For example, status == "failed" && workflow == "order" && code != "timeout" narrows the list to
// the failed runs of that workflow, and is evaluated for each of them. A condition that can be
// true of no run ends the list at once.
func (l *runList) compileWhere(context.Context) (err error) {
	if l.filter.Where == "" {
		return nil
	}
	if l.where, err = filter.Parse(l.filter.Where); err != nil {
		return err
	}
	f, b, none := &l.filter, &l.where.Bounds, l.where.None
	filter.Narrow(&f.Workflow, b.Workflow, &none)
	filter.Narrow(&f.Tenant, b.Tenant, &none)
	filter.Narrow(&f.Parent, b.Parent, &none)
	f.Status, none = filter.IntersectStatus(f.Status, b.Status, none)
	f.Roots = f.Roots || b.Roots
	if id := string(b.ID); id != "" {
		none = none || !strings.HasPrefix(id, f.Prefix)
		f.Prefix = id
	}
	f.Labels = maps.Clone(f.Labels)
	for key, v := range b.Labels {
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		have, ok := f.Labels[key]
		none = none || ok && have != v
		f.Labels[key] = v
	}
	l.done = none
	return nil
}

// takeRow decodes a row of a page, and reports whether the condition of the filter holds for
// it. The large parts of a row are decoded only if it does.
//
// A row that is damaged is not passed over: its error is yielded with its run.
func (l *runList) takeRow(r *index.Row) (bool, error) {
	if l.where == nil || r.IsDamaged() {
		return true, l.d.decodeRow(r)
	}
	err := r.DecodeLabels()
	all := err != nil || l.where.ReadsCode()
	if all {
		err = l.d.decodeRow(r)
	}
	if err != nil {
		return false, err
	}
	if fits, err := l.d.evaluate(l.where, &r.Head, &l.effort); !fits || err != nil || all {
		return fits && err == nil, err // what is decoded already would be lost
	}
	return true, l.d.decodeRow(r)
}

// beginList finds out which rows are to be looked at.
func (l *runList) beginList(ctx context.Context) error {
	for _, step := range []func(context.Context) error{l.compileWhere, l.chooseLabel, l.gatherRuns, l.passOver} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// passOver passes over the runs up to the one after which the list begins.
func (l *runList) passOver(ctx context.Context) error {
	if l.filter.After == "" {
		return nil
	}
	return l.beginAfter(ctx, l.filter.After)
}

// listWhere yields the items of a list whose runs meet a condition; "" is any. The items of one run stand together, so that each run
// is looked at once. The error of a condition that cannot be compiled comes first.
//
// The condition is of the run, and what is listed is of its tokens: all of those, or none, are
// yielded.
//
// A list that has come to the effort that it may take ends with an *EffortError.
func listWhere[T any](ctx context.Context, d *Dir, list iter.Seq2[T, error], c listCondition, placeOf func(*T) (workflow.RunID, workflow.TokenID)) iter.Seq2[T, error] {
	if c.where == "" {
		return list
	}
	return func(yield func(T, error) bool) {
		var none T
		w, err := filter.Parse(c.where)
		if err != nil {
			yield(none, err)
			return
		}
		var run workflow.RunID
		fits, spent := false, effort{most: c.effort}
		for x, err := range list {
			id, token := placeOf(&x)
			if err == nil && id != run {
				run = id
				fits, err = d.fitsWhere(ctx, id, w, &spent)
			}
			if (err != nil || fits) && (!yield(x, err) || err != nil) {
				return
			}
			spent.spend(lookUnits)
			if err := spent.stopAt(id, token); err != nil {
				yield(none, err)
				return
			}
		}
	}
}

// fitsWhere reports whether a condition holds for a run that is there.
func (d *Dir) fitsWhere(ctx context.Context, id workflow.RunID, w *filter.Where, spent *effort) (bool, error) {
	h, err := d.HeadUntil(ctx, id)
	if errors.Is(err, ErrRunNotFound) { // it was purged meanwhile
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return d.evaluate(w, &h, spent)
}

// A listCondition is the condition on runs of a list of what waits in them, and the effort that the list may take.
type listCondition struct {
	where  string
	effort time.Duration
}

// evaluate reports whether a condition holds for a run, and adds to spent what that came to.
func (d *Dir) evaluate(w *filter.Where, h *Head, spent *effort) (bool, error) {
	seen := FilterRun(h)
	fits, err := d.FitsRun(w, &seen)
	spent.spend(seen.Cost)
	return fits, err
}

// FitsRun reports whether the condition of a list or a watch holds for a run.
//
// However many lists and watches there are, one condition is evaluated at a time, for at most some 1 ms, and then others have their
// turn: so the conditions of any number of callers leave the other processors to the runs.
func (d *Dir) FitsRun(w *filter.Where, r *filter.Run) (bool, error) {
	d.evaluating.Lock()
	fits, err := w.Fits(r)
	d.evaluating.Unlock()
	runtime.Gosched()
	return fits, err
}

// Units of cost, in which the effort of a list is counted: what evaluating a condition comes to for the same run is the same
// each time, so lists end at the same run whatever else the machine does.
const (
	unitTime  = 100 * time.Nanosecond // of a processor, at most
	lookUnits = 20                    // for a run or a token that a list looks at
)

// An effort is what a list has come to so far. With most 0 it has no bound.
type effort struct {
	most  time.Duration
	units int
}

func (e *effort) spend(units int) { e.units += units }

// stopAt returns the error with which the list ends if it has come to its bound with this run.
func (e *effort) stopAt(run workflow.RunID, token workflow.TokenID) error {
	if e.most <= 0 || time.Duration(e.units)*unitTime < e.most {
		return nil
	}
	return &EffortError{Most: e.most, Run: run, Token: token}
}

// An EffortError ends a list that has come to the Effort of its filter: there may be more. A list with the same filter goes on behind
// the run and the token, as its After, also if none of them is in the list.
type EffortError struct {
	Most  time.Duration
	Run   workflow.RunID   // the last one that was looked at
	Token workflow.TokenID // likewise, of a list of tokens
}

// Error says how far the list came.
func (e *EffortError) Error() string {
	return fmt.Sprintf("the list has taken %v of a processor, as much as it may: it goes on after run %q", e.Most, string(e.Run))
}

// As gives errors.As this error as the type with the same fields that package pawl shows.
func (e *EffortError) As(target any) bool { return shown.As(e, target) }
