package main

import (
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/timing"
)

// TestLoadIsOfAllWorkflows: what there is to do now is not that of the workflow that is asked for, and its head says so.
func TestLoadIsOfAllWorkflows(t *testing.T) {
	timings := history.Timings{Load: []history.TypeLoad{{Task: "mail", Waiting: 3}}}
	for name, head := range map[string]string{"": "NOW ", "order": "NOW, ALL WORKFLOWS "} {
		var out strings.Builder
		(&statsCommand{Workflow: name}).printLoad(&console{Out: &out}, &timings, true)
		require.True(t, strings.HasPrefix(out.String(), head), out.String())
	}
}

// makeTimings gives a directory the timings of nodes of the workflow order, and of another one, until 11:40 on the first day of 2030.
func makeTimings(ts *testscript.TestScript, _ bool, args []string) {
	var c timing.Counters
	reported := map[string]amount.Sums{"charge": amount.FromFloats(map[string]float64{"cost": 0.02}), "load": amount.FromFloats(map[string]float64{"gen_ai.usage.output_tokens": 1200, "cost": 1.5})}
	count := func(of timing.Name, age time.Duration, attempts, failed int, queued, worked time.Duration) {
		for i := range attempts {
			part := time.Duration(i + 1)
			c.Count(timing.Attempt{
				Of: of, At: time.Date(2030, 1, 1, 11, 40, 0, 0, time.UTC).Add(-age), Begun: true, Failed: i < failed,
				Queued: queued * part / time.Duration(attempts), Worked: worked * part / time.Duration(attempts), Reported: reported[of.Node],
			})
		}
	}
	quote, charge := timing.Name{Workflow: "order", Node: "quote", Type: "http"}, timing.Name{Workflow: "order", Node: "charge", Type: "charge"}
	for _, day := range []time.Duration{6, 3, 1, 0} {
		count(quote, day*24*time.Hour+2*time.Hour, 1200, 7, 4*time.Millisecond, 180*time.Millisecond)
		count(charge, day*24*time.Hour+time.Hour, 300, 24, 1300*time.Millisecond, 2*time.Second/(day+1))
		count(timing.Name{Workflow: "nightly import of everything", Node: "load", Type: "load"}, day*24*time.Hour+90*time.Minute, 31, 0, 3*time.Hour, 75*time.Minute)
	}
	for _, day := range []time.Duration{6, 1, 0} {
		count(timing.Name{Workflow: "order"}, day*24*time.Hour+time.Hour, 300, 12, 0, 40*time.Minute/(day+1))
	}
	count(charge, 10*time.Minute, 20, 0, 12*time.Second, 900*time.Microsecond)
	ts.Check(c.KeepFile(ts.MkAbs(args[0])))
}

// TestDamagedRowsAreToldApart: runs whose rows of the index are damaged are in no table and no sum, and a line counts them.
func TestDamagedRowsAreToldApart(t *testing.T) {
	var out strings.Builder
	printDiskUse(&console{Out: &out}, []history.DiskUse{{Part: "runs", Workflow: "order", Age: "hours", Runs: 1, Bytes: 4096}, {Part: "damaged", Runs: 2}, {Part: "index", Bytes: 1024}})
	require.Contains(t, out.String(), "2 more runs: the index is damaged, and does not tell how large they are.")
	require.NotContains(t, out.String(), "damaged ")
	require.Contains(t, out.String(), "order")
}
