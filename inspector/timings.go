package inspector

import (
	"fmt"
	"math"
	"time"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/workflow"
)

// A timesPanel says what tasks there are, and how long they took in the last hour, day and month.
type timesPanel struct {
	Load    []loadRow
	Running string
	Waiting string
	Oldest  instant // since when one of the waiting waits
	Later   string  // whose results come from outside; "" if none does
	Cards   []timesCard
}

// A timesCard is a window of time in numbers. All but Title and Chart are "" if nothing ended.
type timesCard struct {
	Title  string
	Ended  string
	Failed string // "" if none did
	Rate   string
	Runs   string // how many runs of the workflow ended, and how long they took; "" without one workflow
	Within string // how long 95 of a hundred took at most
	Before string // likewise yesterday and last week
	Chart  chart
}

// A loadRow says what the process has to do of one type.
type loadRow struct {
	Type                    string
	Running, Waiting, Later string
	Longest, Oldest         instant // since when
}

// A chart is the number of attempts that ended, one bar for each minute, hour or day. Failed ones are the lower part of a bar.
type chart struct {
	Label string // in words
	Width int
	Bars  []chartBar
	From  string // when it begins
}

// A chartBar has its place in units of the chart, which is chartHeight high.
type chartBar struct {
	X, Y, Height          int
	FailedY, FailedHeight int
}

const (
	chartHeight = 40
	barStep     = 4 // from one bar to the next; bars are 3 wide
)

// The windows of time, as the engine and people call them.
var timeWindows = []struct{ within, title, from, each string }{
	{"hour", "Last hour", "60 min ago", "a minute"}, {"day", "Last 24 hours", "24 h ago", "an hour"}, {"month", "Last 31 days", "31 days ago", "a day"},
}

// readTimes returns the panel of a workflow, "" for all; nil if there is nothing to say.
func (s *server) readTimes(p *page, workflow string) (*timesPanel, error) {
	panel := &timesPanel{}
	any := false
	for _, w := range timeWindows {
		t, err := s.engine.Timings(p.r.Context(), history.TimingFilter{Workflow: workflow, By: "workflow", Within: w.within})
		if err != nil {
			return nil, err
		}
		panel.addLoad(p, t.Load)
		any = any || len(t.Rows) > 0 || len(t.Load) > 0
		card := cardOf(&t, w.title, w.from, w.each)
		if workflow != "" && len(t.Runs) > 0 && t.Runs[0].Attempts > 0 {
			card.Runs = runsText(&t.Runs[0], w.within)
		}
		panel.Cards = append(panel.Cards, card)
	}
	if !any {
		return nil, nil //nolint:nilnil // there is nothing to say
	}
	return panel, nil
}

// addLoad takes what there is to do.
func (t *timesPanel) addLoad(p *page, load []history.TypeLoad) {
	var sum history.TypeLoad
	t.Load = nil
	for _, l := range load {
		sum.Running, sum.Waiting, sum.Pending, sum.Oldest = sum.Running+l.Running, sum.Waiting+l.Waiting, sum.Pending+l.Pending, max(sum.Oldest, l.Oldest)
		t.Load = append(t.Load, loadRow{
			l.Task, groupDigits(l.Running), groupDigits(l.Waiting), groupDigits(l.Pending), p.sinceOf(l.Longest, l.Running), p.sinceOf(l.Oldest, l.Waiting),
		})
	}
	t.Running, t.Waiting, t.Oldest = groupDigits(sum.Running), groupDigits(sum.Waiting), p.sinceOf(sum.Oldest, sum.Waiting)
	if t.Later = ""; sum.Pending > 0 {
		t.Later = groupDigits(sum.Pending)
	}
}

// sinceOf returns when something began, if there is any of it: by whole seconds, so that it is the same in the next frame.
func (p *page) sinceOf(age time.Duration, n int) instant {
	if n == 0 {
		return instant{}
	}
	return p.instantOf(p.now.Add(-age).Round(time.Second))
}

// runsText says how many runs ended, and how long 95 of a hundred took at most, of a day also before.
func runsText(r *history.Timing, within string) string {
	text := groupDigits(int(r.Attempts)) + " runs ended, 95 % within " + timeText(r.Work.P95)
	if r.Attempts == 1 {
		text = "1 run ended, within " + timeText(r.Work.P95)
	}
	if within == "day" && r.Yesterday.Attempts > 0 {
		text += ", yesterday " + timeText(r.Yesterday.Work.P95)
	}
	return text
}

// cardOf returns a window of time in numbers.
func cardOf(t *history.Timings, title, from, each string) timesCard {
	card := timesCard{Title: title, Chart: chartOf(t.Points, from, each)}
	if t.Total.Attempts == 0 {
		return card
	}
	card.Ended, card.Rate = groupDigits(int(t.Total.Attempts)), rateText(t.Total.Rate)
	card.Failed, card.Within = failedText(&t.Total.TimingSum), timeText(t.Total.Work.P95)
	if t.Within != "day" {
		return card
	}
	if y := t.Total.Yesterday; y.Attempts > 0 {
		card.Before = "yesterday " + timeText(y.Work.P95)
	}
	if w := t.Total.LastWeek; w.Attempts > 0 {
		if card.Before != "" {
			card.Before += ", "
		}
		card.Before += "last week " + timeText(w.Work.P95)
	}
	return card
}

// chartOf draws points, which come from the oldest to the newest.
func chartOf(points []history.TimingPoint, from, each string) chart {
	c := chart{From: from, Width: max(len(points)*barStep-1, 1)}
	most, all, failed := int64(0), int64(0), int64(0)
	for _, p := range points {
		most, all, failed = max(most, p.Attempts), all+p.Attempts, failed+p.Failed
	}
	for i, p := range points {
		if p.Attempts == 0 {
			continue
		}
		b := chartBar{X: i * barStep, Height: barHeight(p.Attempts, most)}
		b.FailedHeight = min(barHeight(p.Failed, most), b.Height)
		b.Y, b.FailedY = chartHeight-b.Height, chartHeight-b.FailedHeight
		c.Bars = append(c.Bars, b)
	}
	c.Label = fmt.Sprintf("%s attempts ended, %s of them failed, at most %s %s", groupDigits(int(all)), groupDigits(int(failed)), groupDigits(int(most)), each)
	return c
}

// barHeight returns how high a part of the highest bar is; what there is at all can be seen.
func barHeight(n, most int64) int {
	if n == 0 {
		return 0
	}
	return max(int(math.Round(chartHeight*float64(n)/float64(most))), 2)
}

// failedText returns how many attempts failed, with the part of all; "" if none did.
func failedText(s *history.TimingSum) string {
	if s.Failed == 0 {
		return ""
	}
	part, digits := 100*float64(s.Failed)/float64(s.Attempts), 2
	if part >= 99.5 {
		digits = 3
	}
	return fmt.Sprintf("%s (%.*g %%)", groupDigits(int(s.Failed)), digits, part)
}

// rateText returns a rate in the unit in which it is at least 1.
func rateText(perSecond float64) string {
	for _, unit := range []struct {
		seconds float64
		name    string
	}{{1, "a second"}, {60, "a minute"}, {3600, "an hour"}} {
		if n := perSecond * unit.seconds; n >= 10 {
			return groupDigits(int(math.Round(n))) + " " + unit.name
		} else if n >= 1 {
			return fmt.Sprintf("%.2g %s", n, unit.name)
		}
	}
	return fmt.Sprintf("%.2g an hour", perSecond*3600)
}

// timeText returns how long tasks took, "" of none.
func timeText(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f ms", max(d.Seconds()*1e3, 0.1))
	}
	return spanText(d)
}

// A timesRow is a node in numbers; texts are "" of what did not happen.
type timesRow struct {
	Node   workflow.NodeID
	Type   string // "" if it is called as the node
	Ended  string
	Failed string
	Cells  []timeCell // how long 50, 95 and 99 of a hundred waited and worked at most, and 95 worked today, yesterday and last week
}

// A timeCell is a time; First begins a group of cells. Label says what it is where the head of the table is not seen.
type timeCell struct {
	Label, Text string
	First       bool
}

// A timesTable says how long the tasks of a workflow took, by node.
type timesTable struct {
	Rows    []timesRow
	Runs    []timesRow  // of whole runs: one, or none
	Windows []choiceRow // of time; the chosen one leads nowhere
	More    int         // rows that are not listed
	Sums    *sumsTable  // of what was reported; nil if nothing was
	nodes   map[workflow.NodeID]string
}

// readNodeTimes returns the table of a workflow in the window of time that the query of the page names, a day if none is named.
func (s *server) readNodeTimes(p *page, name string) (*timesTable, error) {
	table := &timesTable{nodes: map[workflow.NodeID]string{}}
	within := p.r.URL.Query().Get("within")
	if within != "hour" && within != "month" {
		within = "day"
	}
	for _, w := range timeWindows {
		table.Windows = append(table.Windows, choiceRow{Text: w.title, Value: p.pageLink("definitions", "workflow", name, "within", w.within), Chosen: w.within == within})
	}
	t, err := s.engine.Timings(p.r.Context(), history.TimingFilter{Workflow: name, Within: within})
	if err != nil {
		return nil, err
	}
	table.Sums = sumsOf(&t)
	for i := range t.Runs {
		table.Runs = append(table.Runs, timesRow{Ended: groupDigits(int(t.Runs[i].Attempts)), Failed: failedText(&t.Runs[i].TimingSum), Cells: timeCells(&t.Runs[i])})
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Attempts > 0 {
			text := "95 % within " + timeText(r.Work.P95)
			if r.Failed > 0 {
				text += ", " + groupDigits(int(r.Failed)) + " failed"
			}
			table.nodes[r.Node] = text
		}
		if len(table.Rows) == shownRows {
			table.More++
			continue
		}
		kind := r.Task
		if kind == string(r.Node) {
			kind = ""
		}
		table.Rows = append(table.Rows, timesRow{
			Node: r.Node, Type: kind, Ended: groupDigits(int(r.Attempts)), Failed: failedText(&r.TimingSum),
			Cells: timeCells(r),
		})
	}
	return table, nil
}

// timeCells returns the cells of a row.
func timeCells(r *history.Timing) (cells []timeCell) {
	for i, c := range []struct {
		label string
		time  time.Duration
	}{
		{"waited 50 %", r.Queue.P50},
		{"95 %", r.Queue.P95},
		{"99 %", r.Queue.P99},
		{"worked 50 %", r.Work.P50},
		{"95 %", r.Work.P95},
		{"99 %", r.Work.P99},
		{"95 % today", r.Today.Work.P95},
		{"yesterday", r.Yesterday.Work.P95},
		{"last week", r.LastWeek.Work.P95},
	} {
		cells = append(cells, timeCell{c.label, timeText(c.time), i%3 == 0})
	}
	return cells
}
