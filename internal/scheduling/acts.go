package scheduling

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/refusal"
	runstate "github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/traceparent"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An overlapError says that a firing that somebody wants has to wait for a run.
type overlapError struct {
	overlap schedule.Overlap
	run     workflow.RunID
}

func (e *overlapError) Error() string {
	return fmt.Sprintf("busy: run %q of the schedule is not over, and its overlap is %s", string(e.run), e.overlap)
}

func (*overlapError) Unwrap() error { return actor.ErrBusy }

// The bounds of backfills.
const (
	maxBackfills = 10  // of one schedule that are not over
	maxAtOnce    = 100 // runs of one backfill
)

// Pause lets a schedule fire no more of itself. A paused schedule is left as it is.
func (s *Scheduler) Pause(ctx context.Context, id string, act runstate.Act) error {
	e, err := s.lockEntry(ctx, id)
	if err != nil {
		return err
	}
	defer e.endTurn()
	if e.state.Paused != nil {
		return nil
	}
	next := e.state.clone()
	next.Paused = &schedule.Pause{At: s.now(), By: act.By, Reason: act.Reason}
	err = s.commitState(e, next, s.numberEvent(next, schedule.Event{Kind: kindPaused, By: act.By, Reason: act.Reason}))
	s.o.Hook.Hit("schedule.paused")
	s.armEntry(e)
	return err
}

// Resume lets a schedule fire again. Its instants that came meanwhile are skipped. A schedule that is not paused is left as it is.
func (s *Scheduler) Resume(ctx context.Context, id string, act runstate.Act) error {
	if err := s.holdBeforeAct(ctx); err != nil {
		return err
	}
	e, err := s.lockEntry(ctx, id)
	if err != nil {
		return err
	}
	defer e.endTurn()
	if e.state.Paused == nil {
		return nil
	}
	next := e.state.clone()
	next.Paused, next.Failures = nil, 0
	events := e.passPaused(next, s.now())
	for i := range events {
		events[i] = s.numberEvent(next, events[i])
	}
	events = append(events, s.numberEvent(next, schedule.Event{Kind: kindResumed, By: act.By, Reason: act.Reason}))
	err = s.commitState(e, next, events...)
	s.o.Hook.Hit("schedule.resumed")
	s.armEntry(e)
	return err
}

// passPaused decides the instants that became due while the schedule was paused, and since they are its own.
func (e *entry) passPaused(next *state, now time.Time) []schedule.Event {
	from := latest(lastDue(e.table, next.Begun, e.state.Paused.At), next.Begun)
	v := verdict{state: next}
	for f := range v.lookBack(e.table, earliest(from, now), now) {
		if f.Left == "" {
			v.skipFiring(f, skipPaused, from)
		}
		if n := len(v.skips); n > 0 && v.skips[n-1].Count == maxCounted {
			break
		}
	}
	next.closeSpan(from, lastDue(e.table, next.Begun, now))
	if e.table.Schedule().After > 0 {
		next.Begun = latest(next.Begun, now)
	}
	return v.skips
}

// Trigger starts a run of a schedule now, also of one that is paused, and returns its id. The overlap binds it: it fails with
// ErrBusy where that leaves it out; where it waits, its run begins later under the id. Its trace links to the span that ctx is in. If ctx
// ends while the run begins, Trigger returns, and the run goes on to begin.
func (s *Scheduler) Trigger(ctx context.Context, id string, act runstate.Act) (workflow.RunID, error) {
	e, err := s.lockEntry(ctx, id)
	if err != nil {
		return "", err
	}
	begun := make(chan workflow.RunID, 1)
	err = s.o.Late.Until(ctx, func() error {
		defer e.endTurn()
		run, err := s.triggerEntry(ctx, e, act)
		begun <- run
		return err
	})
	if err != nil {
		return "", err
	}
	return <-begun, nil
}

// triggerEntry is Trigger in the turn of a schedule. It waits until the run has begun: another commit before that could undo it.
func (s *Scheduler) triggerEntry(ctx context.Context, e *entry, act runstate.Act) (workflow.RunID, error) {
	defer s.armEntry(e)
	if overlap := e.table.Schedule().Overlap; overlap == schedule.OverlapSkip || overlap == schedule.OverlapBuffer {
		e.look = true // the caller may know of an end that nobody has told the schedule of yet
		if err := s.settleEnds(e); err != nil {
			return "", err
		}
	}
	next := e.state.clone()
	next.Triggered = e.instantOfTrigger(s.now())
	var caller *runstate.Trace
	if parent, more := traceparent.Of(ctx); parent != "" {
		caller = &runstate.Trace{Parent: parent, State: more, At: s.now().UnixMilli()}
	}
	ev := schedule.Event{Cause: causeTrigger, Scheduled: next.Triggered, By: act.By, Reason: act.Reason}
	out, err := s.beginFiring(e, next, ev, time.Time{}, caller)
	switch {
	case err != nil:
		return "", err
	case out.Kind == kindRefused && errors.Is(e.cause, store.ErrNotPublished):
		return "", fmt.Errorf("the run cannot begin: %w", e.cause)
	case out.Kind == kindRefused:
		return "", fmt.Errorf("%w: the run cannot begin: %w", refusal.ErrInvalid, e.cause)
	}
	return schedule.Firing{At: ev.Scheduled}.RunID(e.id), nil
}

// instantOfTrigger returns the instant of a trigger that comes now: later than that of any trigger before it, and none at which the
// schedule fires of itself, because two firings of one instant are one run.
func (e *entry) instantOfTrigger(now time.Time) time.Time {
	at := latest(now, e.state.Triggered.Add(time.Millisecond))
	if f, ok := e.table.Next(at.Add(-time.Millisecond)); ok && f.At.Equal(at) {
		at = at.Add(time.Millisecond)
	}
	return at
}

// Backfill has a schedule fire at instants that have passed, and returns how many there are. An instant whose run is there, or
// was as far as the events tell, fires no second time.
func (s *Scheduler) Backfill(ctx context.Context, id string, b schedule.Backfill) (int, error) {
	e, err := s.lockEntry(ctx, id)
	if err != nil {
		return 0, err
	}
	defer e.endTurn()
	n, err := e.checkBackfill(b, s.now())
	if err != nil || n == 0 {
		return 0, err
	}
	next := e.state.clone()
	next.Backfills = append(next.Backfills, b)
	if err := s.commitState(e, next); err != nil {
		return 0, err
	}
	e.begun = nil
	s.armEntry(e)
	return n, nil
}

// checkBackfill counts the instants of a backfill.
func (e *entry) checkBackfill(b schedule.Backfill, now time.Time) (n int, err error) {
	all, err := instantsOf(e.table, b, now)
	if err == nil && len(e.state.Backfills) >= maxBackfills {
		return 0, fmt.Errorf("%w: %d backfills of schedule %q are not over", actor.ErrBusy, maxBackfills, e.id)
	}
	return len(all), err
}

// InstantsLeft returns at which instants of a backfill that begins now a schedule has not fired, as far as its events tell, and counts the
// others. The errors are those of the backfill.
func InstantsLeft(of *schedule.Schedule, events []schedule.Event, b schedule.Backfill, now time.Time) (left []schedule.Firing, had int, err error) {
	table, err := schedule.Compile(of)
	if err != nil {
		return nil, 0, err
	}
	fired := map[time.Time]bool{}
	for i := range events {
		addBegun(fired, &events[i])
	}
	left, err = instantsOf(table, b, now)
	n := len(left)
	left = slices.DeleteFunc(left, func(f schedule.Firing) bool { return fired[f.At.UTC()] })
	return left, n - len(left), err
}

// instantsOf returns the instants of a backfill.
func instantsOf(of *schedule.Timetable, b schedule.Backfill, now time.Time) (out []schedule.Firing, err error) {
	switch {
	case of.Schedule().After > 0:
		return nil, fmt.Errorf("%w: schedule %q has no instants of its own: they follow its runs", refusal.ErrInvalid, of.Schedule().ID)
	case !b.From.Before(b.To):
		return nil, fmt.Errorf("%w: a backfill goes from one instant to a later one", refusal.ErrInvalid)
	case b.To.After(now):
		return nil, fmt.Errorf("%w: a backfill is of instants that have passed: %s has not", refusal.ErrInvalid, b.To.Format(time.RFC3339))
	case b.Most < 1 || b.Most > maxAtOnce:
		return nil, fmt.Errorf("%w: a backfill has 1 to %d runs at once", refusal.ErrInvalid, maxAtOnce)
	}
	for f := range firingsOf(of, b) {
		if out = append(out, f); len(out) > maxCounted {
			return nil, fmt.Errorf("%w: that is more than %d firings", refusal.ErrInvalid, maxCounted)
		}
	}
	return out, nil
}

// firingsOf yields the instants of a backfill at which a schedule fires: none if they follow its runs. It passes over exceptions, however
// long they are.
func firingsOf(t *schedule.Timetable, b schedule.Backfill) iter.Seq[schedule.Firing] {
	return func(yield func(schedule.Firing) bool) {
		if t.Schedule().After > 0 {
			return
		}
		for f, ok := t.Next(b.From); ok && !f.At.After(b.To); f, ok = t.Next(f.At) {
			if !yield(f) {
				return
			}
		}
	}
}

// canBackfill reports whether a run of a backfill may begin, or a backfill is over.
func (e *entry) canBackfill() bool {
	return len(e.state.Backfills) > 0 && e.state.Paused == nil && e.state.countLive(true) < e.state.Backfills[0].Most
}

// maxBackfilled bounds the firings of backfills in one step, since those that are refused are no runs that it would wait for.
const maxBackfilled = 64

// goOnWithBackfills lets runs of the first backfill begin, as many as may be there at once.
func (s *Scheduler) goOnWithBackfills(e *entry) error {
	for n := 0; n < maxBackfilled && e.canBackfill(); n++ {
		if e.begun == nil {
			if err := s.readBegun(e); err != nil {
				return err
			}
		}
		next := e.state.clone()
		f, ok := e.nextBackfilled(next)
		if !ok {
			next.Backfills = next.Backfills[1:]
			if err := s.commitState(e, next); err != nil {
				return err
			}
			continue
		}
		s.o.Hook.Hit("schedule.backfill")
		b := &next.Backfills[0]
		ev := schedule.Event{Cause: causeBackfill, Scheduled: f.At, By: b.By, Reason: b.Reason}
		if _, err := s.beginFiring(e, next, ev, time.Time{}, nil); err != nil {
			return err
		}
	}
	if len(e.state.Backfills) == 0 {
		e.begun = nil
	}
	return nil
}

// nextBackfilled returns the next firing of the first backfill that has not been, and leaves the backfill behind it.
func (e *entry) nextBackfilled(next *state) (schedule.Firing, bool) {
	b := &next.Backfills[0]
	for f := range firingsOf(e.table, *b) {
		if !e.begun[f.At] {
			b.From = f.At
			return f, true
		}
	}
	return schedule.Firing{}, false
}

// readBegun reads from the events which instants have had a run.
func (s *Scheduler) readBegun(e *entry) error {
	begun := map[time.Time]bool{}
	err := s.eachEvent(s.o.Alive, e.id, func(ev schedule.Event) { addBegun(begun, &ev) })
	if err == nil {
		e.begun = begun
	}
	return err
}

// countBegun notes the instant of an event among those that have had a run, if these were read: a backfill may come to it later.
func (e *entry) countBegun(ev schedule.Event) {
	if e.begun != nil {
		addBegun(e.begun, &ev)
	}
}

func addBegun(begun map[time.Time]bool, ev *schedule.Event) {
	if ev.Kind == kindStarted || ev.Kind == kindJoined {
		begun[ev.Scheduled.UTC()] = true
	}
}
