package timing

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/workflow"
)

// TestLedgerIsWhatCountersSay: attempts and runs of a day, added up in any order, give the rows that counters give.
func TestLedgerIsWhatCountersSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Counters
		var l Ledger
		for range rapid.IntRange(1, 60).Draw(t, "attempts") {
			a := Attempt{
				Of:     rapid.SampledFrom([]Name{{"a", "x", "mail"}, {"a", "y", "pay"}, {"b", "x", "mail"}, {Workflow: "a"}, {Workflow: "b"}}).Draw(t, "of"),
				At:     start.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "age")) * time.Minute),
				Worked: time.Duration(rapid.IntRange(0, 10_000).Draw(t, "worked")) * time.Millisecond,
				Begun:  rapid.Bool().Draw(t, "begun"), Failed: rapid.Bool().Draw(t, "failed"),
			}
			c.Count(a)
			l.Count(a)
		}
		for _, by := range ways {
			counted, added := read(t, &c, history.TimingFilter{By: by}, start), l.MakeTimings(by)
			require.Equal(t, textsOf(counted.Rows), textsOf(added.Rows))
			require.Equal(t, textsOf(counted.Runs), textsOf(added.Runs))
			require.Equal(t, textsOf([]history.Timing{counted.Total}), textsOf([]history.Timing{added.Total}))
		}
	})
}

// TestLedgerCountsARunOnce: a run that comes again adds what it has more, and another one of its id is another run.
func TestLedgerCountsARunOnce(t *testing.T) {
	end := func(second int) Attempt {
		return Attempt{Of: Name{Workflow: "a", Node: "x", Type: "mail"}, At: start.Add(time.Duration(second) * time.Second)}
	}
	var l Ledger
	for _, tt := range []struct {
		run  workflow.RunID
		ends []Attempt
		want int64
	}{
		{"r", []Attempt{end(1), end(2)}, 2}, {"r", []Attempt{end(1), end(2)}, 2}, {"r", []Attempt{end(1), end(2), end(3)}, 3},
		{"r", []Attempt{end(1)}, 3}, {"r", nil, 3}, {"s", []Attempt{end(1)}, 4}, {"r", []Attempt{end(7)}, 5},
	} {
		l.CountRun(tt.run, tt.ends)
		require.EqualValues(t, tt.want, l.MakeTimings("node").Total.Attempts)
	}
}

// textsOf returns what rows say that does not depend on how long they have counted.
func textsOf(rows []history.Timing) (out []string) {
	for i := range rows {
		r := &rows[i]
		out = append(out, fmt.Sprint(r.Workflow, "/", r.Node, "/", r.Task, r.Attempts, r.Failed, r.Queue, r.Work))
	}
	return out
}

// TestLedgerIsBounded: a ledger takes one workflow and one time, from its begin until before its end; runs do not count as attempts; and
// names beyond the first 500 are others, runs apart from nodes.
func TestLedgerIsBounded(t *testing.T) {
	l := Ledger{Workflow: "w", From: start, To: start.Add(10 * time.Second)}
	require.Equal(t, history.Timings{By: "node", Since: l.From, At: l.To}, l.MakeTimings("node"))
	for _, at := range []time.Duration{-1, 0, 9 * time.Second, 10 * time.Second} {
		for _, of := range []Name{{"w", "n", "t"}, {"other", "n", "t"}, {Workflow: "w"}} {
			l.Count(Attempt{Of: of, At: start.Add(at), Begun: true, Worked: time.Minute})
		}
	}
	out := l.MakeTimings("workflow")
	require.Len(t, out.Rows, 1)
	require.Len(t, out.Runs, 1)
	require.Equal(t, int64(2), out.Total.Attempts)
	require.InDelta(t, 0.2, out.Total.Rate, 1e-9)
	require.Equal(t, int64(2), out.Runs[0].Attempts)
	require.Zero(t, out.Runs[0].Queue)
	require.InEpsilon(t, time.Minute, out.Runs[0].Work.P50, 0.06)

	l = Ledger{}
	for i := range 10_000 {
		l.Count(Attempt{Of: Name{"w", fmt.Sprint("n", i), "t"}, At: start})
		l.Count(Attempt{Of: Name{Workflow: fmt.Sprint("w", i)}, At: start})
	}
	require.LessOrEqual(t, len(l.of), MaxSeries+2)
	out = l.MakeTimings("node")
	require.Equal(t, int64(10_000), out.Total.Attempts)
	require.Equal(t, int64(10_000-MaxSeries/2), out.Rows[0].Attempts)
	require.Equal(t, Other, out.Rows[0].Workflow)
	require.Equal(t, int64(10_000-MaxSeries/2), out.Runs[0].Attempts)
	require.Equal(t, Other, out.Runs[0].Workflow)
}
