package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// figures are the samples of all workloads and sides.
type figures struct {
	workloads []workload
	sides     []side
	samples   map[figure][]float64
}

// A figure is what was measured of a side.
type figure struct{ workload, side, unit string }

// peer is the side that the others are compared with.
const peer = "DBOS, PostgreSQL"

// units are what may be told of a workload, in the order of the table.
var units = []string{
	unitSteps, unitRuns, "ms, median", "ms, 99th percentile", "bytes in the tables, a step", "bytes of WAL, a step", "round trips, a step",
	"steps, a group", "round trips, a group",
}

// printTable writes the table: medians, ranges, and how many times as good as the peer each is; then the most that each side carries. No line is longer
// than 100 characters.
func (f figures) printTable(to io.Writer) error {
	var text strings.Builder
	line := func(unit, side, value, rest, times string) {
		fmt.Fprintf(&text, "%s\n", strings.TrimRight(fmt.Sprintf("  %-28s%-20s%10s  %-24s%10s", unit, side, value, rest, times), " "))
	}
	for _, w := range f.workloads {
		fmt.Fprintf(&text, "%s: %s\n", w.name, w)
		for _, unit := range units {
			for i, s := range f.withSamples(w.name, unit) {
				v := f.samples[figure{w.name, s, unit}]
				line(onlyFirst(i, unit), s, formatFigure(medianOf(v)), fmt.Sprintf("%s to %s", formatFigure(slices.Min(v)), formatFigure(slices.Max(v))), f.timesText(w.name, unit, s))
			}
		}
	}
	fmt.Fprintln(&text, "What one carries: the most steps/s")
	of, at := f.mostSteps(peer)
	for i, s := range f.sides {
		most, w := f.mostSteps(s.name)
		times := ""
		if at.name != "" {
			times = formatFigure(most/of) + "x"
		}
		line(onlyFirst(i, unitSteps), s.name, formatFigure(most), fmt.Sprintf("at %d callers", w.atOnce), times)
	}
	fmt.Fprintf(&text, "Medians, ranges, and how many times as good as %s.\n", peer)
	_, err := io.WriteString(to, text.String())
	return err
}

// withSamples returns the names of the sides of which something is known.
func (f figures) withSamples(workload, unit string) (names []string) {
	for _, s := range f.sides {
		if len(f.samples[figure{workload, s.name, unit}]) > 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// timesText returns how many times as good as the peer a side is: more of a rate, less of anything else. It is empty where the peer has no such figure.
func (f figures) timesText(workload, unit, side string) string {
	theirs, ours := f.samples[figure{workload, peer, unit}], f.samples[figure{workload, side, unit}]
	if len(theirs) == 0 || medianOf(ours) == 0 || medianOf(theirs) == 0 {
		return ""
	}
	ratio := medianOf(theirs) / medianOf(ours)
	if strings.HasSuffix(unit, "/s") {
		ratio = 1 / ratio
	}
	return formatFigure(ratio) + "x"
}

// mostSteps returns the largest median of steps in a second, and the workload that has it.
func (f figures) mostSteps(side string) (most float64, at workload) {
	for _, w := range f.workloads {
		if v := f.samples[figure{w.name, side, unitSteps}]; len(v) > 0 && medianOf(v) > most {
			most, at = medianOf(v), w
		}
	}
	return most, at
}

// onlyFirst returns the name of a group of lines for its first one.
func onlyFirst(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

// medianOf returns the median of samples, of which there is at least one.
func medianOf(samples []float64) float64 {
	sorted := slices.SortedFunc(slices.Values(samples), cmp.Compare[float64])
	half := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[half-1] + sorted[half]) / 2
	}
	return sorted[half]
}

// formatFigure returns a number with three digits that count, or all that stand before its point.
func formatFigure(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 999.5:
		return fmt.Sprintf("%d,%03d", int(v+0.5)/1000, int(v+0.5)%1000)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
