package inspector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// A firingMark is what has become of a firing, or is to: a shape, a word, and the run if there is one.
type firingMark struct {
	Class string
	Word  string // completed; skipped: the run before was not over
	Time  string // on the clock of the schedule
	Href  string // of the run; "" without one
}

// A scheduleRow is a schedule in the list.
type scheduleRow struct {
	ID, Href string
	Workflow string
	Class    string
	Word     string
	Why      string
	Lag      string
	Last     []firingMark // the newest first
	First    instant      // the next firing
	Next     []string     // on the clock of the schedule
	Zone     string       // the name of that clock
	Skipped  string       // why the last one was, if it was
}

// A schedulesBody is the page of all schedules.
type schedulesBody struct {
	Rows []scheduleRow
	More string // the next page
}

// shownSchedules bounds a page of the list.
const shownSchedules = 100

// showSchedules lists the schedules by id.
func (s *server) showSchedules(p *page) error {
	b := schedulesBody{}
	for st, err := range s.engine.Schedules().List(p.r.Context(), p.r.URL.Query().Get("after")) {
		if err != nil {
			return err
		}
		if len(b.Rows) == shownSchedules {
			b.More = p.pageLink("schedules", "after", b.Rows[len(b.Rows)-1].ID)
			break
		}
		b.Rows = append(b.Rows, p.scheduleRowOf(&st))
	}
	p.markLive(true, false, 0)
	return p.showPage("schedules.html", "Schedules", "schedules", b)
}

// scheduleLink returns the address of the page of a schedule. Its id may have any character, so it is no part of the path.
func (p *page) scheduleLink(id string, pairs ...string) string {
	return p.pageLink("schedule", append([]string{"id", id}, pairs...)...)
}

// scheduleRowOf describes how a schedule stands.
func (p *page) scheduleRowOf(st *schedule.Standing) scheduleRow {
	c := &st.Schedule
	row := scheduleRow{ID: c.ID, Href: p.scheduleLink(c.ID), Workflow: workflowText(c.Workflow), Why: strings.ToUpper(st.Why[:1]) + st.Why[1:]}
	if pause := st.Paused; pause != nil && pause.Incident && pause.Reason != "" && !p.seesTexts() { // the reason is the text of an error
		row.Why = strings.ReplaceAll(row.Why, ": "+pause.Reason, "")
	}
	row.Class, row.Word = scheduleStatus(st)
	if st.LagMillis > 0 {
		row.Lag = spanText(time.Duration(st.LagMillis) * time.Millisecond)
	}
	zone := zoneOf(c)
	row.Zone = zone.String()
	for i := range st.Events {
		if m, ok := p.markOf(&st.Events[i], zone); ok {
			row.Last = append(row.Last, m)
		}
	}
	if len(row.Last) > 0 && (st.Events[0].Skip != "" || st.Events[0].Error != "") {
		row.Skipped = row.Last[0].Time + ": " + row.Last[0].Word
	}
	for i, f := range st.Next {
		if i == 0 {
			row.First = p.instantOf(f.Due)
		}
		row.Next = append(row.Next, f.At.In(zone).Format(clockDay))
	}
	return row
}

// The forms of instants on the clock of a schedule.
const (
	clockDay  = "Mon 2 Jan 15:04"
	clockTime = "15:04"
)

func workflowText(w schedule.Workflow) string {
	if w.Version == 0 {
		return w.Name
	}
	return fmt.Sprintf("%s@%d", w.Name, w.Version)
}

// zoneOf returns the zone whose clock a schedule follows. The engine has read it before.
func zoneOf(c *schedule.Schedule) *time.Location {
	zone, err := time.LoadLocation(c.Timezone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// scheduleStatus returns how a schedule looks, and the word for that.
func scheduleStatus(st *schedule.Standing) (class, word string) {
	switch {
	case st.Paused != nil && st.Paused.Incident:
		return "failed", "paused: its runs fail"
	case st.Paused != nil:
		return "parked", "paused"
	case len(st.Running) > 0:
		return "running", "running"
	case len(st.Next) == 0 && st.Schedule.After == 0:
		return "done", "over"
	}
	return "waiting", "waits"
}

// skipWords say why a firing was skipped.
var skipWords = map[string]string{
	"overlap": "the run before was not over", "window": "it was due too long ago", "most": "later ones were made up for instead",
	"paused": "the schedule was paused", "except": "it is an exception", "missing": "clocks jumped over it", "repeated": "the clock showed it twice",
}

// markOf returns what has become of a firing; false of an event that is of the schedule itself.
func (p *page) markOf(ev *schedule.Event, zone *time.Location) (m firingMark, ok bool) {
	m = firingMark{Time: ev.Scheduled.In(zone).Format(clockDay)}
	if ev.Run != "" && ev.Skip == "" {
		m.Href = p.runLink(ev.Run)
	}
	switch ev.Kind {
	case "started", "joined":
		m.Class, m.Word = "running", "running"
		if !ev.EndedAt.IsZero() {
			m.Class, m.Word = statusClass(ev.Status), statusWord(ev.Status)
		}
	case "skipped":
		m.Class, m.Word = "cancelled", "skipped: "+cmp.Or(skipWords[ev.Skip], ev.Skip)
		if ev.Count > 1 {
			m.Word = fmt.Sprintf("%s skipped: %s", groupDigits(ev.Count), cmp.Or(skipWords[ev.Skip], ev.Skip))
		}
	case "refused":
		m.Class, m.Word = "failed", strings.TrimSuffix("it could not start: "+p.textAt(ev.Error, 300), ": ")
	case "waiting":
		m.Class, m.Word = "waiting", "waits for the run before"
	default:
		return m, false
	}
	return m, true
}

// A scheduleEventRow is what became of a firing, or of the schedule.
type scheduleEventRow struct {
	firingMark
	At    instant
	Cause string
	Who   string
}

// A scheduleBody is the page of one schedule.
type scheduleBody struct {
	scheduleRow
	Acts     []actLink
	Facts    []fact
	Running  []runLinkTo
	Calendar calendar
	Events   []scheduleEventRow
	Older    int // events that are not on the page
}

// A runLinkTo leads to a run.
type runLinkTo struct {
	Run  workflow.RunID
	Href string
}

// shownFirings bounds the events of a schedule on its page, and the runs that go on.
const shownFirings = 50

// showSchedule shows one schedule: how it stands, a month, and what has become of its firings.
func (s *server) showSchedule(p *page) error {
	q := p.r.URL.Query()
	st, events, err := s.readSchedule(p, q.Get("id"))
	if err != nil {
		return err
	}
	b := scheduleBody{scheduleRow: p.scheduleRowOf(&st), Acts: p.scheduleActLinks(&st), Facts: scheduleFacts(&st)}
	b.Running = p.linksTo(st.Running)
	if b.Calendar, err = p.calendarOf(&st, events, q.Get("month")); err != nil {
		return err
	}
	zone := zoneOf(&st.Schedule)
	for i := range slices.Backward(events) {
		if len(b.Events) == shownFirings {
			b.Older = i + 1
			break
		}
		b.Events = append(b.Events, p.eventRowOf(&events[i], zone))
	}
	p.markLive(true, false, 0)
	return p.showPage("schedule.html", st.Schedule.ID, "schedules", b)
}

func (p *page) linksTo(runs []workflow.RunID) (out []runLinkTo) {
	for _, id := range runs[:min(shownFirings, len(runs))] {
		out = append(out, runLinkTo{id, p.runLink(id)})
	}
	return out
}

// readSchedule returns how a schedule stands, and its events, the oldest first.
func (s *server) readSchedule(p *page, id string) (st schedule.Standing, events []schedule.Event, err error) {
	if st, err = s.engine.Schedules().Get(p.r.Context(), id); err == nil {
		events, err = s.engine.Schedules().Events(p.r.Context(), id, time.Time{}, time.Time{})
	}
	return st, events, err
}

func (p *page) eventRowOf(ev *schedule.Event, zone *time.Location) scheduleEventRow {
	row := scheduleEventRow{At: p.instantOf(ev.At), Cause: ev.Cause, Who: ev.By}
	if ev.Reason != "" && p.seesTexts() {
		row.Who = strings.TrimPrefix(row.Who+": "+shortText(ev.Reason, 200), ": ")
	}
	m, ok := p.markOf(ev, zone)
	if !ok {
		m = firingMark{Class: "waiting", Word: ev.Kind}
		if ev.Kind == "paused" {
			m.Class = "parked"
		}
	}
	row.firingMark = m
	return row
}

// scheduleFacts are what a schedule says, and what has come of it.
func scheduleFacts(st *schedule.Standing) []fact {
	c := &st.Schedule
	out := []fact{
		{"starts", workflowText(c.Workflow)}, {"when", timingText(c)}, {"on the clock of", zoneOf(c).String()},
		{"while a run is not over", string(c.Overlap)}, {"runs started", groupDigits(st.Fired)},
	}
	if st.Failures > 0 {
		out = append(out, fact{"failures in a row", groupDigits(st.Failures)})
	}
	if st.Fired > 0 {
		out = append(out, fact{"the last one began late by", spanText(time.Duration(st.LagMillis) * time.Millisecond)})
	}
	if n := len(st.Backfills); n > 0 {
		out = append(out, fact{"backfills that are not over", groupDigits(n)})
	}
	return out
}

// timingText says when a schedule fires, as it is written.
func timingText(c *schedule.Schedule) (text string) {
	switch {
	case len(c.Cron) > 0:
		text = strings.Join(c.Cron, ", ")
	case c.Every > 0:
		text = "every " + spanText(c.Every)
		if c.Offset > 0 {
			text += ", " + spanText(c.Offset) + " later"
		}
	case c.After > 0:
		text = spanText(c.After) + " after the end of the run before"
	default:
		text = fmt.Sprintf("at %d instants", len(c.At))
	}
	if len(c.Except) > 0 {
		text += "; not at " + strings.Join(c.Except, ", ")
	}
	if c.Jitter > 0 {
		text += "; later by up to " + spanText(c.Jitter)
	}
	return shortText(text, 300)
}

// scheduleActLinks returns what can be done to a schedule, for those who may.
func (p *page) scheduleActLinks(st *schedule.Standing) (out []actLink) {
	if p.rights&api.Act == 0 {
		return nil
	}
	for _, a := range scheduleActs {
		if a.name == "pause" && st.Paused != nil || a.name == "resume" && st.Paused == nil || a.name == "backfill" && st.Schedule.After > 0 {
			continue
		}
		out = append(out, actLink{a.title + "…", p.pageLink("schedule-act", "do", a.name, "id", st.Schedule.ID), a.danger})
	}
	return out
}
