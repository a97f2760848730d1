package inspector

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/schedule"
)

// A calendar is a month of a schedule, on the clock that it follows: what has become of its firings, and those to come.
type calendar struct {
	Title        string // November 2026
	Before, Next string // the months beside it
	Now          string // the month that it is; "" if this is it
	Weeks        [][]calendarDay
	More         bool // there are more firings than are counted
}

// A calendarDay is a day of a month, or, with Day 0, a place before its first or behind its last.
type calendarDay struct {
	Day   int
	Name  string // Sun 29
	Today bool
	Clock string       // how clocks change on it
	Marks []firingMark // in order
	Sums  []markSum    // in the place of many
}

// A markSum is how many firings of a day look the same.
type markSum struct {
	Class, Word string
	N           int
}

// The bounds of a calendar.
const (
	shownMarks   = 4    // of a day; more are counted
	countedMarks = 5000 // of a month
)

// calendarOf returns the month with a name such as 2026-11, or the one that it is.
func (p *page) calendarOf(st *schedule.Standing, events []schedule.Event, name string) (calendar, error) {
	zone := zoneOf(&st.Schedule)
	now := p.now.In(zone)
	date, err := time.Parse("2006-01", cmp.Or(name, now.Format("2006-01")))
	if err != nil || date.Year() < 1970 || date.Year() > 9998 {
		return calendar{}, errNoPage
	}
	end := date.AddDate(0, 1, 0)
	out := calendar{
		Title: date.Format("January 2006"), Before: p.monthLink(st, date.AddDate(0, -1, 0)), Next: p.monthLink(st, end),
	}
	if date.Format("2006-01") != now.Format("2006-01") {
		out.Now = p.scheduleLink(st.Schedule.ID)
	}
	table, err := schedule.Compile(&st.Schedule)
	if err != nil {
		return calendar{}, err
	}
	m := month{p: p, table: table, zone: zone, date: date, first: startOf(date, zone), end: startOf(end, zone), marks: map[time.Time]firingMark{}}
	for i := range events {
		m.addEvent(&events[i])
	}
	m.addFuture(st)
	out.More = m.more
	out.Weeks = weeksOf(date, end, m.daysOf(now))
	return out, nil
}

func (p *page) monthLink(st *schedule.Standing, date time.Time) string {
	return p.scheduleLink(st.Schedule.ID, "month", date.Format("2006-01"))
}

// maxChanges bounds the changes of a clock on one day.
const maxChanges = 10

// startOf returns the first instant of a day in a zone. That is not midnight where clocks jump over it, and the first of two where they are set
// back to it.
func startOf(date time.Time, zone *time.Location) time.Time {
	at := time.Date(date.Year(), date.Month(), date.Day(), 12, 0, 0, 0, zone)
	for range maxChanges {
		hour, minute, second := at.Clock()
		midnight := at.Add(-time.Duration(hour*3600+minute*60+second) * time.Second) // if clocks do not change before at
		changed, _ := at.ZoneBounds()
		if changed.IsZero() || changed.Before(midnight) {
			return midnight
		}
		if at = changed.Add(-time.Second); at.Day() != date.Day() {
			return changed
		}
	}
	return at
}

// A month collects what becomes of the instants of a month.
type month struct {
	p          *page
	table      *schedule.Timetable
	zone       *time.Location
	date       time.Time                // its first day, in UTC: dates have no zone
	first, end time.Time                // its instants, from first on and before end
	marks      map[time.Time]firingMark // by their instants
	more       bool
}

// addMark notes what has become of an instant. A later mark of it counts.
func (m *month) addMark(at time.Time, mark firingMark) {
	if at.Before(m.first) || !at.Before(m.end) {
		return
	}
	if len(m.marks) >= countedMarks {
		m.more = true
		return
	}
	m.marks[at.UTC()] = mark
}

// addEvent adds what has become of a firing, or of several that were skipped together.
func (m *month) addEvent(ev *schedule.Event) {
	mark, ok := m.p.markOf(ev, m.zone)
	if !ok {
		return
	}
	if ev.Count <= 1 {
		m.addMark(ev.Scheduled, mark)
		return
	}
	one := *ev
	one.Count = 0
	for f := range m.table.Between(lastOf(ev.Scheduled, m.first).Add(-time.Second), firstOf(ev.Until, m.end)) {
		if !isSkippedAs(&f, ev.Skip) {
			continue
		}
		one.Scheduled = f.At
		mark, _ = m.p.markOf(&one, m.zone)
		if m.addMark(f.At, mark); m.more {
			return
		}
	}
}

// isSkippedAs reports whether an instant is one of those that were skipped for a reason: those between them that were left out
// have others.
func isSkippedAs(f *schedule.Firing, reason string) bool {
	switch left := schedule.Left(reason); left {
	case schedule.LeftExcept, schedule.LeftMissing, schedule.LeftRepeated:
		return f.Left == left
	}
	return f.Left == ""
}

// addFuture adds the firings that are to come.
func (m *month) addFuture(st *schedule.Standing) {
	word := "it fires then"
	if st.Paused != nil {
		word = "it would fire then, if it were not paused"
	}
	if st.Schedule.After > 0 {
		for _, f := range st.Next {
			m.addMark(f.At, firingMark{Class: "none", Word: word, Time: f.At.In(m.zone).Format(clockDay)})
		}
		return
	}
	for f := range m.table.Between(lastOf(m.p.now, m.first.Add(-time.Second)), m.end) {
		mark := firingMark{Class: "none", Word: word, Time: f.At.In(m.zone).Format(clockDay)}
		if f.Left != "" {
			mark.Class, mark.Word = "cancelled", "left out: "+skipWords[string(f.Left)]
		}
		if m.addMark(f.At, mark); m.more {
			return
		}
	}
}

// daysOf returns the days of the month.
func (m *month) daysOf(now time.Time) (out []calendarDay) {
	for date := m.date; date.Month() == m.date.Month(); date = date.AddDate(0, 0, 1) {
		out = append(out, calendarDay{Day: date.Day(), Name: date.Format("Mon 2"), Today: date.Format(time.DateOnly) == now.Format(time.DateOnly)})
	}
	for _, at := range slices.SortedFunc(maps.Keys(m.marks), time.Time.Compare) {
		local, mark := at.In(m.zone), m.marks[at]
		d := &out[local.Day()-1]
		mark.Word, mark.Time = mark.Time+": "+mark.Word, local.Format(clockTime)
		d.Marks = append(d.Marks, mark)
	}
	for i := range out {
		out[i].sumUp()
	}
	for ch := range m.table.Changes(m.first.Add(-time.Second), m.end) {
		if local := ch.At.In(m.zone); local.Before(m.end) {
			out[local.Day()-1].Clock = "clocks go from " + ch.From + " to " + ch.To
		}
	}
	return out
}

// markWords are the words of a sum of marks.
var markWords = map[string]string{
	"done": "completed", "failed": "failed", "running": "running", "waiting": "waiting", "cancelled": "skipped or cancelled", "none": "to come",
}

// sumUp puts sums in the place of many marks.
func (d *calendarDay) sumUp() {
	if len(d.Marks) <= shownMarks {
		return
	}
	for _, class := range []string{"failed", "waiting", "running", "cancelled", "done", "none"} {
		n := 0
		for i := range d.Marks {
			if d.Marks[i].Class == class {
				n++
			}
		}
		if n > 0 {
			d.Sums = append(d.Sums, markSum{class, markWords[class], n})
		}
	}
	d.Marks = nil
}

// weeksOf returns the days between two dates in weeks that begin on Monday, with places that are empty.
func weeksOf(first, end time.Time, days []calendarDay) [][]calendarDay {
	fromMonday := func(t time.Time) int { return (int(t.Weekday()) + 6) % 7 }
	all := append(make([]calendarDay, fromMonday(first)), days...)
	if n := fromMonday(end); n > 0 {
		all = append(all, make([]calendarDay, 7-n)...)
	}
	return slices.Collect(slices.Chunk(all, 7))
}

func lastOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func firstOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
