// Package scheduling fires schedules: it keeps what each has come to in the engine's directory, and starts runs when they are due.
//
// # Once per instant
//
// A firing is a Start under the id SCHEDULE@INSTANT. The transaction that makes the run's row also writes the schedule's row, in
// which the instant is decided from then on: a crash leaves both or none. A decided instant never fires again, also when its run
// was purged; where the row does not know of a run that is there, the id joins the two. An instant that was skipped, or refused,
// is decided by a commit of the row alone.
//
// # One timer
//
// The schedules are in a heap by when each is to be looked at next. A goroutine sleeps until the first of them, at most
// [timeout.MaxNap], so that a clock which was set is noticed; then each due schedule has a step of its own; a bounded number of
// steps runs side by side. A step looks at everything: runs that have ended, a firing that waits for them, instants that have come, backfills.
// It commits each change by itself, and what it could not do it tries again later.
//
// # Owners
//
// Only an engine that has the directory open has schedules at all. Another one that takes the directory over reads the rows and
// goes on; the epoch in every commit keeps the former owner from deciding anything.
package scheduling

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/late"
	runstate "github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A Directory is the engine directory as schedules see it; *store.Dir is one.
type Directory interface {
	Outcome(ctx context.Context, key string) (any, error)
	OutcomesUnder(ctx context.Context, prefix string) iter.Seq2[store.Kept, error]
	KeepOutcomes(all ...store.Kept) error
	ForgetOutcomesUnder(prefixes ...string) error
	HeadUntil(ctx context.Context, id workflow.RunID) (store.Head, error)
}

// Runs are those of the engine.
type Runs interface {
	// StartKeeping begins a run, and keeps values in the commit that begins it. It fails with state.ErrRunExists if the id is
	// taken, by whatever run.
	StartKeeping(f Start) error
	// CancelRun cancels a run for a reason, in the name of a schedule. A run that has ended is no error.
	CancelRun(run workflow.RunID, by, reason string) error
}

// A Start is a run that is to begin.
type Start struct {
	Run        workflow.Run
	Input      any
	Scheduled  time.Time // its instant
	By, Reason string
	Caller     *runstate.Trace // the span of the caller who triggered it; nil without
	Keep       []store.Kept
	Before     func() error // is called by DoBefore; may be nil
}

// DoBefore does what is to be done before the run begins, if check, which is asked first, has nothing against the run. With an error none
// begins.
func (f *Start) DoBefore(check func() error) error {
	if f.Before == nil {
		return nil
	}
	if err := check(); err != nil {
		return err
	}
	return f.Before()
}

// Options say whose schedules these are. All fields but Late, Metrics and Hook are needed.
type Options struct {
	Dir     Directory
	Path    string // of it
	Runs    Runs
	Alive   context.Context //nolint:containedctx // done when the engine closes
	Late    *late.Calls     // go on after their callers, and Close waits for them
	Logger  *slog.Logger
	Metrics *telemetry.Metrics // nil counts nothing
	Hook    *testhook.Hook
}

// A Scheduler has the schedules of an engine.
type Scheduler struct {
	o        Options
	poke     chan struct{} // gets a signal when the first of the heap may be another
	applying turn          // held while a set is applied
	restored atomic.Bool   // the directory was restored, and HoldRestored was not called

	mu     sync.Mutex // guards
	all    map[string]*entry
	due    heap.Heap[*entry]
	looked time.Time                 // when the first of the heap was looked at last
	owners map[workflow.RunID]*entry // of runs that are not known to have ended, or are about to begin
	broken map[string]bool           // ids of schedules that could not be loaded
	unread map[string]bool           // keys of events that cannot be read, which the log tells of once
}

// maxSteps bounds the schedules that are looked at side by side.
const maxSteps = 64

// backoff is the pause between two tries of a schedule whose step has failed.
var backoff = timeout.Backoff{First: 100 * time.Millisecond, Max: time.Minute}

// New returns a scheduler without schedules.
func New(o Options) *Scheduler {
	if o.Late == nil {
		o.Late = &late.Calls{}
	}
	return &Scheduler{
		o: o, poke: make(chan struct{}, 1), applying: newTurn(), all: map[string]*entry{}, owners: map[workflow.RunID]*entry{}, broken: map[string]bool{}, unread: map[string]bool{},
		due: heap.New(func(a, b *entry) bool { return a.at.Before(b.at) }, func(e *entry) *heap.Place { return &e.place }),
	}
}

// Load reads the schedules of the directory. One whose row is damaged is left out, and the log says so.
func (s *Scheduler) Load(ctx context.Context) error {
	switch _, err := os.Stat(filepath.Join(s.o.Path, index.RestoredFile)); {
	case err == nil:
		s.restored.Store(true)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	var c schedule.Compiler
	for kept, err := range s.o.Dir.OutcomesUnder(ctx, rowPrefix) {
		var r row
		e := newEntry(idOf(kept.Key))
		e.look = true
		s.o.Hook.Hit("schedule.load")
		switch {
		case kept.Key == "":
			return err
		case err == nil:
			r, err = readRow(kept.Value)
		}
		if err == nil {
			e.table, err = c.Compile(&r.Schedule)
		}
		if err != nil {
			s.markBroken(e.id, err)
			continue
		}
		e.takeState(r.State, nil)
		s.takeUp(e)
	}
	return nil
}

// takeUp takes a schedule up. The first step looks at its runs.
func (s *Scheduler) takeUp(e *entry) {
	s.mu.Lock()
	s.all[e.id] = e
	delete(s.broken, e.id)
	s.mu.Unlock()
	s.ownLive(e)
	s.armEntry(e)
}

// FailedSchedules returns the ids of all schedules, and whether each is paused because its runs failed. It waits for no commit.
func (s *Scheduler) FailedSchedules() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]bool, len(s.all))
	for id, e := range s.all {
		out[id] = e.failed.Load()
	}
	return out
}

// CountFailed returns how many schedules are paused because their runs failed.
func (s *Scheduler) CountFailed() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.failed.Load() {
			n++
		}
	}
	return n
}

// Watch fires schedules when they are due, until the engine closes.
func (s *Scheduler) Watch() {
	var group sync.WaitGroup
	defer group.Wait()
	gate := make(chan struct{}, maxSteps)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.poke:
		case <-s.o.Alive.Done():
			return
		}
		for {
			e, nap := s.takeDue()
			if e == nil {
				timer.Reset(nap)
				break
			}
			if s.isHeld(e) {
				continue
			}
			select {
			case gate <- struct{}{}:
			case <-s.o.Alive.Done():
				return
			}
			group.Go(func() {
				defer func() { <-gate }()
				s.stepEntry(e)
			})
		}
	}
}

// takeDue takes the first schedule that is due out of the heap; without one it returns how long to sleep.
func (s *Scheduler) takeDue() (*entry, time.Duration) {
	nap := s.o.Hook.MaxNap(timeout.MaxNap)
	now := s.o.Hook.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.looked) { // the clock was set back, and instants may be nearer than they were
		for _, e := range s.all {
			s.putDue(e, time.Time{})
		}
	}
	s.looked = now
	if s.due.Len() == 0 {
		return nil, nap
	}
	if until := s.due.First().at.Sub(now); until > 0 {
		return nil, min(nap, until)
	}
	e := s.due.Pop()
	e.busy = true
	return e, 0
}

// isHeld reports whether a test holds a schedule whose step is due until it says otherwise.
func (s *Scheduler) isHeld(e *entry) bool {
	name := "@" + e.id // no run is named so
	ring := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.busy = false
		s.putDue(e, time.Time{})
		s.wakeLoop()
	}
	if s.o.Hook.HoldAlarm(name, ring) {
		return true
	}
	s.o.Hook.AlarmRang(name)
	return false
}

// armEntry says when a schedule is to be looked at next. Its lock is held, or nobody else knows it yet.
func (s *Scheduler) armEntry(e *entry) {
	now := s.o.Hook.Now()
	at, ok := e.nextLook(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(e.ends) > 0 && e.wait == 0 { // else they could not be noted just now
		at, ok = now, true
	}
	if e.gone || !ok {
		s.due.Remove(e)
		return
	}
	s.putDue(e, at)
	s.wakeLoop()
}

// putDue has a schedule looked at at an instant, unless a step of it is under way, which says that itself in the end: of one schedule there
// is one step at a time, so that many ends of its runs keep no others waiting. Scheduler.mu is held.
func (s *Scheduler) putDue(e *entry, at time.Time) {
	if !e.busy {
		e.at = at
		s.due.Put(e)
	}
}

func (s *Scheduler) wakeLoop() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// nextLook returns when a schedule is to be looked at; false if nothing comes of itself.
func (e *entry) nextLook(now time.Time) (time.Time, bool) {
	switch {
	case e.wait > 0:
		return now.Add(e.wait), true
	case e.stale, e.look && len(e.state.Live) > 0, e.canBackfill(), e.canRelease():
		return now, true
	case e.state.Paused != nil:
		return now, false
	case e.isAhead(now):
		return now, true
	}
	f, ok := nextDue(e.table, e.state, now)
	return f.Due, ok
}

// RunEnded notes that a run has ended. It is called for every run, by whoever has committed that, and never waits for a commit.
func (s *Scheduler) RunEnded(out workflow.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.owners[out.Run]
	if e == nil {
		return
	}
	delete(s.owners, out.Run)
	e.ends = append(e.ends, workflow.Outcome{Run: out.Run, Status: out.Status, Failure: out.Failure})
	s.putDue(e, time.Time{})
	s.wakeLoop()
}

// stepEntry does what is to be done for a schedule now.
func (s *Scheduler) stepEntry(e *entry) {
	if e.turn.takeUntil(s.o.Alive) != nil {
		return
	}
	defer e.endTurn()
	if e.gone {
		return
	}
	err := s.stepAll(e)
	e.wait, e.late = s.afterStep(e, err)
	s.mu.Lock()
	e.busy = false
	s.mu.Unlock()
	s.armEntry(e)
}

// afterStep returns how long a schedule waits for its next step because this one has failed, and why.
func (s *Scheduler) afterStep(e *entry, err error) (time.Duration, string) {
	if err == nil || s.o.Alive.Err() != nil {
		return 0, ""
	}
	wait := backoff.Next(e.wait)
	if e.wait == 0 {
		s.o.Logger.Warn("pawl: a schedule cannot go on now, and is tried again", "schedule", e.id, "error", err)
	}
	return wait, err.Error()
}

// stepAll is a step up to its first error.
func (s *Scheduler) stepAll(e *entry) error {
	if e.stale {
		if err := s.readAgain(e); err != nil || e.gone {
			return err
		}
	}
	if err := s.settleEnds(e); err != nil {
		return err
	}
	if e.state.Paused == nil {
		if err := s.fireDue(e); err != nil {
			return err
		}
	}
	return s.goOnWithBackfills(e)
}

// settleEnds notes which runs have ended, and lets the firing begin that waits for them.
func (s *Scheduler) settleEnds(e *entry) error {
	if err := s.noteEnds(e); err != nil || !e.canRelease() {
		return err
	}
	return s.releaseWaiting(e)
}

// readAgain reads the row of a schedule, after a commit of which nobody knows what came. A schedule without a row is gone, and one whose
// row cannot be read is as Load leaves it.
func (s *Scheduler) readAgain(e *entry) error {
	v, err := s.o.Dir.Outcome(s.o.Alive, rowKey(e.id))
	if errors.Is(err, store.ErrNoOutcome) {
		s.dropEntry(e)
		return nil
	}
	if err != nil && !isDamaged(err) {
		return err
	}
	var r row
	var table *schedule.Timetable
	if err == nil {
		r, err = readRow(v)
	}
	if err == nil {
		table, err = schedule.Compile(&r.Schedule)
	}
	if err != nil {
		s.markBroken(e.id, err) // before nobody finds the entry any more
		s.dropEntry(e)
		return nil
	}
	before := e.state
	e.table, e.state, e.stale, e.look, e.recent, e.begun = table, r.State, false, true, nil, nil
	e.showView()
	s.logPause(e, before)
	s.ownLive(e) // a start that has failed may have begun one
	return nil
}

// commitState keeps the next state of a schedule, with events that it makes.
func (s *Scheduler) commitState(e *entry, next *state, events ...schedule.Event) error {
	rows, err := s.rowsOf(e, next, events)
	if err != nil {
		return err
	}
	s.o.Hook.Hit("schedule.keep")
	if err := s.o.Dir.KeepOutcomes(rows...); err != nil {
		e.stale = true
		return fmt.Errorf("keep schedule %q: %w", e.id, err)
	}
	s.o.Hook.Hit("schedule.kept")
	before := e.state
	e.takeState(next, events)
	s.logPause(e, before)
	for i := range events {
		if ev := &events[i]; ev.Kind == kindSkipped {
			s.o.Metrics.ScheduleSkipped(e.id, ev.Skip, max(ev.Count, 1))
		}
	}
	return nil
}

// rowsOf returns the rows of a state and of events.
func (s *Scheduler) rowsOf(e *entry, next *state, events []schedule.Event) ([]store.Kept, error) {
	now := s.o.Hook.Now()
	kept, err := keptOf(rowKey(e.id), row{e.table.Schedule(), next}, now)
	rows := []store.Kept{kept}
	for i := range events {
		if err == nil {
			kept, err = keptOf(eventKey(e.id, events[i].Num), &events[i], now)
			rows = append(rows, kept)
		}
	}
	return rows, err
}

// numberEvent gives an event its number, and the time.
func (s *Scheduler) numberEvent(next *state, ev schedule.Event) schedule.Event {
	next.Num++
	ev.Num, ev.At = next.Num, s.now()
	return ev
}

// now returns the time, as it is kept.
func (s *Scheduler) now() time.Time { return s.o.Hook.Now().UTC().Truncate(time.Millisecond) }
