package store

import (
	"context"
	"database/sql/driver"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

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
