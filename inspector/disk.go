package inspector

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/history"
)

// A diskTable says what takes the disk, by workflow. It is measured when somebody asks for it: Measure leads there, "" once it is done.
type diskTable struct {
	Measure string
	Rows    []diskRow // the largest first, and last the sum of all
	More    int       // workflows that are not listed
	Parts   string    // what is not of a workflow
}

// A diskRow is a workflow, with what its runs that have ended take: all of them, and those that have ended long ago.
type diskRow struct {
	Name, Href  string
	Runs, Bytes string
	Free        []timeCell
}

// A diskSum adds up the runs of a workflow.
type diskSum struct {
	name        string
	runs, bytes int64
	free        [3]int64 // by how long ago they have ended at least
}

// freeAges are the ages of history.DiskUse that each column has, and the names of the columns.
var freeAges = [3]struct {
	ages  []string
	label string
}{{[]string{"hours", "days", "weeks", "months"}, "of runs that have ended"}, {[]string{"weeks", "months"}, "more than 7 days ago"}, {[]string{"months"}, "more than 31 days ago"}}

// addUse adds a group of runs.
func (d *diskSum) addUse(u *history.DiskUse) {
	d.runs += u.Runs
	d.bytes += u.Bytes
	for i := range freeAges {
		if slices.Contains(freeAges[i].ages, u.Age) {
			d.free[i] += u.Free
		}
	}
}

// readDisk measures the disk if the query of the page asks for it.
func (s *server) readDisk(p *page) (diskTable, error) {
	if p.r.URL.Query().Get("disk") == "" {
		return diskTable{Measure: p.pageLink("engine", "disk", "1") + "#disk"}, nil
	}
	uses, err := s.engine.DiskUse(p.r.Context())
	if err != nil {
		return diskTable{}, err
	}
	all := &diskSum{name: "all"}
	sums := map[string]*diskSum{}
	var parts []string
	for i := range uses {
		switch u := &uses[i]; {
		case u.Part == "runs":
			if sums[u.Workflow] == nil {
				sums[u.Workflow] = &diskSum{name: u.Workflow}
			}
			sums[u.Workflow].addUse(u)
			all.addUse(u)
		case u.Part == "damaged" && u.Runs > 0:
			parts = append(parts, groupDigits(int(u.Runs))+" runs of unknown size, since the index is damaged")
		case u.Bytes > 0:
			parts = append(parts, u.Part+" "+bytesText(u.Bytes))
		}
	}
	rows := slices.SortedFunc(maps.Values(sums), func(a, b *diskSum) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
	table := diskTable{More: max(len(rows)-shownRows, 0)}
	if len(parts) > 0 {
		table.Parts = "Beside the files of runs: " + strings.Join(parts, ", ") + "."
	}
	for _, r := range rows[:len(rows)-table.More] {
		table.Rows = append(table.Rows, p.diskRowOf(r))
	}
	last := p.diskRowOf(all)
	last.Href = ""
	table.Rows = append(table.Rows, last)
	return table, nil
}

// diskRowOf returns a row, which leads to the definition.
func (p *page) diskRowOf(d *diskSum) diskRow {
	row := diskRow{Name: d.name, Href: p.pageLink("definitions", "workflow", d.name), Runs: groupDigits(int(d.runs)), Bytes: bytesText(d.bytes)}
	for i, n := range d.free {
		cell := timeCell{Label: freeAges[i].label}
		if n > 0 {
			cell.Text = bytesText(n)
		}
		row.Free = append(row.Free, cell)
	}
	return row
}

// bytesText returns a size in the unit in which it is at least 1.
func bytesText(n int64) string {
	size, unit := float64(n), "bytes"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, larger
	}
	if unit == "bytes" {
		return groupDigits(int(n)) + " bytes"
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}
