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

// Get returns how a schedule stands.
func (s *Scheduler) Get(ctx context.Context, id string) (schedule.Standing, error) {
	e, err := s.lockEntry(id)
	if err != nil {
		return schedule.Standing{}, err
	}
	defer e.mu.Unlock()
	return s.readStanding(ctx, e)
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

// readStanding says how a schedule stands. Its lock is held.
func (s *Scheduler) readStanding(ctx context.Context, e *entry) (schedule.Standing, error) {
	if e.recent == nil {
		if err := s.readRecent(ctx, e); err != nil {
			return schedule.Standing{}, err
		}
	}
	st := e.state
	out := schedule.Standing{
		Schedule: e.table.Schedule(), AppliedAt: st.AppliedAt, Paused: st.Paused, Next: []schedule.Firing{}, Events: slices.Clone(e.recent),
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
	f, ok := nextDue(e.table, st, now)
	if st.Paused != nil && out.Schedule.After == 0 { // what came meanwhile is skipped
		f, ok = e.table.Next(lastDue(e.table, st.Begun, now))
	}
	held := s.restored && st.Paused == nil
	for ok && !held && len(out.Next) < shownNext {
		out.Next = append(out.Next, f)
		if out.Schedule.After > 0 {
			break
		}
		due := f.Due
		f, ok = e.table.Next(f.At)
		f.Due = latest(f.Due, due)
	}
	if out.Why = e.explainRest(&out, now); held {
		out.Why = "the directory was restored: your program pauses the schedule when it opens it, until somebody resumes it"
	}
	return out, nil
}

// explainRest says what a schedule waits for, or why it does not fire.
func (e *entry) explainRest(st *schedule.Standing, now time.Time) string {
	running := e.blockingRun()
	switch {
	case st.Paused != nil && st.Paused.Incident:
		return fmt.Sprintf("it is paused since %s: %s; resume it when that is mended", instantText(st.Paused.At), st.Paused.Reason)
	case st.Paused != nil:
		return "it is paused since " + instantText(st.Paused.At) + byAndReason(st.Paused)
	case e.wait > 0:
		return "its last firing could not be committed, and is tried again: " + e.late
	case !st.Waiting.IsZero():
		return fmt.Sprintf("the firing of %s waits until run %s has ended", instantText(st.Waiting), running)
	case st.Schedule.After > 0 && running != "":
		return fmt.Sprintf("run %s is not over: the next one begins %s after its end", running, st.Schedule.After)
	case len(st.Next) == 0:
		return "it has no further instants"
	}
	text := fmt.Sprintf("it fires next at %s", instantText(st.Next[0].Due))
	if overlap := st.Schedule.Overlap; running != "" && overlap == schedule.OverlapSkip {
		return fmt.Sprintf("%s, unless run %s is not over by then: its overlap is %s", text, running, overlap)
	}
	return text
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

// readRecent reads the last events of a schedule.
func (s *Scheduler) readRecent(ctx context.Context, e *entry) error {
	recent := []schedule.Event{}
	for num := max(1, e.state.Num-shownEvents+1); num <= e.state.Num; num++ {
		s.o.Hook.Hit("schedule.read")
		v, err := s.o.Dir.Outcome(ctx, eventKey(e.id, num))
		if errors.Is(err, store.ErrNoOutcome) {
			continue
		}
		var ev schedule.Event
		if err == nil {
			err = readKept(v, &ev)
		}
		if err != nil {
			return err
		}
		recent = append(recent, ev)
	}
	e.recent = recent
	return nil
}

// eachEvent calls do with every event of a schedule, in no order: at most maxEvents. No step does so but the first one of a backfill, so that
// an opening reads none.
func (s *Scheduler) eachEvent(ctx context.Context, id string, do func(schedule.Event)) error {
	for kept, err := range s.o.Dir.OutcomesUnder(ctx, eventsKey(id)) {
		s.o.Hook.Hit("schedule.read")
		var ev schedule.Event
		if err == nil {
			err = readKept(kept.Value, &ev)
		}
		if err != nil {
			return err
		}
		do(ev)
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
