package pawl

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/scheduling"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// Schedules start runs of an engine on time: package schedule describes their content. The engine that has the directory open fires
// them, and no other; with Options.Maintenance none does. A firing is a Start under the id SCHEDULE@INSTANT, once per instant through
// any crash, restart and take-over, also if the run was purged or a new version was published meanwhile. The journal of a run names
// its schedule only as the starter, schedule ID.
// Errors of all methods: ErrScheduleNotFound, ErrInvalid, ErrUnknown, ErrNoSpace, ErrClosed, the cause of ctx; also ErrBusy of Trigger
// and Backfill, and *schedule.Error, which has every problem, of Apply.
type Schedules struct{ engine *Engine }

// Schedules returns the schedules of the engine.
func (e *Engine) Schedules() Schedules { return Schedules{e} }

// ApplyOptions say how a set of schedules is applied.
type ApplyOptions struct {
	Prune  bool // schedules that the set lacks are deleted
	DryRun bool // nothing is changed: the changes say what would be
}

// Apply makes schedules what a set says, in one commit, and returns what that changes, by id. The same again changes nothing.
// Prune deletes those that it lacks behind that, one by one: after an error, apply it again. A changed schedule keeps its
// history; if its instants change, those before now are not its own, and backfills may end. Workflows may be published later.
func (s Schedules) Apply(ctx context.Context, set []schedule.Schedule, o ApplyOptions) ([]schedule.Change, error) {
	return changeFor(ctx, s, func(m *scheduling.Scheduler, _ state.Act) ([]schedule.Change, error) {
		return m.Apply(ctx, scheduling.Set{Schedules: set, Prune: o.Prune, DryRun: o.DryRun})
	})
}

// Get returns how a schedule stands. While a commit of it waits, as for the outbox of the feed, that is how it stood before.
func (s Schedules) Get(ctx context.Context, id string) (schedule.Standing, error) {
	if err := s.checkUsable(ctx); err != nil {
		return schedule.Standing{}, err
	}
	out, err := s.engine.scheduler.Get(ctx, id)
	return out, closedError(err)
}

// List yields how schedules stand, by id, from behind the id after on; "" is from the first. An error ends the list.
func (s Schedules) List(ctx context.Context, after string) iter.Seq2[schedule.Standing, error] {
	if err := s.checkUsable(ctx); err != nil {
		return func(yield func(schedule.Standing, error) bool) { yield(schedule.Standing{}, err) }
	}
	return listUntilDone(ctx, s.engine.scheduler.List(ctx, after), func(st schedule.Standing) schedule.Standing { return st })
}

// Events returns the events of a schedule that happened from one instant on and before another, the oldest first. A zero instant is no
// bound. The engine keeps the last thousand of each schedule.
func (s Schedules) Events(ctx context.Context, id string, from, until time.Time) ([]schedule.Event, error) {
	if err := s.checkUsable(ctx); err != nil {
		return nil, err
	}
	out, err := s.engine.scheduler.Events(ctx, id, from, until)
	return out, closedError(err)
}

// Pause lets a schedule fire no more of itself, in the name and for the reason that [As] and [Because] have put into ctx; its runs go
// on. A paused schedule is left as it is.
func (s Schedules) Pause(ctx context.Context, id string) error {
	return s.changeStored(ctx, func(m *scheduling.Scheduler, by state.Act) error { return m.Pause(ctx, id, by) })
}

// Resume lets a schedule fire again. Its instants that came meanwhile are skipped; Backfill makes up for them. A schedule that is
// not paused is left as it is.
func (s Schedules) Resume(ctx context.Context, id string) error {
	return s.changeStored(ctx, func(m *scheduling.Scheduler, by state.Act) error { return m.Resume(ctx, id, by) })
}

// Trigger starts a run of a schedule now, also of one that is paused, and returns its id; its instant is now, in milliseconds. The
// overlap of the schedule binds it: with OverlapSkip it fails with ErrBusy while a run is not over, and with OverlapBuffer the run
// begins later, as it may if ctx ends. ErrInvalid, or ErrNotPublished, says that it cannot begin. Its trace links to the span that ctx is in.
func (s Schedules) Trigger(ctx context.Context, id string) (workflow.RunID, error) {
	return changeFor(ctx, s, func(m *scheduling.Scheduler, by state.Act) (workflow.RunID, error) { return m.Trigger(ctx, id, by) })
}

// Backfill has a schedule fire at instants that have passed, b.Most runs of it at once beside all others, and returns how many
// instants there are: at most 10,000. It goes on after a restart, and waits while the schedule is paused. Instants whose runs are
// there, or were as far as its events tell, fire no second time. ErrBusy says that ten backfills of the schedule are not over.
func (s Schedules) Backfill(ctx context.Context, id string, b schedule.Backfill) (int, error) {
	return changeFor(ctx, s, func(m *scheduling.Scheduler, by state.Act) (int, error) {
		b.By, b.Reason = by.By, by.Reason
		return m.Backfill(ctx, id, b)
	})
}

// Delete forgets a schedule and its events; its runs go on. A schedule that is applied under its id later is a new one.
func (s Schedules) Delete(ctx context.Context, id string) error {
	return s.changeStored(ctx, func(m *scheduling.Scheduler, _ state.Act) error { return m.Delete(ctx, id) })
}

// changeFor is changeStored of a call with an answer, which is not there if ctx is done first: the call may still write it then.
func changeFor[T any](ctx context.Context, s Schedules, call func(*scheduling.Scheduler, state.Act) (T, error)) (T, error) {
	var answer, none T
	err := s.changeStored(ctx, func(m *scheduling.Scheduler, by state.Act) (err error) {
		answer, err = call(m, by)
		return err
	})
	if err != nil {
		return none, err
	}
	return answer, nil
}

// changeStored makes a call that changes schedules, until ctx is done.
func (s Schedules) changeStored(ctx context.Context, call func(*scheduling.Scheduler, state.Act) error) error {
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	by, err := s.engine.actOf(ctx)
	if err != nil {
		return err
	}
	return closedError(s.engine.callUntil(ctx, func() error { return call(s.engine.scheduler, by) }))
}

// checkUsable returns an error if the engine cannot be asked. It is asked in memory, so that no directory says that it is closed.
func (s Schedules) checkUsable(ctx context.Context) error {
	if err := s.engine.checkUsable(ctx); err != nil {
		return err
	}
	if s.engine.ctx.Err() != nil {
		return ErrClosed
	}
	return late.Cause(ctx)
}

// newScheduler returns the scheduler of an engine, without its schedules.
func newScheduler(e *Engine) *scheduling.Scheduler {
	return scheduling.New(scheduling.Options{Dir: e.dir, Path: e.path, Runs: scheduledRuns{e}, Alive: e.ctx, Late: &e.late, Logger: e.options.Logger, Metrics: e.metrics, Hook: e.hook})
}

// scheduledRuns are the runs of the engine as its scheduler sees them.
type scheduledRuns struct{ engine *Engine }

var _ scheduling.Runs = scheduledRuns{}

// StartKeeping implements scheduling.Runs.
func (r scheduledRuns) StartKeeping(f scheduling.Start) error {
	ctx := Because(As(r.engine.ctx, f.By), f.Reason)
	m, b, release, err := r.engine.prepareStart(ctx, f.Run, f.Input)
	if err != nil {
		return err
	}
	defer r.engine.runs.ReleaseAnswered(ctx, f.Run.ID, release)
	err = f.DoBefore(func() error {
		switch _, err := r.engine.dir.HeadUntil(ctx, f.Run.ID); {
		case err == nil:
			return ErrRunExists
		case !errors.Is(err, ErrRunNotFound):
			return closedError(err)
		}
		// The runs that are cancelled make room for this one, but for its bytes.
		return cmp.Or(planning.CheckStart(b.Graph, m), r.engine.checkRoom(f.Run.Tenant, 0, 0))
	})
	if err != nil {
		return err
	}
	b.Keep, b.Caller, m.ScheduledAt = f.Keep, f.Caller, f.Scheduled
	if err := r.engine.runs.TraceStart(ctx, f.Run.ID, &m, b); err != nil {
		return err
	}
	return r.engine.runs.AskOrStart(ctx, f.Run.ID, m, b)
}

// CancelRun implements scheduling.Runs.
func (r scheduledRuns) CancelRun(run workflow.RunID, by, reason string) error {
	return r.engine.Do(Because(As(r.engine.ctx, by), reason), run, Cancel{Ended: true})
}
