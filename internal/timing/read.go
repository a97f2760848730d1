package timing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/history"
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

// before returns the stretch of so many spans up to an instant, but for so many last ones.
func before(now time.Time, of span, spans, but int64) stretch {
	until := now.Unix()/spanOf[of].seconds + 1 - but
	return stretch{of, until - spans, until}
}

// stretchOf returns the window of a filter.
func stretchOf(within string, now time.Time) stretch {
	switch within {
	case "hour":
		return before(now, minutes, spanOf[minutes].kept, 0)
	case "month":
		return before(now, days, spanOf[days].kept, 0)
	}
	return before(now, hours, 24, 0)
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
	rows      map[Name]*[sumsOfRow]sum
	total     [sumsOfRow]sum
	points    []sum
}

// Read returns what was counted until an instant; the filter is one that CheckFilter has returned.
func (c *Counters) Read(f history.TimingFilter, now time.Time) history.Timings {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := reading{now: now, since: c.since, rows: map[Name]*[sumsOfRow]sum{}}
	r.stretches = [sumsOfRow]stretch{stretchOf(f.Within, now), before(now, hours, 24, 0), before(now, hours, 24, 24), before(now, days, 7, 1)}
	window := r.stretches[asked]
	r.points = make([]sum, window.until-window.from)
	month := before(now, days, spanOf[days].kept, 0)
	for name, s := range c.of {
		var all sum
		if s.addRange(&all, month.of, month.from, month.until); all.n > 0 && (f.Workflow == "" || name.Workflow == f.Workflow) {
			r.addSeries(rowName(name, f.By), s)
		}
	}
	return r.timings(f)
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

// addSeries adds a series to its row.
func (r *reading) addSeries(row Name, s *series) {
	sums := r.rows[row]
	if sums == nil {
		sums = &[sumsOfRow]sum{}
		r.rows[row] = sums
	}
	for i, at := range r.stretches {
		s.addRange(&sums[i], at.of, at.from, at.until)
		s.addRange(&r.total[i], at.of, at.from, at.until)
	}
	window := r.stretches[asked]
	for i := range r.points {
		at := window.from + int64(i)
		s.addRange(&r.points[i], window.of, at, at+1)
	}
}

// timings returns what was read as callers see it.
func (r *reading) timings(f history.TimingFilter) history.Timings {
	out := history.Timings{At: r.now, Since: r.since, By: f.By, Within: f.Within, Total: r.timingOf(Name{}, &r.total)}
	byName := func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Type, b.Type))
	}
	for _, name := range slices.SortedFunc(maps.Keys(r.rows), byName) {
		out.Rows = append(out.Rows, r.timingOf(name, r.rows[name]))
	}
	if out.Since.IsZero() {
		return out
	}
	window := r.stretches[asked]
	for i := range r.points {
		p := &r.points[i]
		at := time.Unix((window.from+int64(i))*spanOf[window.of].seconds, 0).UTC()
		out.Points = append(out.Points, history.TimingPoint{At: at, Attempts: p.n, Failed: p.failed, Work: p.work.quantile(0.95)})
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
	out := history.TimingSum{Attempts: s.n, Failed: s.failed, Queue: quantilesOf(s.queue), Work: quantilesOf(s.work)}
	from, until := time.Unix(at.from*spanOf[at.of].seconds, 0), time.Unix(at.until*spanOf[at.of].seconds, 0)
	if from.Before(r.since) {
		from = r.since
	}
	if until.After(r.now) {
		until = r.now
	}
	if s.n > 0 {
		out.Rate = float64(s.n) / max(until.Sub(from), time.Second).Seconds()
	}
	return out
}

func quantilesOf(h histogram) history.Quantiles {
	return history.Quantiles{P50: h.quantile(0.5), P95: h.quantile(0.95), P99: h.quantile(0.99)}
}
