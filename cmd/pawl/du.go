package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/history"
)

var duVerb = verb{
	name:    "du",
	help:    "Say what takes the disk: per workflow, status and tenant, and what purge and archive would free.",
	example: []string{"pawl du", "pawl du --json", "pawl purge --age 744h -m retention --dry-run"},
	working: "counting",
	command: func() command { return new(duCommand) },
}

// A duCommand says what takes the disk.
type duCommand struct {
	dirFlag
}

// runCommand writes a table for each way to group the runs, and the sum.
func (c *duCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		uses, err := e.DiskUse(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			for _, u := range uses {
				con.writeLine(true, u)
			}
			return nil
		}
		printDiskUse(con, uses)
		con.printSource(e.source)
		return nil
	})
}

// A diskRow sums up the runs of a row: free is what goes with all that have ended, and with those that did so before a day, a week, a month.
type diskRow struct {
	runs, bytes int64
	free        [4]int64
}

// addUse adds a group of runs.
func (r *diskRow) addUse(u *history.DiskUse) {
	r.runs += u.Runs
	r.bytes += u.Bytes
	for i := range r.free {
		if i <= slices.Index([]string{"hours", "days", "weeks", "months"}, u.Age) {
			r.free[i] += u.Free
		}
	}
}

// cells returns the cells of a row behind its name.
func (r *diskRow) cells() []string {
	out := []string{countText(int(r.runs)), sizeText(r.bytes)}
	for _, n := range r.free {
		out = append(out, sizeText(n))
	}
	return out
}

// sizeText is bytesText, "" of none.
func sizeText(n int64) string {
	if n == 0 {
		return ""
	}
	return bytesText(n)
}

// printDiskUse writes the tables, that of tenants only if runs have some.
func printDiskUse(con *console, uses []history.DiskUse) {
	var all diskRow
	var parts, damaged int64
	text := ""
	for i := range uses {
		switch u := &uses[i]; u.Part {
		case "runs":
			all.addUse(u)
		case "damaged":
			damaged += u.Runs
		default:
			parts += u.Bytes
			text += ", " + u.Part + " " + bytesText(u.Bytes)
		}
	}
	for _, by := range []struct {
		head string
		of   func(*history.DiskUse) string
	}{
		{"WORKFLOW", func(u *history.DiskUse) string { return u.Workflow }},
		{"STATUS", func(u *history.DiskUse) string { return u.Status.String() }},
		{"TENANT", func(u *history.DiskUse) string { return u.Tenant }},
	} {
		printDiskRows(con, by.head, groupUses(uses, by.of), &all)
	}
	con.printLine("%s of files of runs%s: %s", bytesText(all.bytes), text, bytesText(all.bytes+parts))
	if damaged > 0 {
		con.printLine("%s more runs: the index is damaged, and does not tell how large they are.", countText(int(damaged)))
	}
	con.printLine("FREED is what pawl purge or archive of runs that have ended, or did so long ago,")
	con.printLine("would free.")
}

// groupUses sums up the groups of runs by a name.
func groupUses(uses []history.DiskUse, of func(*history.DiskUse) string) map[string]*diskRow {
	rows := map[string]*diskRow{}
	for i := range uses {
		if u := &uses[i]; u.Part == "runs" {
			if rows[of(u)] == nil {
				rows[of(u)] = &diskRow{}
			}
			rows[of(u)].addUse(u)
		}
	}
	return rows
}

// printDiskRows writes one table, the largest row first.
func printDiskRows(con *console, head string, rows map[string]*diskRow, all *diskRow) {
	if head == "TENANT" && (len(rows) == 0 || len(rows) == 1 && rows[""] != nil) {
		return
	}
	table := [][]string{{head, "RUNS", "SIZE", "FREED: ALL", "1 DAY AGO", "7 DAYS", "31 DAYS"}}
	names := slices.Sorted(maps.Keys(rows))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rows[b].bytes, rows[a].bytes) })
	for _, name := range names {
		table = append(table, append([]string{cmp.Or(name, "(none)")}, rows[name].cells()...))
	}
	if head == "WORKFLOW" {
		table = append(table, append([]string{"all"}, all.cells()...))
	}
	con.printColumns(table)
	con.printLine("")
}
