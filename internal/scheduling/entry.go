package scheduling

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// A turn is a lock. Callers wait for it until their context ends, because its holder may wait long: the start of a run waits while the
// outbox of the feed is full.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// takeUntil waits for the turn until ctx ends. Its error is the cause of ctx.
func (t turn) takeUntil(ctx context.Context) error {
	if t.tryTake() {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return late.Cause(ctx)
	}
}

func (t turn) tryTake() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turn) passOn() { <-t }

// An entry is a schedule in memory. A deleted one is gone, and whoever waits for it finds that out.
type entry struct {
	id string

	turn   turn // held while the schedule changes, commits included; it comes before Scheduler.mu, and guards:
	view        // the schedule
	gone   bool
	stale  bool               // nobody knows what the row says: it is to be read again
	look   bool               // runs may have ended that nobody has told of
	cause  error              // why the run of the last firing that was refused cannot begin
	begun  map[time.Time]bool // instants that have fired, while there are backfills; nil if they were not read
	failed atomic.Bool        // it is paused because its runs failed: for readers that do not wait for commits

	shown atomic.Pointer[view] // for readers that do not wait for commits; nil before the schedule was first taken up

	// Scheduler.mu guards:
	at    time.Time // when it is to be looked at
	place heap.Place
	busy  bool               // a step of it has begun, or is about to: it puts it into the heap in the end
	ends  []workflow.Outcome // of its runs
}

// A view is what a reader sees of a schedule. Its values are replaced, and never modified: copies of the view share them.
type view struct {
	table  *schedule.Timetable
	state  *state
	recent []schedule.Event // the last ones, the newest last; nil if they were not read
	wait   time.Duration    // since the last step that failed
	late   string           // why that is
}

// newEntry returns a schedule that nobody else knows yet.
func newEntry(id string) *entry { return &entry{id: id, turn: newTurn()} }

// endTurn ends a turn, and shows readers what has come of it.
func (e *entry) endTurn() {
	e.showView()
	e.turn.passOn()
}

// showView shows readers the schedule as it is now.
func (e *entry) showView() {
	v := e.view
	e.shown.Store(&v)
	e.failed.Store(v.state.Paused != nil && v.state.Paused.Incident)
}

// takeState makes a state that was committed that of the schedule.
func (e *entry) takeState(next *state, events []schedule.Event) {
	e.state = next
	for _, ev := range events {
		e.rememberEvent(ev)
		e.countBegun(ev)
	}
	e.showView()
}

// rememberEvent keeps an event, or what has changed of one, in memory, if the last ones were read.
func (e *entry) rememberEvent(ev schedule.Event) {
	if e.recent == nil {
		return
	}
	e.recent = slices.Clone(e.recent)
	for i := range e.recent {
		if e.recent[i].Num == ev.Num {
			e.recent[i] = ev
			return
		}
	}
	e.recent = append(e.recent, ev)
	e.recent = e.recent[max(0, len(e.recent)-shownEvents):]
}

// findEntry returns a schedule; nil if there is none with this id.
func (s *Scheduler) findEntry(id string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// markBroken notes that a schedule could not be loaded, and why.
func (s *Scheduler) markBroken(id string, err error) {
	s.o.Logger.Error("pawl: a schedule cannot be read: apply it again, or delete it", "schedule", id, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[id] = true
}

func (s *Scheduler) isBroken(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken[id]
}

// sortedIDs returns the ids of all schedules, sorted.
func (s *Scheduler) sortedIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.all))
}

// knownIDs returns the ids of all schedules, with those that could not be loaded, sorted.
func (s *Scheduler) knownIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.AppendSeq(slices.Collect(maps.Keys(s.all)), maps.Keys(s.broken))
	slices.Sort(ids)
	return ids
}

// lockEntry finds a schedule and waits for its turn until ctx ends, for somebody who changes or shows it.
func (s *Scheduler) lockEntry(ctx context.Context, id string) (*entry, error) {
	e := s.findEntry(id)
	if e == nil {
		return nil, fmt.Errorf("%w: %q", refusal.ErrScheduleNotFound, id)
	}
	if err := e.turn.takeUntil(ctx); err != nil {
		return nil, err
	}
	return e, s.refreshEntry(e)
}

// refreshEntry reads a schedule again whose turn was taken, if nobody knows what its row says. With an error, the turn is over.
func (s *Scheduler) refreshEntry(e *entry) (err error) {
	if e.stale && !e.gone {
		err = s.readAgain(e)
	}
	if err == nil && e.gone {
		err = fmt.Errorf("%w: %q", refusal.ErrScheduleNotFound, e.id)
	}
	if err != nil {
		e.endTurn()
	}
	return err
}
