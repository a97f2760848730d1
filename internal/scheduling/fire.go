package scheduling

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/refusal"
	runstate "github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// maxLive bounds the runs of a schedule that are there at once, with OverlapAllow: what comes beyond is skipped as an overlap.
const maxLive = 1000

// fireDue decides the instants that have come.
func (s *Scheduler) fireDue(e *entry) error {
	now := s.now()
	if e.isAhead(now) {
		if err := s.commitState(e, e.state.lowerBase(now, e.table.Schedule().After > 0)); err != nil {
			return err
		}
	}
	v := decideInstants(e.table, e.state, now)
	if len(v.skips) > 0 {
		if err := s.keepSkips(e, v.state, v.skips); err != nil {
			return err
		}
	}
	for _, f := range v.fires {
		if e.state.Paused != nil { // the one before has failed once too often
			return nil
		}
		if err := s.fireAt(e, f); err != nil {
			return err
		}
	}
	return nil
}

// keepSkips keeps that firings were skipped.
func (s *Scheduler) keepSkips(e *entry, next *state, skips []schedule.Event) error {
	s.o.Hook.Hit("schedule.skip")
	for i := range skips {
		skips[i] = s.numberEvent(next, skips[i])
	}
	return s.commitState(e, next, skips...)
}

// fireAt decides one instant that has come: a run begins, or the overlap says otherwise.
func (s *Scheduler) fireAt(e *entry, f schedule.Firing) error {
	s.o.Hook.Hit("schedule.due")
	next := e.state.clone()
	if c := e.table.Schedule(); c.After > 0 {
		next.closeSpan(f.At.Add(-time.Second), f.At)
	} else {
		floor := latest(earliest(next.Begun, f.At), s.now().Add(-windowOf(&c)-c.Jitter))
		floor = earliest(floor, f.At.Add(-time.Second)) // time goes on: the instant may have left the window since it was found
		next.closeSpan(next.lastDone(floor, f.At), f.At)
	}
	_, err := s.beginFiring(e, next, schedule.Event{Cause: causeInstant, Scheduled: f.At}, f.Due, nil)
	return err
}

// releaseWaiting lets the firing begin that waits.
func (s *Scheduler) releaseWaiting(e *entry) error {
	s.o.Hook.Hit("schedule.release")
	next := e.state.clone()
	ev, caller := *next.Waiting, next.Caller
	next.Waiting, next.Caller = nil, nil
	_, err := s.beginFiring(e, next, ev, time.Time{}, caller)
	return err
}

// canRelease reports whether a firing waits that may begin now.
func (e *entry) canRelease() bool {
	return e.state.Waiting != nil && e.state.Paused == nil && e.state.countLive(false) == 0
}

// beginFiring makes a firing: next is the state in which it is decided, due when its run was to begin, and caller the span of who
// triggered it, if one did. The event says what has come of it. An error means that nothing was decided.
func (s *Scheduler) beginFiring(e *entry, next *state, ev schedule.Event, due time.Time, caller *runstate.Trace) (schedule.Event, error) {
	if out, over, err := s.decideOverlap(e, next, ev, caller); over || err != nil {
		return out, err
	}
	ev.Run = schedule.Firing{At: ev.Scheduled}.RunID(e.id)
	c := e.table.Schedule()
	next.Fired++
	last, err := s.lastOf(next)
	if err != nil {
		return ev, err
	}
	input, err := e.table.Input(ev.Scheduled, next.Fired, last)
	if err != nil {
		return s.refuseFiring(e, next, ev, err)
	}
	now := s.now()
	if !due.IsZero() {
		next.LagMillis = max(now.Sub(due), 0).Milliseconds()
	}
	ev.Kind = kindStarted
	ev = s.numberEvent(next, ev)
	next.Live = append(next.Live, ev)
	var failed error
	var before func() error
	if c.Overlap == schedule.OverlapCancel && ev.Cause != causeBackfill && e.state.countLive(false) > 0 {
		before = func() error {
			failed = s.cancelLive(e)
			return failed
		}
	}
	rows, err := s.rowsOf(e, next, []schedule.Event{ev})
	if err != nil {
		return ev, err
	}
	s.ownRun(e, ev.Run)
	s.o.Hook.Hit("schedule.start")
	err = s.o.Runs.StartKeeping(Start{
		Run:   workflow.Run{ID: ev.Run, Workflow: c.Workflow.Name, Version: c.Workflow.Version, Labels: c.Labels, Tenant: c.Tenant, MetaLimits: c.MetaLimits},
		Input: input, Scheduled: ev.Scheduled, By: cmp.Or(ev.By, byOf(e.id)), Reason: ev.Reason, Caller: caller, Keep: rows, Before: before,
	})
	s.o.Hook.Hit("schedule.started")
	switch {
	case err == nil:
		e.takeState(next, []schedule.Event{ev})
		if !due.IsZero() {
			s.o.Metrics.ScheduleFired(e.id, s.now().Sub(due))
		}
		return ev, nil
	case errors.Is(err, runstate.ErrRunExists):
		return s.joinRun(e, next, ev)
	case mayPass(err), failed != nil, s.o.Alive.Err() != nil: // the engine that opens the directory next decides
		s.disownRun(ev.Run)
		e.stale = e.stale || errors.Is(err, runstate.ErrUnknown)
		return ev, fmt.Errorf("start run %q: %w", string(ev.Run), err)
	}
	s.disownRun(ev.Run)
	next.Live = next.Live[:len(next.Live)-1]
	return s.refuseFiring(e, next, ev, err)
}

// mayPass reports whether an error of a start says nothing about the run: it is tried again.
func mayPass(err error) bool {
	for _, cause := range []error{runstate.ErrUnknown, store.ErrNoSpace, store.ErrRemote, store.ErrFailed, store.ErrClosed, refusal.ErrClosed, refusal.ErrMaintenance} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return refusal.Of(err).Later || refusal.Of(err).Code == refusal.CodeInternal
}

// decideOverlap says what becomes of a firing while other runs are there: over if no run is to begin for it. Runs that the firing cancels
// go on until its own would not be refused. Backfills count theirs themselves. The state keeps the caller of the firing that waits, and of
// no other.
func (s *Scheduler) decideOverlap(e *entry, next *state, ev schedule.Event, caller *runstate.Trace) (out schedule.Event, over bool, err error) {
	live := next.countLive(false)
	if ev.Cause == causeBackfill || live == 0 {
		return ev, false, nil
	}
	switch policy := e.table.Schedule().Overlap; {
	case policy == schedule.OverlapCancel:
		return ev, false, nil
	case policy == schedule.OverlapAllow && live < maxLive:
		return ev, false, nil
	case policy == schedule.OverlapBuffer && next.Waiting == nil:
		ev.Kind = kindWaiting
		ev.Run = e.blockingRun()
		ev = s.numberEvent(next, ev)
		next.Waiting, next.Caller = &ev, caller
		return ev, true, s.commitState(e, next, ev)
	}
	if ev.Cause == causeTrigger {
		return ev, true, &overlapError{e.table.Schedule().Overlap, e.blockingRun()}
	}
	ev.Kind, ev.Skip, ev.Run = kindSkipped, skipOverlap, e.blockingRun()
	return ev, true, s.keepSkips(e, next, []schedule.Event{ev})
}

// blockingRun returns the first run that other firings wait for, or are skipped for.
func (v *view) blockingRun() workflow.RunID {
	for i := range v.state.Live {
		if v.state.Live[i].Cause != causeBackfill {
			return v.state.Live[i].Run
		}
	}
	return ""
}

// cancelLive cancels the runs that are there, but for those of backfills. They leave the state when they have ended. It commits the row as it
// is first: a disk without room for that has none for the next run, and may have some for a cancellation.
func (s *Scheduler) cancelLive(e *entry) error {
	if err := s.commitState(e, e.state); err != nil {
		return err
	}
	for i := range e.state.Live {
		if e.state.Live[i].Cause == causeBackfill {
			continue
		}
		err := s.o.Runs.CancelRun(e.state.Live[i].Run, byOf(e.id), "the schedule starts its next run")
		if err != nil && !cannotCancel(err) {
			return err
		}
		s.o.Hook.Hit("schedule.cancelled")
	}
	return nil
}

// cannotCancel reports whether an error says that a run is not there, or cannot go on.
func cannotCancel(err error) bool {
	return errors.Is(err, store.ErrRunNotFound) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrVersion)
}

// byOf returns the name in which a schedule calls the engine.
func byOf(id string) string { return "schedule " + id }

// refuseFiring decides a firing whose run cannot begin. It counts as a run that has failed. The cause may quote values of runs: the event
// has it as its error, which is shown to those who may see values, and the reason of the pause, which is shown to all, has it not.
func (s *Scheduler) refuseFiring(e *entry, next *state, ev schedule.Event, cause error) (schedule.Event, error) {
	if ev.Kind == kindStarted {
		next.Num--
	}
	next.Fired--
	run := ev.Run
	e.cause = cause
	if e.table.Schedule().After > 0 && ev.Cause == causeInstant { // the next one comes after that time, not once for each that has gone by
		next.Begun = latest(next.Begun, s.now().Truncate(time.Second))
	}
	ev.Kind, ev.Run, ev.Error = kindRefused, "", cause.Error()
	events := []schedule.Event{s.numberEvent(next, ev)}
	if paused, ok := s.countFailure(e, next, "its run could not begin"); ok {
		events = append(events, paused)
	}
	if err := s.commitState(e, next, events...); err != nil {
		return ev, err
	}
	s.o.Logger.Warn("pawl: a schedule could not start its run", "schedule", e.id, "run", string(run), "scheduled", ev.Scheduled, "error", cause)
	return events[0], nil
}

// joinRun decides a firing under whose id there is a run: somebody has started it, or the clock was set back.
func (s *Scheduler) joinRun(e *entry, next *state, ev schedule.Event) (schedule.Event, error) {
	next.Fired--
	ev.Kind = kindJoined
	next.Live[len(next.Live)-1] = ev
	if err := s.commitState(e, next, ev); err != nil {
		s.disownRun(ev.Run)
		return ev, err
	}
	e.look = true // it may have ended before it was known
	return ev, nil
}

// ownRun notes whose run one is, before it begins: it may end before its start has returned.
func (s *Scheduler) ownRun(e *entry, run workflow.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[run] = e
}

// ownLive notes whose the runs of a schedule are that are not known to have ended.
func (s *Scheduler) ownLive(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range e.state.Live {
		s.owners[e.state.Live[i].Run] = e
	}
}

func (s *Scheduler) disownRun(run workflow.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, run)
}

// lastOf returns what expressions know of the run before: null if there was none. Its output is that of the run, if it is there and
// can be read.
func (s *Scheduler) lastOf(st *state) (any, error) {
	if st.Last == nil {
		return nil, nil
	}
	out := map[string]any{"run": string(st.Last.Run), "status": st.Last.Status.String(), "output": nil}
	h, err := s.o.Dir.HeadUntil(s.o.Alive, st.Last.Run)
	switch {
	case err == nil && h.Output != nil:
		out["output"] = h.Output
	case err != nil && !errors.Is(err, store.ErrRunNotFound) && !errors.Is(err, store.ErrCorrupt):
		return nil, fmt.Errorf("read run %q: %w", string(st.Last.Run), err)
	}
	return out, nil
}

// noteEnds notes which runs have ended.
func (s *Scheduler) noteEnds(e *entry) error {
	s.mu.Lock()
	ends := e.ends
	e.ends = nil
	s.mu.Unlock()
	if e.look {
		more, err := s.lookAtLive(e)
		if err != nil {
			s.giveBack(e, ends)
			return err
		}
		ends = append(ends, more...)
	}
	for i := range ends {
		if err := s.noteEnd(e, &ends[i]); err != nil {
			s.giveBack(e, ends[i:])
			return err
		}
	}
	e.look = false
	return nil
}

// giveBack keeps ends that could not be noted for the next step.
func (s *Scheduler) giveBack(e *entry, ends []workflow.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.ends = append(ends, e.ends...)
}

// lookAtLive returns the runs that have ended, or were purged, while nobody told.
func (s *Scheduler) lookAtLive(e *entry) (ends []workflow.Outcome, err error) {
	for i := range e.state.Live {
		run := e.state.Live[i].Run
		h, err := s.o.Dir.HeadUntil(s.o.Alive, run)
		switch {
		case errors.Is(err, store.ErrRunNotFound):
			ends = append(ends, workflow.Outcome{Run: run})
		case err != nil && !isDamaged(err):
			return nil, err
		case err == nil && h.Status.Final():
			ends = append(ends, workflow.Outcome{Run: run, Status: h.Status, Failure: h.Failure})
		}
	}
	return ends, nil
}

// noteEnd notes that a run has ended. It may be that of several firings: a backfill has started it, and the firing of its instant has
// joined it.
func (s *Scheduler) noteEnd(e *entry, out *workflow.Outcome) error {
	next := e.state.clone()
	next.Live = slices.DeleteFunc(next.Live, func(ev schedule.Event) bool { return ev.Run == out.Run })
	if len(next.Live) == len(e.state.Live) {
		return nil // it was noted before
	}
	s.o.Hook.Hit("schedule.ended")
	endedAt := s.now()
	if out.Status.Final() {
		endedAt = s.endOf(out.Run)
	}
	next.LastEnd = latest(next.LastEnd, endedAt)
	var events []schedule.Event
	for _, ev := range e.state.Live {
		if ev.Run != out.Run {
			continue
		}
		if out.Status.Final() {
			ev.Status, ev.EndedAt = out.Status, endedAt
			if next.Last == nil || !ev.Scheduled.Before(next.Last.Scheduled) {
				next.Last = &lastRun{ev.Run, ev.Status, ev.Scheduled}
			}
		}
		if ev.Num > next.Num-maxEvents { // its slot has no other
			events = append(events, ev)
		}
	}
	if out.Status == workflow.RunCompleted {
		next.Failures = 0
	}
	if out.Status == workflow.RunFailed || out.Status == workflow.RunTimedOut {
		if paused, ok := s.countFailure(e, next, lastFailure(out)); ok {
			events = append(events, paused)
		}
	}
	if err := s.commitState(e, next, events...); err != nil {
		return err
	}
	s.disownRun(out.Run)
	return nil
}

// endOf returns when a run has ended.
func (s *Scheduler) endOf(run workflow.RunID) time.Time {
	if h, err := s.o.Dir.HeadUntil(s.o.Alive, run); err == nil && !h.EndedAt.IsZero() {
		return h.EndedAt.UTC()
	}
	return s.now()
}

func lastFailure(out *workflow.Outcome) string {
	if out.Failure == nil {
		return fmt.Sprintf("run %q has %s", string(out.Run), out.Status)
	}
	return fmt.Sprintf("run %q: %s", string(out.Run), out.Failure.Code)
}

// countFailure counts a failure, and pauses the schedule if that is one too many: then it returns the event.
func (s *Scheduler) countFailure(e *entry, next *state, last string) (schedule.Event, bool) {
	next.Failures++
	most := e.table.Schedule().PauseAfterFailures
	if most == 0 || next.Failures < most || next.Paused != nil {
		return schedule.Event{}, false
	}
	reason := fmt.Sprintf("%d failures in a row, the last: %s", next.Failures, last)
	next.Paused = &schedule.Pause{At: s.now(), By: byOf(e.id), Reason: shortenReason(reason), Incident: true}
	return s.numberEvent(next, schedule.Event{Kind: kindPaused, By: next.Paused.By, Reason: next.Paused.Reason}), true
}

// logPause says that failures have paused a schedule, if it was not paused before. It is called when that is committed.
func (s *Scheduler) logPause(e *entry, before *state) {
	if p := e.state.Paused; p != nil && p.Incident && before.Paused == nil {
		s.o.Logger.Error("pawl: a schedule is paused, because its runs fail", "schedule", e.id, "reason", p.Reason)
	}
}

// maxReason bounds what a row has of an error.
const maxReason = 1000

func shortenReason(text string) string {
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.ToValidUTF8(text, "")
}
