package schedule

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// A Firing is one instant of a schedule.
type Firing struct {
	At    time.Time `json:"at"`              // the instant, in UTC and whole seconds; it is in the id of the run
	Due   time.Time `json:"due"`             // At and the jitter: when the run is to start, in whole milliseconds; an engine starts it no earlier than those of earlier instants
	Local string    `json:"local"`           // the time on the clock of the zone that the schedule names: 2027-03-28 02:30
	Clock Clock     `json:"clock,omitempty"` // whether that time is special; empty on most days
	Left  Left      `json:"left,omitempty"`  // why it does not fire; empty if it does
}

// A Clock says whether a time on the clock is special.
type Clock string

// The special times. The empty value is a time that occurs once.
const (
	ClockShifted Clock = "shifted" // clocks jump over the time: it fires later by the length of the jump
	ClockFirst   Clock = "first"   // the clock shows the time twice, and this is the first
	ClockSecond  Clock = "second"  // the clock shows the time twice, and this is the second
)

// Left says why a schedule does not fire at an instant.
type Left string

// The reasons. The empty value is a firing.
const (
	LeftExcept   Left = "except"   // Except excludes it
	LeftMissing  Left = "missing"  // clocks jump over it, and the schedule skips such times
	LeftRepeated Left = "repeated" // the clock shows it twice, and the schedule takes the other one
)

// RunID returns the id of the run that a firing starts: the schedule's, @, and the instant, such as
// nightly@2026-11-22T01:00:00Z.
func (f Firing) RunID(schedule string) workflow.RunID {
	return workflow.RunID(schedule + "@" + formatInstant(f.At))
}

// A Timetable computes the instants of one schedule. It is immutable, and may be used by many goroutines at a time.
type Timetable struct {
	schedule Schedule
	zone     *time.Location
	crons    []*cron
	except   []*cron
	at       []int64 // sorted
}

// A Compiler makes timetables, and reads each time zone once. The zero value is ready. It
// must not be used by several goroutines at a time.
type Compiler struct {
	zones map[string]*time.Location
}

// Compile returns the timetable of a schedule; nil is an empty schedule. The error is an *Error with the problems of its times. Use
// [Schedule.Check] to check its other fields too; [Timetable.Input] compiles the expressions of the input. Unlike Check, Compile takes
// zones that are in the files of one machine alone, such as localtime, because schedules that were stored before Check refused them go on.
func (c *Compiler) Compile(s *Schedule) (*Timetable, error) {
	if s == nil {
		s = &Schedule{}
	}
	if c.zones == nil {
		c.zones = map[string]*time.Location{}
	}
	k := checker{schedule: s, zones: c.zones, compiles: true}
	t := k.checkTimes()
	if err := errorOf(k.problems); err != nil {
		return nil, err
	}
	return t, nil
}

// Compile returns the timetable of one schedule; see [Compiler.Compile].
func Compile(s *Schedule) (*Timetable, error) { return new(Compiler).Compile(s) }

// Schedule returns the schedule of the timetable with its defaults filled in, as [Schedule.Complete] does.
func (t *Timetable) Schedule() Schedule { return t.schedule }

// Next returns the first firing whose instant is later than after, and false if there is none. For a schedule with After,
// pass the end of the previous run or, before the first, the instant at which the schedule was applied: the firing comes
// After later, rounded up to a full second, and not before Start. Next takes some microseconds, also where exceptions leave a month out, and looks at most
// 40 years ahead: it takes some milliseconds if it finds nothing there.
func (t *Timetable) Next(after time.Time) (Firing, bool) {
	from := after.Unix()
	if t.schedule.After > 0 && after.Nanosecond() > 0 {
		from++
	}
	for range maxLeft {
		f, ok := t.nextOf(from, false)
		if !ok || f.Left == "" {
			return f, ok
		}
		from = f.At.Unix()
	}
	return Firing{}, false
}

// maxLeft bounds the instants in a row that a schedule leaves out because clocks show them twice: there are fewer within the
// horizon. Exceptions are none of them, because each search passes over those.
const maxLeft = 100_000

// Between returns the instants that are later than after and not later than until, in order: those at which the schedule
// fires, and those that it leaves out, with the reason in Left. A schedule with After has none here, because its
// instants depend on its runs.
func (t *Timetable) Between(after, until time.Time) iter.Seq[Firing] {
	return func(yield func(Firing) bool) {
		if t.schedule.After > 0 {
			return
		}
		from := after.Unix()
		for {
			f, ok := t.nextOf(from, true)
			if !ok || f.At.After(until) || !yield(f) {
				return
			}
			from = f.At.Unix()
		}
	}
}

// A ClockChange is an instant at which the clock of a zone changes.
type ClockChange struct {
	At   time.Time `json:"at"`   // in UTC
	From string    `json:"from"` // the time that the clock would show without the change: 02:00
	To   string    `json:"to"`   // the time that it shows: 03:00
}

// Changes returns the changes of the clock that a schedule follows, later than after and not later than until, in order.
func (t *Timetable) Changes(after, until time.Time) iter.Seq[ClockChange] {
	return func(yield func(ClockChange) bool) {
		if t.zone == nil {
			return // of the zero value
		}
		for at := after.Unix(); at <= until.Unix(); {
			p := periodAt(at, t.zone)
			if at = p.end; at > until.Unix() {
				return
			}
			change := ClockChange{time.Unix(at, 0).UTC(), wall(at + p.offset).date().Format("15:04"), wall(at + p.ahead).date().Format("15:04")}
			if p.ahead != p.offset && !yield(change) {
				return
			}
		}
	}
}

// nextOf returns the first instant later than from, in seconds since 1970. all says that exceptions are returned too.
func (t *Timetable) nextOf(from int64, all bool) (Firing, bool) {
	s := &t.schedule
	follows := from + int64((s.After+time.Second-1)/time.Second) // with After: Start bounds the instant, and not what it counts from
	if !s.Start.IsZero() {
		from, follows = max(from, s.Start.Unix()-1), max(follows, s.Start.Unix())
	}
	var c candidate
	switch {
	case s.Every > 0:
		c = t.nextEvery(from, all)
	case s.After > 0:
		c = candidate{at: follows, ok: true}
	case len(t.at) > 0:
		if i, _ := slices.BinarySearch(t.at, from+1); i < len(t.at) {
			c = candidate{at: t.at[i], ok: true}
		}
	default:
		c = t.nextCron(from, all)
	}
	if !c.ok || !s.End.IsZero() && c.at >= s.End.Unix() {
		return Firing{}, false
	}
	return t.firingOf(c), true
}

// firingOf returns a candidate in the form for others.
func (t *Timetable) firingOf(c candidate) Firing {
	at := time.Unix(c.at, 0).UTC()
	local := at.In(t.zone)
	if c.clock == ClockShifted || c.left == LeftMissing {
		local = c.wall.date()
	}
	form := "2006-01-02 15:04"
	if local.Second() != 0 {
		form = "2006-01-02 15:04:05"
	}
	return Firing{At: at, Due: at.Add(jitterOf(t.schedule.ID, at, t.schedule.Jitter)), Local: local.Format(form), Clock: c.clock, Left: c.left}
}

// jitterOf returns what is added to an instant: from 0 on and less than most, in whole milliseconds. It is a part of the
// SHA-256 of the schedule and the instant, so that it is the same on every machine, and differs between schedules.
func jitterOf(id string, at time.Time, most time.Duration) time.Duration {
	steps := uint64(most / time.Millisecond)
	if steps == 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(id + "@" + formatInstant(at)))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%steps) * time.Millisecond
}

// A candidate is an instant in seconds since 1970, with the time on the clock that led to it.
type candidate struct {
	at    int64
	wall  wall
	clock Clock
	left  Left
	ok    bool
}

// earlier returns the earlier of two candidates. At the same instant, a firing counts more than what is left out, and a
// usual time more than a shifted one.
func (c candidate) earlier(d candidate) candidate {
	switch {
	case !d.ok || c.ok && c.at < d.at:
		return c
	case !c.ok || d.at < c.at:
		return d
	case c.left != d.left && d.left == "", c.left == d.left && d.clock == "":
		return d
	}
	return c
}

// nextEvery returns the first multiple after from. The exceptions, which are times on the clock, leave some out.
func (t *Timetable) nextEvery(from int64, all bool) candidate {
	at := t.multipleFrom(from + 1)
	out := candidate{at: at, ok: true}
	if len(t.except) > 0 {
		out.left = t.leftOf(wall(at + offsetOf(time.Unix(at, 0).In(t.zone))))
	}
	if all || out.left == "" {
		return out
	}
	search := everySearch{t: t}
	for end := at + horizon; at < end; {
		if at, out.ok = search.nextOfPart(at); out.ok {
			return candidate{at: at, ok: true}
		}
	}
	return candidate{}
}

// multipleFrom returns the first multiple of every, from at on.
func (t *Timetable) multipleFrom(at int64) int64 {
	step, offset := int64(t.schedule.Every/time.Second), int64(t.schedule.Offset/time.Second)
	return at + mod(offset-at, step)
}

// An everySearch looks for a multiple of every that no exception has.
type everySearch struct {
	t      *Timetable
	offset int64      // of the zone, at which
	hits   dayMinutes // are the minutes of a day that have a multiple, on some days at least; the zero value was not computed
}

// nextOfPart returns the first multiple, from the multiple at on, that no exception has, and true, if it is on the same day and in the
// same period of the zone; else the first multiple behind these. It goes from one minute to the next that has a multiple and no exception,
// so that it looks at no more than there are such minutes.
func (s *everySearch) nextOfPart(at int64) (int64, bool) {
	p := periodAt(at, s.t.zone)
	if s.offset != p.offset || s.hits == (dayMinutes{}) {
		s.offset, s.hits = p.offset, s.t.minutesOfEvery(p.offset)
	}
	today := wall(at + p.offset).date()
	free := freeOf(s.t.except, int(today.Month()), today.Day(), 1<<today.Weekday())
	for hour := range free {
		free[hour] &= s.hits[hour]
	}
	midnight := at - mod(at+p.offset, day)
	end := min(p.end, midnight+day)
	for at < end {
		now := int(at-midnight) / minute
		next, ok := free.nextMinute(now)
		if ok && next == now {
			return at, true
		}
		to := end
		if ok {
			to = min(end, midnight+int64(next)*minute)
		}
		at = s.t.multipleFrom(to)
	}
	return at, false
}

// minutesOfEvery returns the minutes of a day in which there is a multiple of every on some day at least, at an offset of the zone: the
// multiples of all days are as far from midnight as the common divisor of every and a day allows.
func (t *Timetable) minutesOfEvery(offset int64) (out dayMinutes) {
	common, rest := int64(day), int64(t.schedule.Every/time.Second)
	for rest > 0 {
		common, rest = rest, common%rest
	}
	first := offset + int64(t.schedule.Offset/time.Second)
	for n := range day / minute {
		if mod(first-int64(n*minute), common) < minute {
			out[n/60] |= 1 << (n % 60)
		}
	}
	return out
}

// mod returns n modulo m, which is not negative.
func mod(n, m int64) int64 { return (n%m + m) % m }

// nextCron returns the first instant after from of all expressions.
func (t *Timetable) nextCron(from int64, all bool) candidate {
	var first candidate
	for _, c := range t.crons {
		first = first.earlier(t.nextOfCron(c, from, all))
	}
	return first
}

// nextOfCron returns the first instant after from of one expression. It goes from period to period of the zone.
func (t *Timetable) nextOfCron(c *cron, from int64, all bool) candidate {
	var first candidate
	for at := from + 1; at < from+horizon; {
		p := periodAt(at, t.zone)
		first = first.earlier(t.nextUsual(c, p, at, all)).earlier(t.nextShifted(c, p, at, all))
		// A shifted time of a short period may be in the next one, whose own times may come before it.
		if first.ok && first.at < p.end || p.end == noEnd {
			break
		}
		at = p.end
	}
	return first
}

// nextUsual returns the first instant of a period, from at on, at which the clock shows a time that fits.
func (t *Timetable) nextUsual(c *cron, p period, at int64, all bool) candidate {
	except := t.except
	if all {
		except = nil
	}
	end := min(p.end, at+horizon)
	w, ok := c.next(wall(at+p.offset), wall(end+p.offset), except)
	if !ok {
		return candidate{}
	}
	out := candidate{at: int64(w) - p.offset, wall: w, ok: true, left: t.leftOf(w)}
	switch repeated := t.repeatedOf(c); {
	case p.offset < p.behind && int64(w) < p.start+p.behind:
		if out.clock = ClockSecond; repeated == RepeatedFirst {
			out.left = LeftRepeated
		}
	case p.ahead < p.offset && int64(w) >= p.end+p.ahead:
		if out.clock = ClockFirst; repeated == RepeatedLast {
			out.left = LeftRepeated
		}
	}
	return out
}

// nextShifted returns the first instant, from at on, of a time over which clocks jumped when the period began. Exceptions are of that
// time, and of the one that the clock shows.
func (t *Timetable) nextShifted(c *cron, p period, at int64, all bool) candidate {
	if p.offset <= p.behind || t.schedule.DST.Missing == "" && c.elapsed || !all && t.schedule.DST.Missing == MissingSkip {
		return candidate{}
	}
	except := t.except
	if all {
		except = nil
	}
	jump, end := wall(p.offset-p.behind), wall(p.start+p.offset)
	w, ok := c.next(wall(max(at, p.start)+p.behind), end, except)
	for ok && !all && t.leftOf(w+jump) != "" {
		w, ok = c.next(w+minute, end, except)
	}
	if !ok {
		return candidate{}
	}
	out := candidate{at: int64(w) - p.behind, wall: w, clock: ClockShifted, ok: true, left: cmp.Or(t.leftOf(w), t.leftOf(w+jump))}
	if t.schedule.DST.Missing == MissingSkip {
		out.clock, out.left = "", LeftMissing
	}
	return out
}

// leftOf returns LeftExcept if an exception has a time on the clock.
func (t *Timetable) leftOf(w wall) Left {
	if slices.ContainsFunc(t.except, func(e *cron) bool { return e.fitsClock(w) }) {
		return LeftExcept
	}
	return ""
}

// repeatedOf returns what an expression does with a time that is there twice.
func (t *Timetable) repeatedOf(c *cron) Repeated {
	switch {
	case t.schedule.DST.Repeated != "":
		return t.schedule.DST.Repeated
	case c.elapsed:
		return RepeatedBoth
	}
	return RepeatedFirst
}
