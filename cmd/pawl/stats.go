package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/columns"
)

var statsVerb = verb{
	name:    "stats",
	help:    "Say how long tasks wait and work, how many fail, and how that was before.",
	example: []string{"pawl stats", "pawl stats order --since hour", "pawl stats --by task --since month"},
	command: func() command { return new(statsCommand) },
}

// A statsCommand says how long attempts of tasks have waited and worked.
type statsCommand struct {
	Workflow string `arg:"" optional:"" help:"The name of a definition; all of them if none is given."`
	By       string `enum:"node,workflow,task" default:"node" placeholder:"WHAT" help:"What makes a row: node, workflow, or task, which is the type; node, if this is not given."`
	Since    string `enum:"hour,day,month" default:"day" placeholder:"TIME" help:"The last hour, day or month; day, if this is not given."`
	dirFlag
}

// runCommand writes three tables: of now, of the times, and beside the days before.
func (c *statsCommand) runCommand(ctx context.Context, con *console) error {
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

// printTimings writes what was counted.
func (c *statsCommand) printTimings(con *console, t *history.Timings) {
	span := map[string]string{"hour": "60 minutes", "day": "24 hours", "month": "31 days"}[t.Within]
	if len(t.Rows) == 0 {
		con.printLine("no attempt has ended in the last 31 days")
		return
	}
	head := strings.ToUpper(t.By)
	times := [][]string{{head, "QUEUE P50", "P95", "P99", "WORK P50", "P95", "P99"}}
	before := [][]string{{head, "ENDED", "FAILED", "RATE", "P95 TODAY", "YESTERDAY", "LAST WEEK"}}
	named := countNames(t.Rows)
	for i := range t.Rows {
		r := &t.Rows[i]
		name := c.rowName(r, named)
		if r.Attempts > 0 {
			times = append(times, append([]string{name}, append(quantileTexts(r.Queue), quantileTexts(r.Work)...)...))
		}
		before = append(before, append([]string{name}, sumTextsOf(r)...))
	}
	if len(times) > 1 {
		con.printColumns(times)
		con.printLine("")
	}
	con.printColumns(append(before, append([]string{"all"}, sumTextsOf(&t.Total)...)))
	note := fmt.Sprintf("ENDED, FAILED and RATE are of the last %s. P95 is of the work: today is the last 24 hours, yesterday the 24 before, "+
		"last week the 7 days before today. Counted since %s.", span, c.zoneOf(t.Since).Format(time.DateTime))
	for _, line := range columns.WrapLine(note, con.Width) {
		con.printLine("%s", line)
	}
}

// sumTextsOf returns the cells that compare a row.
func sumTextsOf(r *history.Timing) []string {
	return []string{
		countText(int(r.Attempts)), failedText(&r.TimingSum), rateText(r.Rate), timeText(r.Today.Work.P95), timeText(r.Yesterday.Work.P95), timeText(r.LastWeek.Work.P95),
	}
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
	return fmt.Sprintf("%s %.2g%%", countText(int(s.Failed)), 100*float64(s.Failed)/float64(s.Attempts))
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
