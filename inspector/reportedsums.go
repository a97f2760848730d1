package inspector

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/history"
)

// A sumsTable says what the numbers that attempts have reported add up to, such as what calls of models have cost.
type sumsTable struct {
	Rows  []sumsRow // of all nodes together, then by node
	More  int       // rows that are not listed
	Unit  string    // of the parts: "minute", "hour", "day"
	Names []string  // of the numbers, at the head of Parts
	Parts []sumsPart
}

// A sumsRow is one number: "" where nothing was reported in that time.
type sumsRow struct{ Node, Name, Sum, Today, Yesterday, LastWeek string }

// A sumsPart is a minute, an hour or a day in which something was reported, with a cell for each name.
type sumsPart struct {
	At    string
	Cells []string
}

// partForms says how a part of each window of time is called, and written.
var partForms = map[string]struct{ unit, layout string }{
	"hour": {"minute", "15:04 MST"}, "day": {"hour", "Jan 2 15:04 MST"}, "month": {"day", time.DateOnly},
}

// sumsOf returns the table of what was counted, the newest part first; nil if nothing was reported.
func sumsOf(t *history.Timings) *sumsTable {
	form := partForms[t.Within]
	table := &sumsTable{Unit: form.unit, Names: slices.Sorted(maps.Keys(t.Total.Meta))}
	table.addRows("all nodes", &t.Total)
	for i := range t.Rows {
		table.addRows(string(t.Rows[i].Node), &t.Rows[i])
	}
	if len(table.Rows) == 0 {
		return nil
	}
	for _, p := range slices.Backward(t.Points) {
		if len(p.Meta) == 0 {
			continue
		}
		part := sumsPart{At: p.At.Format(form.layout)}
		for _, name := range table.Names {
			part.Cells = append(part.Cells, sumText(p.Meta, name))
		}
		table.Parts = append(table.Parts, part)
	}
	return table
}

// addRows adds the numbers of a row.
func (t *sumsTable) addRows(node string, r *history.Timing) {
	names := map[string]bool{}
	for _, s := range []*history.TimingSum{&r.TimingSum, &r.Today, &r.Yesterday, &r.LastWeek} {
		for name := range s.Meta {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if len(t.Rows) == shownRows {
			t.More++
			continue
		}
		t.Rows = append(t.Rows, sumsRow{
			node, name, sumText(r.Meta, name), sumText(r.Today.Meta, name), sumText(r.Yesterday.Meta, name), sumText(r.LastWeek.Meta, name),
		})
	}
}

// sumText returns the sum of a name; "" if nothing was reported.
func sumText(meta map[string]float64, name string) string {
	if n, ok := meta[name]; ok {
		return numberText(n)
	}
	return ""
}
