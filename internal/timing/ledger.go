package timing

import (
	"time"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/workflow"
)

// A Ledger adds up attempts and runs that are over, as journals tell of them, in any order. It has at most as many names as Counters,
// some 2.5 KB each, and knows the runs that it has counted, at some 100 bytes. The zero value is ready, and takes all of them; its methods must not be called from several goroutines at once.
type Ledger struct {
	Workflow string    // takes those of one; "" of all
	From, To time.Time // takes what ended from From on and before To; zero is no bound

	counted     map[countedRun]int // how many ends
	of          map[Name]*sum
	first, last time.Time // when the first ended, and the last
}

// A countedRun is told by its first end too: two engines may have runs of one id.
type countedRun struct {
	run workflow.RunID
	at  time.Time
}

// CountRun adds what has ended in a run, in the order of its journal. A run may come several times, such as from an export and an archive of
// it, and each end counts once.
func (l *Ledger) CountRun(run workflow.RunID, ends []Attempt) {
	if len(ends) == 0 {
		return
	}
	if l.counted == nil {
		l.counted = map[countedRun]int{}
	}
	of := countedRun{run, ends[0].At}
	for _, a := range ends[min(l.counted[of], len(ends)):] {
		l.Count(a)
	}
	l.counted[of] = max(l.counted[of], len(ends))
}

// Count adds an attempt, or a run.
func (l *Ledger) Count(a Attempt) {
	if l.Workflow != "" && a.Of.Workflow != l.Workflow || a.At.Before(l.From) || !l.To.IsZero() && !a.At.Before(l.To) {
		return
	}
	if l.of == nil {
		l.of, l.first, l.last = map[Name]*sum{}, a.At, a.At
	}
	if a.At.Before(l.first) {
		l.first = a.At
	}
	if a.At.After(l.last) {
		l.last = a.At
	}
	s := l.of[a.Of]
	if s == nil {
		s = l.addName(a.Of)
	}
	s.addAttempt(&a)
}

// addName adds the sum of a name, or returns that of the names that have no room.
func (l *Ledger) addName(n Name) *sum {
	if len(l.of) >= MaxSeries {
		n = n.orOther()
	}
	if l.of[n] == nil {
		l.of[n] = &sum{}
	}
	return l.of[n]
}

// MakeTimings returns what was added, by "node", "workflow" or "task". Since and At are the bounds of the ledger, or where it has none when the
// first and the last ended. Within is "", and there are no points, nor days beside it.
func (l *Ledger) MakeTimings(by string) history.Timings {
	out := history.Timings{Since: l.From, At: l.To, By: by}
	if out.Since.IsZero() {
		out.Since = l.first
	}
	if out.At.IsZero() {
		out.At = l.last
	}
	rows, runs, total := map[Name]*sum{}, map[Name]*sum{}, sum{}
	for name, s := range l.of {
		if name.ofRuns() {
			runs[name] = s
			continue
		}
		row := rowName(name, by)
		if rows[row] == nil {
			rows[row] = &sum{}
		}
		rows[row].addSum(s)
		total.addSum(s)
	}
	in := out.At.Sub(out.Since)
	out.Rows, out.Runs, out.Total = makeRows(rows, in), makeRows(runs, in), history.Timing{TimingSum: total.makeSum(in)}
	return out
}

// makeRows returns sums of so long a time as callers see them.
func makeRows(of map[Name]*sum, in time.Duration) (rows []history.Timing) {
	for _, n := range sortedNames(of) {
		rows = append(rows, history.Timing{Workflow: n.Workflow, Node: workflow.NodeID(n.Node), Task: n.Type, TimingSum: of[n].makeSum(in)})
	}
	return rows
}
