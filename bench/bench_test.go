package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// The test binary is the command for the orders that a runner of a test sends.
func TestMain(m *testing.M) {
	if text := os.Getenv(orderVariable); text != "" {
		os.Exit(obeyOrder(text))
	}
	if what := os.Getenv(asHandlers); what != "" {
		if err := playHandlers(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(harness.RunInMemory(m))
}

// tinySizes are small. The sleepers take several ticks of the clock by which processor time is
// told, which are 10 ms: a span without one has no figure.
var tinySizes = sizes{
	Bare: 10 * time.Millisecond, Chain: 20, ChainCount: 2, Fanout: 20, LargeFanout: 60, Runs: 10, Starts: 10,
	Sleepers: 60, IdleAfter: 100 * time.Millisecond, Killed: 5, Ended: 30, EndedWait: 3, SideBySide: 4, SideLength: 10, Window: time.Second,
}

func tinyRunner(t *testing.T, s settings) *runner {
	s.dir, s.rounds = t.TempDir(), 1
	r, err := newRunner(t.Context(), s, time.Now())
	require.NoError(t, err)
	r.sizes, r.retakes = tinySizes, 0
	return r
}

// Every workload runs, its results are as they should be, and every figure has its
// rows, with the keys that programs read.
func TestEveryWorkload(t *testing.T) {
	harness.InTurn(t, 4)
	r := tinyRunner(t, settings{cpuProfile: t.TempDir(), memProfile: t.TempDir()})
	require.NoError(t, r.takeSamples(t.Context()))
	seen := map[string]int{}
	rows := r.rows()
	for _, row := range rows {
		seen[row.Workload+row.What]++
		require.Equal(t, 1, row.Samples)
		if !(&metric{unit: row.Unit}).isSize() {
			require.Positive(t, row.Value, row)
		}
	}
	for _, m := range metrics {
		if m.workload != endedWorkload {
			require.Equal(t, len(durabilitiesOf(m.program)), seen[m.workload+m.what], m.what)
		}
	}
	var text bytes.Buffer
	require.NoError(t, printTable(&text, rows))
	require.NoError(t, printJSON(&text, rows[:1]))
	_, line, _ := bytes.Cut(text.Bytes(), []byte("{"))
	var object map[string]any
	require.NoError(t, json.Unmarshal(append([]byte("{"), line...), &object))
	for _, key := range []string{"workload", "durability", "value", "unit", "bare", "ratio", "goal", "met"} {
		require.Contains(t, object, key)
	}
	for _, path := range []string{filepath.Join(r.cpuProfile, "chain-PowerLoss-1.cpu"), filepath.Join(r.memProfile, "chain-PowerLoss-1.mem")} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Positive(t, info.Size(), path)
	}
}

// A directory of ended runs is built once, and not again by the next command.
func TestEndedRuns(t *testing.T) {
	harness.InTurn(t, 4)
	r := tinyRunner(t, settings{runs: tinySizes.Ended})
	require.NoError(t, r.takeSamples(t.Context()))
	require.Len(t, r.rows(), 10)
	r.answers = map[slot][]answer{}
	r.send = func(_ context.Context, _ string, o order) (answer, error) {
		require.NotEqual(t, buildProgram, o.Program)
		return answer{}, nil
	}
	require.NoError(t, r.takeSamples(t.Context()))
	require.Positive(t, r.answers[slot{program: buildProgram, powerLoss: true}][0].Values["runs/s"])
}

// A sample that others disturbed is taken again, until one is not; with -quick only
// as long as there is time.
func TestDisturbedSamples(t *testing.T) {
	r := tinyRunner(t, settings{only: "W3", quick: true})
	r.retakes = 3
	foreign := []float64{0, 0, 0.8, 0, 0.5, 0}
	r.send = func(context.Context, string, order) (answer, error) {
		a := answer{Values: map[string]float64{"runs/s": 1, "commits/s": 1}}
		a.Foreign, foreign = foreign[0], foreign[1:]
		return a, nil
	}
	require.NoError(t, r.takeSamples(t.Context()))
	require.Empty(t, foreign)
	for _, row := range r.rows() {
		require.Zero(t, row.Disturbed)
		require.False(t, row.Doubtful)
	}

	r.answers = map[slot][]answer{}
	r.begin = time.Now().Add(-quickTime)
	foreign = []float64{0, 0, 0.8, 0}
	require.NoError(t, r.takeSamples(t.Context()))
	require.Empty(t, foreign)
	row := r.rows()[0]
	require.Equal(t, 1, row.Disturbed)
	require.True(t, row.Doubtful)
	require.False(t, row.Met)
}

// The samples of another checkout are taken in turns with this one's.
func TestInTurns(t *testing.T) {
	r := tinyRunner(t, settings{only: "W8"})
	r.self, r.otherOne, r.rounds = "this", "other", 2
	var binaries []string
	r.send = func(_ context.Context, binary string, o order) (answer, error) {
		if o.Program != bareProgram {
			binaries = append(binaries, binary)
		}
		return answer{Values: map[string]float64{"list": float64(len(binary)), "commits/s": 1}}, nil
	}
	require.NoError(t, r.takeSamples(t.Context()))
	require.Equal(t, []string{"this", "other", "this", "other", "other", "this"}, binaries) // building first
	row := r.rows()[0]
	require.InDelta(t, 4, row.Value, 0)
	require.InDelta(t, 5, row.Other, 0)
	require.InDelta(t, 1.25, row.Times, 1e-9)
}

// The program of another checkout is compiled from these sources and nothing else.
func TestOverlay(t *testing.T) {
	checkout := t.TempDir()
	old := filepath.Join(checkout, "bench", "old.go")
	require.NoError(t, os.Mkdir(filepath.Dir(old), 0o755))
	require.NoError(t, os.WriteFile(old, []byte("package bench"), 0o644))
	path, err := writeOverlay(checkout, "testdata/2ef9e513.go", t.TempDir())
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var overlay struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(text, &overlay))
	require.Empty(t, overlay.Replace[old])
	require.Contains(t, overlay.Replace, old)
	require.NotContains(t, overlay.Replace, filepath.Join(checkout, "bench", "bench_test.go"))
	source, err := os.ReadFile(overlay.Replace[filepath.Join(checkout, "bench", "main.go")])
	require.NoError(t, err)
	own, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.Equal(t, own, source)
	source, err = os.ReadFile(overlay.Replace[filepath.Join(checkout, "bench", "version.go")])
	require.NoError(t, err)
	own, err = os.ReadFile("testdata/2ef9e513.go")
	require.NoError(t, err)
	require.Equal(t, own, source)
}

// The checks find tasks that were executed twice, not at all or in another order.
func TestChecks(t *testing.T) {
	r := newRecord()
	for _, i := range []int{0, 1} {
		_, err := r.performTask(Task{Run: "chain", Index: i})
		require.NoError(t, err)
		_, err = r.performTask(Task{Run: "fanout", Branch: 1 - i})
		require.NoError(t, err)
	}
	require.NoError(t, r.checkChain("chain", 0, 2))
	require.ErrorContains(t, r.checkChain("chain", 0, 3), "2 tasks were executed, not 3")
	require.ErrorContains(t, r.checkChain("chain", 1, 3), "was of task 0")
	require.NoError(t, r.checkFanout("fanout", []int{0, 1}, 2))
	require.ErrorContains(t, r.checkFanout("fanout", []int{1, 0}, 2), "result 0 is 1")
	require.ErrorContains(t, r.checkFanout("fanout", []int{0}, 2), "1 results")
	_, err := r.performTask(Task{Run: "fanout"})
	require.NoError(t, err)
	require.ErrorContains(t, r.checkFanout("fanout", []int{0, 1}, 2), "branch 0 was executed twice")
}

// A goal is for the machine that it is given for; on one twice as fast it is twice as much.
func TestGoals(t *testing.T) {
	rate := metric{unit: "steps/s", rises: true, goals: goals{6_000, 12_000}, scale: byDisk}
	require.InDelta(t, 6_000, rate.goalFor(true, reference), 1e-9)
	require.InDelta(t, 24_000, rate.goalFor(false, bareRates{7_850, 79_000}), 1e-9)
	latency := metric{unit: "ms", goals: goals{1, 1}, scale: byStart}
	require.InDelta(t, 0.3+1000.0/7_850, latency.goalFor(true, reference), 1e-9)
	duration := metric{unit: "s", goals: goals{0.4, 0.4}, scale: byProcessor}
	require.InDelta(t, 0.2, duration.goalFor(true, bareRates{7_850, 79_000}), 1e-9)
	require.InDelta(t, 3, medianOf([]float64{4, 1, 2, 9}), 1e-9)
	require.InDelta(t, 2, medianOf([]float64{4, 1, 2}), 1e-9)
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-only", "W13"}, {"-rounds", "0"}, {"quick"}, {"-runs", "-1"}, {"-with", "testdata/2ef9e513.go"}} {
		_, err := parseSettings(args)
		require.Error(t, err, args)
	}
	s, err := parseSettings([]string{"-only", "W1,W10", "-quick"})
	require.NoError(t, err)
	require.Equal(t, []string{"W1", "W10"}, s.workloads())
	require.NoError(t, printTable(io.Discard, nil))
}
