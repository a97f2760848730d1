package scheduling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/store"
)

// A Standing has at most so many.
const (
	shownEvents = 5
	shownNext   = 5
)

// Get returns how a schedule stands. While it changes, which takes long if a commit waits, that is how it stood before.
func (s *Scheduler) Get(ctx context.Context, id string) (schedule.Standing, error) {
	e := s.findEntry(id)
	if e == nil {
		return schedule.Standing{}, fmt.Errorf("%w: %q", refusal.ErrScheduleNotFound, id)
	}
	if !e.turn.tryTake() {
		if shown := e.shown.Load(); shown != nil {
			v := *shown
			return s.readStanding(ctx, id, &v, true)
		}
		if err := e.turn.takeUntil(ctx); err != nil {
			return schedule.Standing{}, err
		}
	}
	if err := s.refreshEntry(e); err != nil {
		return schedule.Standing{}, err
	}
	defer e.endTurn()
	return s.readStanding(ctx, id, &e.view, false)
}

// List yields how schedules stand, by their ids, from behind one on.
func (s *Scheduler) List(ctx context.Context, after string) iter.Seq2[schedule.Standing, error] {
	return func(yield func(schedule.Standing, error) bool) {
		for _, id := range s.sortedIDs() {
			if id <= after {
				continue
			}
			one, err := s.Get(ctx, id)
			if errors.Is(err, refusal.ErrScheduleNotFound) {
				continue // it was deleted meanwhile
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// readStanding says how a schedule stands. With busy, somebody changes it just now.
func (s *Scheduler) readStanding(ctx context.Context, id string, v *view, busy bool) (schedule.Standing, error) {
	if v.recent == nil {
		var err error
		if v.recent, err = s.readRecent(ctx, id, v.state.Num); err != nil {
			return schedule.Standing{}, err
		}
	}
	st := v.state
	out := schedule.Standing{
		Schedule: v.table.Schedule(), AppliedAt: st.AppliedAt, Paused: st.Paused, Next: []schedule.Firing{}, Events: slices.Clone(v.recent),
		Backfills: slices.Clone(st.Backfills), Fired: st.Fired, Failures: st.Failures, LagMillis: st.LagMillis,
	}
	slices.Reverse(out.Events)
	for i := range st.Live {
		out.Running = append(out.Running, st.Live[i].Run)
	}
	if st.Waiting != nil {
		out.Waiting = st.Waiting.Scheduled
	}
	now := s.now()
	f, ok := nextDue(v.table, st, now)
	if st.Paused != nil && out.Schedule.After == 0 { // what came meanwhile is skipped
		f, ok = v.table.Next(lastDue(v.table, st.Begun, now))
	}
	held := s.restored.Load() && st.Paused == nil
	for ok && !held && len(out.Next) < shownNext {
		out.Next = append(out.Next, f)
		if out.Schedule.After > 0 {
			break
		}
		due := f.Due
		f, ok = v.table.Next(f.At)
		f.Due = latest(f.Due, due)
	}
	if out.Why = v.explainRest(&out, now, busy); held {
		out.Why = "the directory was restored: your program pauses the schedule when it opens it, until somebody resumes it"
	}
	return out, nil
}

// explainRest says what a schedule waits for, or why it does not fire. With busy, somebody changes it just now.
func (v *view) explainRest(st *schedule.Standing, now time.Time, busy bool) string {
	running := v.blockingRun()
	switch {
	case st.Paused != nil && st.Paused.Incident:
		return fmt.Sprintf("it is paused since %s: %s; resume it when that is mended", instantText(st.Paused.At), st.Paused.Reason)
	case st.Paused != nil:
		return "it is paused since " + instantText(st.Paused.At) + byAndReason(st.Paused)
	case v.wait > 0:
		return "its last firing could not be committed, and is tried again: " + v.late
	case !st.Waiting.IsZero() && running == "":
		return committingText(st.Waiting)
	case !st.Waiting.IsZero():
		return fmt.Sprintf("the firing of %s waits until run %s has ended", instantText(st.Waiting), running)
	case st.Schedule.After > 0 && running != "":
		return fmt.Sprintf("run %s is not over: the next one begins %s after its end", running, st.Schedule.After)
	case len(st.Next) == 0:
		return "it has no further instants"
	case busy && !st.Next[0].Due.After(now):
		return committingText(st.Next[0].At)
	}
	text := fmt.Sprintf("it fires next at %s", instantText(st.Next[0].Due))
	if overlap := st.Schedule.Overlap; running != "" && overlap == schedule.OverlapSkip {
		return fmt.Sprintf("%s, unless run %s is not over by then: its overlap is %s", text, running, overlap)
	}
	return text
}

func committingText(at time.Time) string {
	return fmt.Sprintf("the firing of %s has come, and is being committed", instantText(at))
}

func byAndReason(p *schedule.Pause) (text string) {
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

func instantText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// readRecent reads the last events of a schedule, up to one with a number.
func (s *Scheduler) readRecent(ctx context.Context, id string, last int64) ([]schedule.Event, error) {
	recent := []schedule.Event{}
	for num := max(1, last-shownEvents+1); num <= last; num++ {
		s.o.Hook.Hit("schedule.read")
		v, err := s.o.Dir.Outcome(ctx, eventKey(id, num))
		if errors.Is(err, store.ErrNoOutcome) {
			continue
		}
		var ev schedule.Event
		if err != nil && !isDamaged(err) {
			return nil, err
		}
		if err == nil {
			err = readKept(v, &ev)
		}
		if err == nil {
			recent = append(recent, ev)
		} else {
			s.passUnread(id, eventKey(id, num), err)
		}
	}
	return recent, nil
}

// isDamaged reports whether an error is of one row alone.
func isDamaged(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrSealed)
}

// passUnread passes over an event that cannot be read, and says so once.
func (s *Scheduler) passUnread(id, key string, err error) {
	s.mu.Lock()
	told := s.unread[key]
	s.unread[key] = true
	s.mu.Unlock()
	if !told {
		s.o.Logger.Error("pawl: an event of a schedule cannot be read, and is left out", "schedule", id, "error", err)
	}
}

// eachEvent calls do with every event of a schedule that can be read, in no order: at most maxEvents. No step does so but the first one of a
// backfill, so that an opening reads none.
func (s *Scheduler) eachEvent(ctx context.Context, id string, do func(schedule.Event)) error {
	for kept, err := range s.o.Dir.OutcomesUnder(ctx, eventsKey(id)) {
		s.o.Hook.Hit("schedule.read")
		var ev schedule.Event
		switch {
		case kept.Key == "":
			return err
		case err == nil:
			err = readKept(kept.Value, &ev)
		}
		if err == nil {
			do(ev)
		} else {
			s.passUnread(id, kept.Key, err)
		}
	}
	return nil
}

// Events returns the events of a schedule that were decided between two instants, the oldest first; a zero instant is no bound.
func (s *Scheduler) Events(ctx context.Context, id string, from, until time.Time) (out []schedule.Event, err error) {
	if s.findEntry(id) == nil {
		return nil, fmt.Errorf("%w: %q", refusal.ErrScheduleNotFound, id)
	}
	err = s.eachEvent(ctx, id, func(ev schedule.Event) {
		if !ev.At.Before(from) && (until.IsZero() || ev.At.Before(until)) {
			out = append(out, ev)
		}
	})
	slices.SortFunc(out, func(a, b schedule.Event) int { return cmp.Compare(a.Num, b.Num) })
	return out, err
}
