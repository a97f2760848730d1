package scheduling

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-run/pawl/schedule"
)

// Bounds of what is decided at once.
const (
	maxLooked  = 100_000          // instants of one schedule within its window
	maxCounted = 10_000           // instants that are counted when they are skipped together
	missedFrom = 10 * time.Second // so late a firing counts as missed: CatchUp.Most bounds those; others fire, each of them
)

// A verdict is what is to be done about the instants that have come.
type verdict struct {
	skips []schedule.Event  // in order, without the fields that every event has
	fires []schedule.Firing // in order
	state *state            // with skips decided; fires are not
}

// windowOf returns the window of a schedule. That of one that fires every few seconds is bounded by the instants in it.
func windowOf(s *schedule.Schedule) time.Duration {
	if s.Every > 0 && s.CatchUp.Window/s.Every > maxLooked {
		return maxLooked * s.Every
	}
	return s.CatchUp.Window
}

// decideInstants returns what is to be done now. It is pure.
//
// An instant is decided once: it is in a span of the state then, and stays there, whatever the clock does. The instants that were
// due before the window are passed over and not decided: they are told once, and a clock that was wrong and is set back to before
// them finds them as they were. An instant that does not fire keeps those before it undecided that do.
func decideInstants(t *schedule.Timetable, s *state, now time.Time) verdict {
	v := verdict{state: s.clone()}
	if now.Before(s.Begun) { // the clock was ahead when the schedule came
		v.state.Begun = now
	}
	c := t.Schedule()
	if c.After > 0 {
		v.decideAfter(t, now)
		return v
	}
	floor := now.Add(-windowOf(&c) - c.Jitter)
	v.passOver(t, floor)
	from := latest(v.state.Begun, floor)
	var due []schedule.Firing
	fired := from
	for f := range v.lookBack(t, from, now) {
		switch {
		case f.Left != "":
			v.skipFiring(f, string(f.Left), fired)
		case now.Sub(f.Due) > windowOf(&c):
			v.skipFiring(f, skipWindow, from)
		default:
			due, fired = append(due, f), f.At
		}
	}
	v.catchUp(due, c.CatchUp.Most, from, now)
	return v
}

// catchUp keeps the latest of those that are missed, and all others.
func (v *verdict) catchUp(due []schedule.Firing, most int, from, now time.Time) {
	missed := 0
	for _, f := range due {
		if now.Sub(f.Due) > missedFrom {
			missed++
		}
	}
	for i, f := range due {
		if i < missed-most {
			v.skipFiring(f, skipMost, from)
		} else {
			v.fires = append(v.fires, f)
		}
	}
}

// decideAfter is decide for a schedule whose instants follow its runs. No window binds it: there is one instant, and without it
// there would be no further one.
func (v *verdict) decideAfter(t *schedule.Timetable, now time.Time) {
	if f, ok := afterLast(t, v.state, now); ok && !f.Due.After(now) {
		v.fires = []schedule.Firing{f}
	}
}

// afterLast returns the next instant of a schedule whose instants follow its runs; false while one is there.
func afterLast(t *schedule.Timetable, s *state, now time.Time) (schedule.Firing, bool) {
	if s.countLive(false) > 0 || s.Waiting != nil {
		return schedule.Firing{}, false
	}
	return t.Next(earliest(s.baseOf(), now))
}

// baseOf returns the instant from which a schedule counts whose instants follow its runs.
func (s *state) baseOf() time.Time {
	base := latest(s.Begun, s.LastEnd)
	if n := len(s.Done); n > 0 { // also one that was refused is behind it
		base = latest(base, s.Done[n-1].To)
	}
	return base
}

// isAhead reports whether the clock was set back behind the base of a schedule. Such a base is lowered once, and that is kept: one
// that went along with the clock would never come. Less than a second is left as it is.
func (e *entry) isAhead(now time.Time) bool {
	base := e.state.Begun
	if e.table.Schedule().After > 0 {
		base = e.state.baseOf()
	}
	return base.Sub(now) > time.Second
}

// lowerBase returns the state with the base at now. Decided instants stay so, unless they follow runs.
func (s *state) lowerBase(now time.Time, followsRuns bool) *state {
	out := s.clone()
	out.Begun, out.Told = earliest(s.Begun, now), earliest(s.Told, now)
	if !followsRuns {
		return out
	}
	out.LastEnd = earliest(s.LastEnd, now)
	out.Done = slices.DeleteFunc(out.Done, func(d span) bool { return !d.From.Before(now) })
	if n := len(out.Done); n > 0 {
		out.Done[n-1].To = earliest(out.Done[n-1].To, now)
	}
	return out
}

// passOver tells what came too late since it was told last, and what did not fire there anyway: one event for each reason. It stops at
// the first decided instant: spans never begin before those that are older, so the rest was told.
func (v *verdict) passOver(t *schedule.Timetable, floor time.Time) {
	from := latest(v.state.Begun, v.state.Told)
	from = v.state.lastDone(from, floor)
	if !from.Before(floor) {
		return
	}
	counted := 0
	for f := range t.Between(from, floor) {
		if _, done := v.state.isDone(f.At); done {
			return
		}
		v.state.Told = floor
		v.tellPassed(f, cmp.Or(string(f.Left), skipWindow))
		if counted++; counted == maxCounted {
			return
		}
	}
}

// tellPassed tells of an instant that is passed over for a reason, together with the others.
func (v *verdict) tellPassed(f schedule.Firing, why string) {
	i := slices.IndexFunc(v.skips, func(e schedule.Event) bool { return e.Skip == why })
	if i < 0 {
		i = len(v.skips)
		v.skips = append(v.skips, schedule.Event{Kind: kindSkipped, Cause: causeInstant, Scheduled: f.At, Skip: why})
	}
	v.skips[i].Until = f.At
	v.skips[i].Count++
}

// lookBack yields the undecided instants after from, each due no earlier than the ones before it: an instant waits for those, however
// long their jitter is, and is late only after that.
func (v *verdict) lookBack(t *schedule.Timetable, from, now time.Time) func(yield func(schedule.Firing) bool) {
	return func(yield func(schedule.Firing) bool) {
		for {
			until := time.Time{}
			high := highDue(t, v.state.Begun, from)
			for f := range t.Between(from, now) {
				done := false
				if until, done = v.state.isDone(f.At); done {
					break
				}
				if f.Left == "" {
					high = latest(high, f.Due)
				}
				if f.Due = high; f.Left == "" && high.After(now) || !yield(f) {
					return
				}
			}
			if until.IsZero() || !until.Before(now) {
				return
			}
			from = until
		}
	}
}

// highDue returns the last instant at which a firing up to at is due; it may be zero if that is not later than at. Firings of every are
// due in their order, because their jitter is less than what is between them.
func highDue(t *schedule.Timetable, begun, at time.Time) (high time.Time) {
	c := t.Schedule()
	if c.Jitter == 0 || c.Every > 0 {
		return high
	}
	for f := range t.Between(latest(begun, at.Add(-c.Jitter)), at) {
		if f.Left == "" {
			high = latest(high, f.Due)
		}
	}
	return high
}

// lastDue returns up to where all instants are due at now.
func lastDue(t *schedule.Timetable, begun, now time.Time) time.Time {
	c := t.Schedule()
	at := now.Add(-c.Jitter)
	if c.Jitter == 0 || highDue(t, begun, at).After(now) {
		return at
	}
	for f := range t.Between(latest(begun, at), now) {
		if f.Left == "" && f.Due.After(now) {
			break
		}
		at = f.At
	}
	return at
}

// skipFiring decides that an instant does not fire. Instants in a row that are skipped for one reason are told together.
func (v *verdict) skipFiring(f schedule.Firing, why string, from time.Time) {
	v.state.closeSpan(v.state.lastDone(from, f.At), f.At)
	if n := len(v.skips); n > 0 && v.skips[n-1].Skip == why {
		e := &v.skips[n-1]
		e.Until, e.Count = f.At, min(max(e.Count, 1)+1, maxCounted)
		return
	}
	v.skips = append(v.skips, schedule.Event{Kind: kindSkipped, Cause: causeInstant, Scheduled: f.At, Skip: why})
}

// nextDue returns the next firing that has not come yet; false if there is none, or if it depends on a run that is there.
func nextDue(t *schedule.Timetable, s *state, now time.Time) (schedule.Firing, bool) {
	c := t.Schedule()
	if c.After > 0 {
		return afterLast(t, s, now)
	}
	begun := earliest(s.Begun, now)
	from := latest(begun, now.Add(-windowOf(&c)-c.Jitter))
	for {
		f, ok := t.Next(from)
		if !ok {
			return f, false
		}
		until, done := s.isDone(f.At)
		if !done {
			f.Due = latest(f.Due, highDue(t, begun, f.At))
			return f, true
		}
		from = until
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
