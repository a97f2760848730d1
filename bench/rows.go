package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// A row is one line of the table, and one JSON object of -json.
type row struct {
	Workload   string  `json:"workload"`
	What       string  `json:"what"`
	Size       int     `json:"size"` // steps, branches, runs
	Durability string  `json:"durability"`
	Value      float64 `json:"value"` // the median
	Unit       string  `json:"unit"`
	Bare       float64 `json:"bare"`  // the bare loop, in the same unit; 0: it has nothing to compare with
	Ratio      float64 `json:"ratio"` // value / bare
	Goal       float64 `json:"goal"`  // of this machine; 0: none
	Met        bool    `json:"met"`   // and not doubtful
	Min        float64 `json:"min"`
	Max        float64 `json:"max"`
	Samples    int     `json:"samples"`
	Disturbed  int     `json:"disturbed"`      // samples among them that others disturbed
	Doubtful   bool    `json:"doubtful"`       // so many that the row says nothing of its goal
	Other      float64 `json:"other,omitzero"` // with -against: the median of the other checkout
	Times      float64 `json:"times,omitzero"` // with -against: how many times as good as that this is
}

// rows returns the figures of all samples.
func (r *runner) rows() []row {
	bare := bareRates{
		powerLoss:    medianOf(r.valuesOf(slot{program: bareProgram, powerLoss: true}, "commits/s")),
		processCrash: medianOf(r.valuesOf(slot{program: bareProgram}, "commits/s")),
	}
	var rows []row
	for i := range metrics {
		m := &metrics[i]
		if !r.wants(m.workload) {
			continue
		}
		for _, powerLoss := range durabilitiesOf(m.program) {
			s := slot{program: m.program, powerLoss: powerLoss}
			if values := r.valuesOf(s, m.key); len(values) > 0 {
				rows = append(rows, r.rowOf(m, s, values, bare))
			}
		}
	}
	return rows
}

func (r *runner) rowOf(m *metric, s slot, values []float64, bare bareRates) row {
	out := row{
		Workload: m.workload, What: m.what, Size: m.size(r.sizes), Durability: durabilityName(s.powerLoss), Unit: m.unit,
		Value: medianOf(values), Min: quantileOf(values, 0), Max: quantileOf(values, 1), Samples: len(values),
		Bare: m.bareFor(bare.of(s.powerLoss)), Goal: m.goalFor(s.powerLoss, bare), Disturbed: r.disturbedOf(s),
	}
	if out.Bare > 0 {
		out.Ratio = out.Value / out.Bare
	}
	out.Doubtful = 2*out.Disturbed >= out.Samples && !m.isSize()
	out.Met = out.Goal > 0 && !out.Doubtful && (out.Value == out.Goal || (out.Value > out.Goal) == m.rises)
	s.other = true
	if out.Other = medianOf(r.valuesOf(s, m.key)); out.Other > 0 && out.Value > 0 {
		out.Times = out.Value / out.Other
		if !m.rises {
			out.Times = 1 / out.Times
		}
	}
	return out
}

func durabilityName(powerLoss bool) string {
	if powerLoss {
		return "PowerLoss"
	}
	return "ProcessCrash"
}

func printJSON(w io.Writer, rows []row) error {
	encoder := json.NewEncoder(w)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func printTable(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\twhat\tsize\tdurability\tvalue\tmin-max\tbare\tratio\tgoal\tmet\tdisturbed\tother\ttimes\n")
	for _, r := range rows {
		met := "no"
		switch {
		case r.Goal == 0:
			met = ""
		case r.Doubtful:
			met = "?"
		case r.Met:
			met = "yes"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s %s\t%s-%s\t%s\t%s\t%s\t%s\t%d of %d\t%s\t%s\n",
			r.Workload, r.What, r.Size, r.Durability, shortNumber(r.Value), r.Unit, shortNumber(r.Min), shortNumber(r.Max),
			figureOrNone(r.Bare), figureOrNone(r.Ratio), figureOrNone(r.Goal), met, r.Disturbed, r.Samples,
			figureOrNone(r.Other), figureOrNone(r.Times))
	}
	return t.Flush()
}

// shortNumber returns x with three digits at least.
func shortNumber(x float64) string {
	if math.Abs(x) >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

func figureOrNone(x float64) string {
	if x == 0 {
		return ""
	}
	return shortNumber(x)
}
