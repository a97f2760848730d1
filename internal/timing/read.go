package timing

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/workflow"
)

// The values of a history.TimingFilter.
var (
	ways    = []string{"node", "workflow", "task"}
	windows = []string{"hour", "day", "month"}
)

// CheckFilter returns a filter with what stands for ""; what is wrong with it is an error.
func CheckFilter(f history.TimingFilter) (history.TimingFilter, error) {
	f.By, f.Within = cmp.Or(f.By, "node"), cmp.Or(f.Within, "day")
	if !slices.Contains(ways, f.By) {
		return f, fmt.Errorf("timings by %.40q: there are those by node, workflow and task", f.By)
	}
	if !slices.Contains(windows, f.Within) {
		return f, fmt.Errorf("timings within %.40q: there are those within the last hour, day and month", f.Within)
	}
	return f, nil
}

// A stretch is a part of a ring, from one number until another.
type stretch struct {
	of          span
	from, until int64
}

// stretchBefore returns the stretch of so many spans up to an instant, but for so many last ones.
func stretchBefore(now time.Time, of span, spans, but int64) stretch {
	until := now.Unix()/spanOf[of].seconds + 1 - but
	return stretch{of, until - spans, until}
}

// stretchOf returns the window of a filter.
func stretchOf(within string, now time.Time) stretch {
	switch within {
	case "hour":
		return stretchBefore(now, minutes, spanOf[minutes].kept, 0)
	case "month":
		return stretchBefore(now, days, spanOf[days].kept, 0)
	}
	return stretchBefore(now, hours, 24, 0)
}

// The sums of a row.
const (
	asked = iota
	today
	yesterday
	lastWeek
	sumsOfRow
)

// A reading makes rows of series.
type reading struct {
	now       time.Time
	since     time.Time
	stretches [sumsOfRow]stretch
	row       [sumsOfRow]sum // of the row that is made
	total     [sumsOfRow]sum
	points    []sum // without their queue
}

// A copied is a series as it was under the lock.
type copied struct {
	series
	open closed // the minute that is not over
}

type loadKey struct{}

// WithLoadOnly returns a context in which Engine.Timings tells only what there is to do now.
func WithLoadOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, loadKey{}, true)
}

// Read returns what was counted until an instant; the filter is one that CheckFilter has returned. It holds the lock only while it copies
// the series of the filter, 2.5 KB each; what they have of the past is shared. It reads nothing for WithLoadOnly.
func (c *Counters) Read(ctx context.Context, f history.TimingFilter, now time.Time) history.Timings {
	if ctx.Value(loadKey{}) != nil {
		return history.Timings{}
	}
	of, since := c.copySeries(f.Workflow)
	r := reading{now: now, since: since}
	r.stretches = [sumsOfRow]stretch{stretchOf(f.Within, now), stretchBefore(now, hours, 24, 0), stretchBefore(now, hours, 24, 24), stretchBefore(now, days, 7, 1)}
	window := r.stretches[asked]
	r.points = make([]sum, window.until-window.from)
	month := stretchBefore(now, days, spanOf[days].kept, 0)
	rows, runs := map[Name][]*copied{}, map[Name][]*copied{}
	for i := range of {
		s, n := &of[i], int64(0)
		s.open = s.now.closeAt(s.minute)
		for _, c := range s.allIn(month) {
			n += c.n
		}
		switch row := rowName(s.name, f.By); {
		case n == 0:
		case s.name.ofRuns():
			runs[s.name] = append(runs[s.name], s)
		default:
			rows[row] = append(rows[row], s)
		}
	}
	return r.makeTimings(f, rows, runs)
}

// copySeries copies the series of a workflow, "" for all, and when counting began.
func (c *Counters) copySeries(workflow string) (of []copied, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for name := range c.of {
		if workflow == "" || name.Workflow == workflow {
			n++
		}
	}
	of = make([]copied, 0, n)
	for name, s := range c.of {
		if workflow == "" || name.Workflow == workflow {
			of = append(of, copied{series: *s})
		}
	}
	return of, c.since
}

// allIn yields what a series has in a stretch, with the numbers.
func (s *copied) allIn(w stretch) iter.Seq2[int64, *closed] {
	return func(yield func(int64, *closed) bool) {
		ring := s.rings[w.of]
		for i := range ring {
			if at := ring[i].at; w.from <= at && at < w.until && !yield(at, &ring[i]) {
				return
			}
		}
		if at := s.numberOf(w.of); w.from <= at && at < w.until {
			yield(at, &s.open)
		}
	}
}

// rowName returns the row in which a series counts.
func rowName(n Name, by string) Name {
	switch by {
	case "workflow":
		return Name{Workflow: n.Workflow}
	case "task":
		return Name{Type: n.Type}
	}
	return n
}

// readRow makes a row of its series.
func (r *reading) readRow(n Name, of []*copied) history.Timing {
	r.row = [sumsOfRow]sum{}
	for _, s := range of {
		for i, w := range r.stretches {
			for _, c := range s.allIn(w) {
				r.row[i].addClosed(c, amount.MaxNames)
			}
		}
	}
	return r.timingOf(n, &r.row)
}

// addRow adds the row that was read last, and its series, to the total and the points.
func (r *reading) addRow(of []*copied) {
	for i := range r.row {
		r.total[i].addSum(&r.row[i])
	}
	window := r.stretches[asked]
	for _, s := range of {
		for at, c := range s.allIn(window) {
			p := &r.points[at-window.from]
			p.n, p.failed = p.n+c.n, p.failed+c.failed
			p.work.addCells(c.work)
			p.addReported(c.reported, amount.MaxNames)
		}
	}
}

// sortedNames returns the names of rows in their order.
func sortedNames[T any](rows map[Name]T) []Name {
	return slices.SortedFunc(maps.Keys(rows), func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Type, b.Type))
	})
}

// makeTimings returns what was read as callers see it.
func (r *reading) makeTimings(f history.TimingFilter, rows, runs map[Name][]*copied) history.Timings {
	out := history.Timings{At: r.now, Since: r.since, By: f.By, Within: f.Within}
	for _, name := range sortedNames(rows) {
		out.Rows = append(out.Rows, r.readRow(name, rows[name]))
		r.addRow(rows[name])
	}
	for _, name := range sortedNames(runs) {
		out.Runs = append(out.Runs, r.readRow(name, runs[name]))
	}
	out.Total = r.timingOf(Name{}, &r.total)
	if out.Since.IsZero() {
		return out
	}
	window := r.stretches[asked]
	for i := range r.points {
		p := &r.points[i]
		at := time.Unix((window.from+int64(i))*spanOf[window.of].seconds, 0).UTC()
		out.Points = append(out.Points, history.TimingPoint{At: at, Attempts: p.n, Failed: p.failed, Work: p.work.readQuantiles().P95, Meta: p.reported.Floats()})
	}
	return out
}

// timingOf returns one row.
func (r *reading) timingOf(n Name, sums *[sumsOfRow]sum) history.Timing {
	var of [sumsOfRow]history.TimingSum
	for i := range sums {
		of[i] = r.sumOf(&sums[i], r.stretches[i])
	}
	return history.Timing{
		Workflow: n.Workflow, Node: workflow.NodeID(n.Node), Task: n.Type,
		TimingSum: of[asked], Today: of[today], Yesterday: of[yesterday], LastWeek: of[lastWeek],
	}
}

// sumOf returns a sum of a stretch. Its rate is that of the part in which something was counted at all.
func (r *reading) sumOf(s *sum, at stretch) history.TimingSum {
	from, until := time.Unix(at.from*spanOf[at.of].seconds, 0), time.Unix(at.until*spanOf[at.of].seconds, 0)
	if from.Before(r.since) {
		from = r.since
	}
	if until.After(r.now) {
		until = r.now
	}
	return s.makeSum(until.Sub(from))
}

// makeSum returns a sum of so long a time as callers see it.
func (s *sum) makeSum(in time.Duration) history.TimingSum {
	out := history.TimingSum{Attempts: s.n, Failed: s.failed, Queue: s.queue.readQuantiles(), Work: s.work.readQuantiles(), Meta: s.reported.Floats()}
	if s.n > 0 {
		out.Rate = float64(s.n) / max(in, time.Second).Seconds()
	}
	return out
}
