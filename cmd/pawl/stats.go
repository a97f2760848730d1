package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/internal/retrace"
	"github.com/pawl-run/pawl/internal/timing"
	"github.com/pawl-run/pawl/replay"
)

var statsVerb = verb{
	name: "stats",
	help: "Say how long tasks wait and work and runs take, how many fail, and how that was before.",
	example: []string{
		"pawl stats", "pawl stats order --since hour", "pawl stats --by task --since month",
		"pawl stats order --archive 2026-09.pawl --archive data --from 2026-09-01T00:00:00Z",
	},
	command: func() command { return new(statsCommand) },
}

// A statsCommand says how long attempts of tasks have waited and worked, and how long runs took.
type statsCommand struct {
	Workflow string    `arg:"" optional:"" help:"The name of a definition; all of them if none is given."`
	By       string    `enum:"node,workflow,task" default:"node" placeholder:"WHAT" help:"What makes a row: node, workflow, or task, which is the type; node, if this is not given."`
	Since    string    `enum:"hour,day,month," default:"" placeholder:"TIME" help:"The last hour, day or month; day, if this is not given."`
	Archive  []string  `sep:"none" placeholder:"PATH" help:"Read journals in place of counters: of an archive, an export, an engine directory, or a folder of these; once for each."`
	From     time.Time `placeholder:"INSTANT" help:"With --archive: only what ended from this instant on, as 2026-11-01T00:00:00Z."`
	To       time.Time `placeholder:"INSTANT" help:"With --archive: only what ended before this instant."`
	dirFlag
}

// errStatsTimes says which flags choose a time.
var errStatsTimes = errors.New("--since is of the last hour, day or month; --from and --to are with --archive, which reads of any time")

// runCommand writes tables: of now, of the times, beside the days before, and of whole runs.
func (c *statsCommand) runCommand(ctx context.Context, con *console) error {
	journals, bounded := len(c.Archive) > 0, !c.From.IsZero() || !c.To.IsZero()
	switch {
	case journals && c.Since != "", bounded && !journals:
		return errStatsTimes
	case journals:
		return c.readJournals(ctx, con)
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		t, err := e.Timings(ctx, history.TimingFilter{Workflow: c.Workflow, By: c.By, Within: c.Since})
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, t)
			return nil
		}
		c.printLoad(con, &t, e.live)
		c.printTimings(con, &t)
		con.printSource(e.source)
		return nil
	})
}

// readJournals answers from what can be read of the journals. The error of what cannot makes the exit status.
func (c *statsCommand) readJournals(ctx context.Context, con *console) error {
	ledger := timing.Ledger{Workflow: c.Workflow, From: c.From, To: c.To}
	var g gathered
	var unread error
	err := con.whileWorking("reading runs", func() error {
		flags := recordedFlag{Dir: c.Dir, UTC: c.UTC, keyFlag: c.keyFlag, jsonFlag: c.jsonFlag}
		g, unread = flags.eachRecording(ctx, con, c.Archive, func(rec *replay.Recording) error {
			ends, err := retrace.Ends(rec)
			ledger.CountRun(rec.Run, ends)
			return err
		})
		return context.Cause(ctx)
	})
	if err != nil || g.read == 0 {
		return errors.Join(err, unread)
	}
	if t := ledger.MakeTimings(c.By); c.JSON {
		con.writeLine(true, t)
	} else {
		c.printTimings(con, &t)
	}
	con.saySources(c.JSON, g.from)
	return unread
}

// printLoad says what there is to do now, of all workflows also where one is asked for. A directory that nobody has open has nothing that
// runs.
func (c *statsCommand) printLoad(con *console, t *history.Timings, live bool) {
	if !live {
		return
	}
	head := "NOW"
	if c.Workflow != "" {
		head = "NOW, ALL WORKFLOWS"
	}
	rows := [][]string{{head, "RUN", "LONGEST", "WAIT", "OLDEST", "LATER"}}
	for _, l := range t.Load {
		rows = append(rows, []string{l.Task, countText(l.Running), timeText(l.Longest), countText(l.Waiting), timeText(l.Oldest), countText(l.Pending)})
	}
	if len(rows) == 1 {
		con.printLine("Now no task runs or waits.\n")
		return
	}
	con.printColumns(rows)
	con.printLine("")
}

// printTimings writes what was counted, or read of journals, which have no other days beside them.
func (c *statsCommand) printTimings(con *console, t *history.Timings) {
	span := map[string]string{"hour": "60 minutes", "day": "24 hours", "month": "31 days"}[t.Within]
	since := c.zoneOf(t.Since).Format(time.DateTime)
	note := fmt.Sprintf("Read of journals: what ended from %s to %s.", since, c.zoneOf(t.At).Format(time.DateTime))
	besides := []string{}
	if span != "" {
		note = fmt.Sprintf("ENDED, FAILED and RATE are of the last %s. P95 is of the work, of RUNS from start to end: today is the last 24 hours, yesterday the 24 before, "+
			"last week the 7 days before today. Counted since %s.", span, since)
		besides = []string{"P95 TODAY", "YESTERDAY", "LAST WEEK"}
	}
	if len(t.Rows)+len(t.Runs) == 0 {
		none := "in the last 31 days"
		if span == "" {
			none = "there in that time"
		}
		if span != "" && t.Since.IsZero() {
			con.printProse("nothing was counted here: if runs have ended, pawl stats --archive %s reads their journals", c.Dir)
			return
		}
		con.printLine("no attempt has ended %s", none)
		return
	}
	head := strings.ToUpper(t.By)
	times := [][]string{{head, "QUEUE P50", "P95", "P99", "WORK P50", "P95", "P99"}}
	before := [][]string{append([]string{head, "ENDED", "FAILED", "RATE"}, besides...)}
	named := countNames(t.Rows)
	for i := range t.Rows {
		r := &t.Rows[i]
		name := c.rowName(r, named)
		if r.Attempts > 0 {
			times = append(times, append([]string{name}, append(quantileTexts(r.Queue), quantileTexts(r.Work)...)...))
		}
		before = append(before, append([]string{name}, sumTextsOf(r, besides)...))
	}
	if len(t.Rows) > 0 {
		before = append(before, append([]string{"all"}, sumTextsOf(&t.Total, besides)...))
	}
	runs := [][]string{append([]string{"RUNS", "ENDED", "FAILED", "TOOK P50", "P95", "P99"}, besides...)}
	for i := range t.Runs {
		r := &t.Runs[i]
		cells := sumTextsOf(r, besides)
		runs = append(runs, slices.Concat([]string{r.Workflow}, cells[:2], quantileTexts(r.Work), cells[3:]))
	}
	for _, table := range [][][]string{times, before, runs, c.reportedTable(t, named, len(besides) > 0)} {
		if len(table) > 1 {
			con.printColumns(table)
			con.printLine("")
		}
	}
	for _, line := range columns.WrapLine(note, con.Width) {
		con.printLine("%s", line)
	}
}

// reportedTable returns what the numbers that attempts have reported add up to, with the days before, if they are besides.
func (c *statsCommand) reportedTable(t *history.Timings, named map[[2]string]int, besides bool) [][]string {
	table := [][]string{{strings.ToUpper(t.By), "REPORTED", "SUM"}}
	if besides {
		table[0] = append(table[0], "TODAY", "YESTERDAY", "LAST WEEK")
	}
	addRows := func(row string, r *history.Timing) {
		names := map[string]bool{}
		for _, s := range []*history.TimingSum{&r.TimingSum, &r.Today, &r.Yesterday, &r.LastWeek} {
			for name := range s.Meta {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			cells := []string{row, name, sumText(r.Meta, name)}
			if besides {
				cells = append(cells, sumText(r.Today.Meta, name), sumText(r.Yesterday.Meta, name), sumText(r.LastWeek.Meta, name))
			}
			table = append(table, cells)
		}
	}
	for i := range t.Rows {
		addRows(c.rowName(&t.Rows[i], named), &t.Rows[i])
	}
	addRows("all", &t.Total)
	return table
}

// sumTextsOf returns the cells that say how many ended, and compare that with the days before, if they are besides.
func sumTextsOf(r *history.Timing, besides []string) []string {
	cells := []string{countText(int(r.Attempts)), failedText(&r.TimingSum), rateText(r.Rate)}
	if len(besides) > 0 {
		cells = append(cells, timeText(r.Today.Work.P95), timeText(r.Yesterday.Work.P95), timeText(r.LastWeek.Work.P95))
	}
	return cells
}

// countNames counts the rows of each node, of which there are several where its type changes.
func countNames(rows []history.Timing) map[[2]string]int {
	out := map[[2]string]int{}
	for i := range rows {
		out[[2]string{rows[i].Workflow, string(rows[i].Node)}]++
	}
	return out
}

// rowName names a row as shortly as it is told from the others.
func (c *statsCommand) rowName(r *history.Timing, named map[[2]string]int) string {
	if r.Node == "" {
		return cmp.Or(r.Task, r.Workflow)
	}
	name := string(r.Node)
	if c.Workflow == "" {
		name = r.Workflow + "/" + name
	}
	if named[[2]string{r.Workflow, string(r.Node)}] > 1 {
		name += " (" + r.Task + ")"
	}
	return name
}

func quantileTexts(q history.Quantiles) []string {
	return []string{timeText(q.P50), timeText(q.P95), timeText(q.P99)}
}

// failedText returns how many attempts failed, with the part of all.
func failedText(s *history.TimingSum) string {
	if s.Failed == 0 {
		return "0"
	}
	part, digits := 100*float64(s.Failed)/float64(s.Attempts), 2
	if part >= 99.5 {
		digits = 3
	}
	return fmt.Sprintf("%s %.*g%%", countText(int(s.Failed)), digits, part)
}

// rateText returns a rate in the unit in which it is at least 1.
func rateText(perSecond float64) string {
	for _, unit := range []struct {
		seconds float64
		name    string
	}{{1, "s"}, {60, "min"}, {3600, "h"}} {
		if n := perSecond * unit.seconds; n >= 1 {
			return fmt.Sprintf("%.3g/%s", n, unit.name)
		}
	}
	if perSecond == 0 {
		return ""
	}
	return fmt.Sprintf("%.2g/h", perSecond*3600)
}

// timeText returns a time with two digits or three, "" of none.
func timeText(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Millisecond:
		return fmt.Sprintf("%dus", max(d.Microseconds(), 1))
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return spanText(d)
}

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

// listCells returns the cells of a row behind its name.
func (r *diskRow) listCells() []string {
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
		table = append(table, append([]string{cmp.Or(name, "(none)")}, rows[name].listCells()...))
	}
	if head == "WORKFLOW" {
		table = append(table, append([]string{"all"}, all.listCells()...))
	}
	con.printColumns(table)
	con.printLine("")
}
