package main

import (
	"strings"
	"time"
)

// A metric is one figure of a workload: what a program measures, and what is to be
// reached.
type metric struct {
	workload string // W1 to W12
	what     string
	program  string
	key      string // of the answer's values
	unit     string
	size     func(s sizes) int
	rises    bool // more is better
	// goals are those of each durability on the reference machine, 0 for none, and
	// scale says what they come to on another.
	goals goals
	scale scale
}

type goals struct{ powerLoss, processCrash float64 }

// A scale says how a goal depends on the machine.
type scale int

const (
	byNothing   scale = iota // bytes, ratios
	byProcessor              // with the bare loop that is not synced
	byDisk                   // with the bare loop of the same durability
	byStart                  // a time: so many commits of the same durability, and 0.3 ms each, scaled by processor
)

// reference is what the bare loop did, in commits a second, on the machine that the
// goals are given for: two cores of an Intel Xeon at 2.5 GHz, on which fdatasync of
// 4 KB took 0.05 ms.
var reference = bareRates{powerLoss: 7_850, processCrash: 39_500}

// bareRates are commits a second of the bare loop.
type bareRates struct{ powerLoss, processCrash float64 }

func (b bareRates) of(powerLoss bool) float64 {
	if powerLoss {
		return b.powerLoss
	}
	return b.processCrash
}

// The programs and workloads with a meaning of their own.
const (
	bareProgram   = "bare"
	buildProgram  = "ended-build"
	endedProgram  = "ended"
	endedWorkload = "ended"
)

// metrics are the rows of the table, in its order.
var metrics = []metric{
	{"W1", "chain, one step after the other", "chain", "steps/s", "steps/s", sizeOfChain, true, goals{6_000, 12_000}, byDisk},
	{"W1", "its limit at PowerLoss: 500 bytes into zeros, synced", "syncs", "syncs/s", "syncs/s", sizeOfOne, true, goals{}, byNothing},
	{"W2", "fan-out, joined, results collected", "fanout", "branches/s", "branches/s", sizeOfFanout, true, goals{30_000, 35_000}, byProcessor},
	{"W2", "a large fan-out", "large-fanout", "branches/s", "branches/s", sizeOfLargeFanout, true, goals{}, byNothing},
	{"W2", "its time per branch, to that of the other", "large-fanout", "growth", "times", sizeOfLargeFanout, false, goals{1.3, 1.3}, byNothing},
	{"W3", "runs of 5 tasks, 64 at a time, every one filed", "runs", "runs/s", "runs/s", sizeOfRuns, true, goals{2_000, 2_000}, byProcessor},
	{"W4", "Start to its first task, p50", "starts", "p50", "ms", sizeOfStarts, false, goals{1, 1}, byStart},
	{"W4", "Start to its first task, p99", "starts", "p99", "ms", sizeOfStarts, false, goals{3, 3}, byStart},
	{"W5", "a waiting run, awake", "sleepers", "KiB awake", "KiB", sizeOfSleepers, false, goals{10, 10}, byNothing},
	{"W5", "goroutines of a waiting run, awake", "sleepers", "goroutines", "", sizeOfSleepers, false, goals{1.02, 1.02}, byNothing},
	{"W5", "a waiting run after 1.5 times IdleAfter", "sleepers", "KiB asleep", "KiB", sizeOfSleepers, false, goals{0.9, 0.9}, byNothing},
	{"W6", "killed with waiting runs, all done again", "killed", "s", "s", sizeOfKilled, false, goals{0.4, 0.4}, byProcessor},
	{"W7", "waking a sleeper, CPU", "sleepers", "ms CPU", "ms", sizeOfSleepers, false, goals{0.8, 0.8}, byProcessor},
	{"W7", "100,000 sleepers signalled, at this pace", "sleepers", "s", "s", sizeOfSleepers, false, goals{60, 60}, byProcessor},
	{"W8", "list 10 failed of the ended runs", endedProgram, "list", "ms", sizeOfEnded, false, goals{5, 5}, byProcessor},
	{"W8", "Start to its first task while another lists, p50", endedProgram, "start beside", "ms", sizeOfEnded, false, goals{1, 1}, byProcessor},
	{"W9", "Open after SIGKILL", endedProgram, "open killed", "s", sizeOfEnded, false, goals{0.3, 0.3}, byProcessor},
	{"W10", "64 chains side by side", "side-by-side", "steps/s", "steps/s", sizeOfSideBySide, true, goals{20_000, 20_000}, byProcessor},
	{"W10", "from step to step of one chain, p99", "side-by-side", "p99", "ms", sizeOfSideBySide, false, goals{8, 8}, byProcessor},
	{"W11", "written per step of a chain", "chain", "KB/step", "KB", sizeOfChain, false, goals{5, 5}, byNothing},
	{"W11", "disk per ended run of one task", buildProgram, "KB/run", "KB", sizeOfEnded, false, goals{8, 8}, byNothing},
	{"W12", "runs of a task, 64 at a time, those purged that ended a minute ago", "retention", "runs/s", "runs/s", sizeOfWindow, true, goals{}, byNothing},
	{"W12", "that, to the same without purging", "retention", "to alone", "times", sizeOfWindow, true, goals{powerLoss: 0.9}, byNothing},
	{"W12", "purged meanwhile", "retention", "purges/s", "runs/s", sizeOfWindow, true, goals{}, byNothing},
	{"W12", "files at the end, to runs of the last minute", "retention", "files", "", sizeOfWindow, false, goals{powerLoss: 1.25}, byNothing},
	{"W12", "purged with nobody beside", "retention", "purges/s alone", "runs/s", sizeOfWindow, true, goals{}, byNothing},
	{"W12", "CPU of that, to CPU of running them", "retention", "CPU", "", sizeOfWindow, false, goals{powerLoss: 1}, byNothing},

	{endedWorkload, "built, 64 at a time", buildProgram, "runs/s", "runs/s", sizeOfEnded, true, goals{}, byNothing},
	{endedWorkload, "disk per run", buildProgram, "KB/run", "KB", sizeOfEnded, false, goals{8, 8}, byNothing},
	{endedWorkload, "files and folders per run", buildProgram, "files/run", "", sizeOfEnded, false, goals{}, byNothing},
	{endedWorkload, "Open after SIGKILL", endedProgram, "open killed", "s", sizeOfEnded, false, goals{1, 1}, byProcessor},
	{endedWorkload, "Open after Close", endedProgram, "open closed", "s", sizeOfEnded, false, goals{1, 1}, byProcessor},
	{endedWorkload, "memory after Open", endedProgram, "MiB", "MiB", sizeOfEnded, false, goals{}, byNothing},
	{endedWorkload, "list 10 failed", endedProgram, "list", "ms", sizeOfEnded, false, goals{5, 5}, byProcessor},
	{endedWorkload, "Start to its first task, p50", endedProgram, "start p50", "ms", sizeOfEnded, false, goals{1, 1}, byProcessor},
	{endedWorkload, "Start to its first task, p99", endedProgram, "start p99", "ms", sizeOfEnded, false, goals{}, byNothing},
	{endedWorkload, "the same while another lists, p50", endedProgram, "start beside", "ms", sizeOfEnded, false, goals{1, 1}, byProcessor},
}

func sizeOfOne(sizes) int           { return 1 }
func sizeOfChain(s sizes) int       { return s.Chain * s.ChainCount }
func sizeOfFanout(s sizes) int      { return s.Fanout }
func sizeOfLargeFanout(s sizes) int { return s.LargeFanout }
func sizeOfRuns(s sizes) int        { return s.Runs }
func sizeOfStarts(s sizes) int      { return s.Starts }
func sizeOfSleepers(s sizes) int    { return s.Sleepers }
func sizeOfKilled(s sizes) int      { return s.Killed }
func sizeOfEnded(s sizes) int       { return s.Ended }
func sizeOfWindow(s sizes) int      { return int(s.Window / time.Second) }
func sizeOfSideBySide(s sizes) int  { return s.SideBySide * s.SideLength }

// isWorkload reports whether a figure of the table has this name.
func isWorkload(name string) bool {
	for _, m := range metrics {
		if m.workload == name {
			return true
		}
	}
	return false
}

// inBothDurabilities are the programs that commits dominate. The others run with
// PowerLoss alone.
var inBothDurabilities = map[string]bool{
	bareProgram: true, "chain": true, "fanout": true, "runs": true, "starts": true, "killed": true, "side-by-side": true,
}

// goalFor returns what is to be reached on a machine with this bare loop; 0 for nothing.
func (m *metric) goalFor(powerLoss bool, bare bareRates) float64 {
	goal := m.goals.processCrash
	if powerLoss {
		goal = m.goals.powerLoss
	}
	if bare.powerLoss == 0 || bare.processCrash == 0 {
		return goal
	}
	faster := bare.processCrash / reference.processCrash
	switch m.scale {
	case byNothing:
		return goal
	case byStart:
		return goal * (1000/bare.of(powerLoss) + 0.3/faster)
	case byDisk:
		faster = bare.of(powerLoss) / reference.of(powerLoss)
	case byProcessor:
	}
	if m.rises {
		return goal * faster
	}
	return goal / faster
}

// bareFor returns what the bare loop does, in the unit of the metric: commits a second
// for a rate, the time of one commit for milliseconds; 0 where there is nothing to compare.
func (m *metric) bareFor(rate float64) float64 {
	switch {
	case rate == 0:
		return 0
	case strings.HasSuffix(m.unit, "/s"):
		return rate
	case m.unit == "ms":
		return 1000 / rate
	default:
		return 0
	}
}

// isSize reports whether the metric counts bytes or things, which do not depend on
// what else the machine does.
func (m *metric) isSize() bool {
	switch m.unit {
	case "KB", "KiB", "MiB", "":
		return true
	default:
		return false
	}
}
