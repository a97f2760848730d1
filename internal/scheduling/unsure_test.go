package scheduling_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/scheduling"
	runstate "github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An unsureDir makes a commit and says, once, that nobody knows whether it was made.
type unsureDir struct {
	*store.Dir
	unsure atomic.Bool
}

func (d *unsureDir) answer(err error) error {
	if err == nil && d.unsure.Swap(false) {
		return actor.ErrUnknown
	}
	return err
}

func (d *unsureDir) KeepOutcomes(all ...store.Kept) error {
	return d.answer(d.Dir.KeepOutcomes(all...))
}

func (d *unsureDir) ForgetOutcomesUnder(prefixes ...string) error {
	return d.answer(d.Dir.ForgetOutcomesUnder(prefixes...))
}

// noRuns starts nothing.
type noRuns struct{}

func (noRuns) StartKeeping(scheduling.Start) error            { return nil }
func (noRuns) CancelRun(workflow.RunID, string, string) error { return nil }

// A fullDir has no room for what schedules keep.
type fullDir struct {
	*store.Dir
	full atomic.Bool
}

func (d *fullDir) KeepOutcomes(all ...store.Kept) error {
	if d.full.Load() {
		return store.ErrNoSpace
	}
	return d.Dir.KeepOutcomes(all...)
}

// cancelledRuns keep what their starts do, and note what is cancelled.
type cancelledRuns struct {
	dir  *store.Dir
	all  []workflow.RunID
	fail error // of each cancellation
}

func (r *cancelledRuns) StartKeeping(f scheduling.Start) error {
	if err := f.DoBefore(func() error { return nil }); err != nil {
		return err
	}
	return r.dir.KeepOutcomes(f.Keep...)
}

func (r *cancelledRuns) CancelRun(run workflow.RunID, _, _ string) error {
	r.all = append(r.all, run)
	return r.fail
}

// A run that cannot be cancelled, because it is damaged or gone, keeps the next one from nothing.
func TestARunThatCannotBeCancelled(t *testing.T) {
	dir, err := store.Open(t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	runs := &cancelledRuns{dir: dir}
	s := scheduling.New(scheduling.Options{Dir: dir, Runs: runs, Alive: t.Context(), Logger: slog.New(slog.DiscardHandler)})
	_, err = s.Apply(t.Context(), scheduling.Set{Schedules: one(t, "every: 24h, overlap: cancel")})
	require.NoError(t, err)
	for _, fail := range []error{nil, store.ErrCorrupt, store.ErrVersion, store.ErrRunNotFound} {
		runs.fail = fail
		_, err = s.Trigger(t.Context(), "s", runstate.Act{})
		require.NoError(t, err)
	}
	runs.fail = store.ErrNoSpace
	_, err = s.Trigger(t.Context(), "s", runstate.Act{})
	require.ErrorIs(t, err, store.ErrNoSpace)
}

// A full disk cancels no run for the next one, which has no room to begin.
func TestAFullDiskCancelsNothing(t *testing.T) {
	dir, err := store.Open(t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	d, runs := &fullDir{Dir: dir}, &cancelledRuns{dir: dir}
	s := scheduling.New(scheduling.Options{Dir: d, Runs: runs, Alive: t.Context(), Logger: slog.New(slog.DiscardHandler)})
	_, err = s.Apply(t.Context(), scheduling.Set{Schedules: one(t, "every: 24h, overlap: cancel")})
	require.NoError(t, err)
	first, err := s.Trigger(t.Context(), "s", runstate.Act{})
	require.NoError(t, err)
	d.full.Store(true)
	_, err = s.Trigger(t.Context(), "s", runstate.Act{})
	require.ErrorIs(t, err, store.ErrNoSpace)
	require.Empty(t, runs.all)
	d.full.Store(false)
	_, err = s.Trigger(t.Context(), "s", runstate.Act{})
	require.NoError(t, err)
	require.Equal(t, []workflow.RunID{first}, runs.all)
}

// refusedRuns cannot begin.
type refusedRuns struct{ noRuns }

func (refusedRuns) StartKeeping(scheduling.Start) error { return refusal.ErrInvalid }

// A pause because runs fail is told once, when it is committed, whether or not somebody knew that.
func TestAPauseIsToldOnce(t *testing.T) {
	dir, err := store.Open(t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	full, unsure, log := &fullDir{Dir: dir}, &unsureDir{Dir: dir}, bytes.Buffer{}
	told := func() int { return strings.Count(log.String(), "a schedule is paused, because its runs fail") }
	for _, d := range []scheduling.Directory{full, unsure} {
		log.Reset()
		s := scheduling.New(scheduling.Options{Dir: d, Runs: refusedRuns{}, Alive: t.Context(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, s.Load(t.Context()))
		_, err = s.Apply(t.Context(), scheduling.Set{Schedules: one(t, "every: 24h, pauseAfterFailures: 1")})
		require.NoError(t, err)
		full.full.Store(true)
		unsure.unsure.Store(d == unsure)
		for range 2 {
			_, err = s.Trigger(t.Context(), "s", runstate.Act{})
			require.Error(t, err)
			_, err = s.Get(t.Context(), "s")
			require.NoError(t, err)
			require.Equal(t, d == unsure, s.CountFailed() == 1)
		}
		full.full.Store(false)
		_, err = s.Trigger(t.Context(), "s", runstate.Act{})
		require.ErrorIs(t, err, refusal.ErrInvalid)
		require.Equal(t, 1, told(), log.String())
		st, err := s.Get(t.Context(), "s")
		require.NoError(t, err)
		require.True(t, st.Paused.Incident)
		require.NoError(t, s.Delete(t.Context(), "s"))
	}
}

// A start that is committed, though nobody knew, makes a run of the schedule: its end is noted, and the next one begins.
func TestAStartOfWhichNobodyKnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), func(ctx context.Context, _ pawl.Task) (any, error) {
			<-time.After(time.Minute)
			return nil, ctx.Err()
		})
		o.publish()
		o.applyFields("every: 10m")
		var starts, broken atomic.Bool
		o.hook.OnHit(func(name string) {
			if strings.HasPrefix(name, "schedule.start") {
				starts.Store(name == "schedule.start")
			}
			if starts.Load() && name == "release.begin" && !broken.Swap(true) {
				panic("an effect could not leave")
			}
		})
		pass(2 * time.Hour)
		require.True(t, broken.Load())
		require.Len(t, o.runs(), 12, "%v", o.events())
	})
}

// A schedule is what was committed, also where nobody knew whether it was: the next Apply compares with that, and a deleted one is gone.
func TestChangesOfWhichNobodyKnew(t *testing.T) {
	ctx := t.Context()
	dir, err := store.Open(t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	d := &unsureDir{Dir: dir}
	s := scheduling.New(scheduling.Options{Dir: d, Runs: noRuns{}, Alive: ctx, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, s.Load(ctx))
	apply := func(fields string) (string, error) {
		changes, err := s.Apply(ctx, scheduling.Set{Schedules: one(t, fields)})
		if err != nil {
			return "", err
		}
		return changes[0].Kind, nil
	}
	d.unsure.Store(true)
	_, err = apply("every: 1h")
	require.ErrorIs(t, err, actor.ErrUnknown)
	kind, err := apply("every: 1h")
	require.NoError(t, err)
	require.Equal(t, "unchanged", kind)

	d.unsure.Store(true)
	_, err = apply("every: 1m")
	require.ErrorIs(t, err, actor.ErrUnknown)
	kind, err = apply("every: 1h")
	require.NoError(t, err)
	require.Equal(t, "changed", kind)

	d.unsure.Store(true)
	require.ErrorIs(t, s.Delete(ctx, "s"), actor.ErrUnknown)
	for st, err := range s.List(ctx, "") {
		require.Fail(t, "it is gone", "%v %v", st, err)
	}
	require.ErrorIs(t, s.Delete(ctx, "s"), refusal.ErrScheduleNotFound)
	kind, err = apply("every: 1h")
	require.NoError(t, err)
	require.Equal(t, "created", kind)
	st, err := s.Get(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, time.Hour, st.Schedule.Every)
}

// A schedule that is applied while it is being deleted is a new one.
func TestApplyBesideDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields("every: 1h")
		var changes []schedule.Change
		applied := make(chan error, 1)
		o.hook.OnHit(func(name string) {
			if name == "schedule.deleted" {
				go func() {
					var err error
					changes, err = o.Schedules().Apply(o.t.Context(), one(o.t, "every: 10m"), pawl.ApplyOptions{})
					applied <- err
				}()
				for range 100_000 { // until it waits for the schedule, most likely
					runtime.Gosched()
				}
			}
		})
		require.NoError(t, o.Schedules().Delete(t.Context(), "s"))
		require.NoError(t, <-applied)
		require.Equal(t, "created", changes[0].Kind)
		pass(time.Hour)
		require.Len(t, o.runs(), 6)
	})
}

// A damagedDir has a row of a schedule that cannot be read, or whose value is another.
type damagedDir struct {
	*store.Dir
	key   string
	value any          // nil if the row cannot be read
	full  *atomic.Bool // nothing can be kept; may be nil
}

func (d damagedDir) Outcome(ctx context.Context, key string) (any, error) {
	switch {
	case key != d.key:
		return d.Dir.Outcome(ctx, key)
	case d.value == nil:
		return nil, store.ErrCorrupt
	}
	return d.value, nil
}

func (d damagedDir) KeepOutcomes(all ...store.Kept) error {
	if d.full != nil && d.full.Load() {
		return store.ErrNoSpace
	}
	return d.Dir.KeepOutcomes(all...)
}

func (d damagedDir) OutcomesUnder(ctx context.Context, prefix string) iter.Seq2[store.Kept, error] {
	return func(yield func(store.Kept, error) bool) {
		for kept, err := range d.Dir.OutcomesUnder(ctx, prefix) {
			if kept.Key == d.key {
				if kept.Value = d.value; d.value == nil {
					err = store.ErrCorrupt
				}
			}
			if !yield(kept, err) {
				return
			}
		}
	}
}

// An event that is damaged is left out, which the log says once: it keeps neither the schedule from firing, nor backfills, nor lists.
func TestADamagedEvent(t *testing.T) {
	for _, damage := range []any{nil, "no event"} {
		synctest.Test(t, func(t *testing.T) {
			dir, err := store.Open(t.TempDir(), store.Options{})
			require.NoError(t, err)
			defer func() { require.NoError(t, dir.Close()) }()
			alive, stop := context.WithCancel(t.Context())
			var log bytes.Buffer
			load := func(d scheduling.Directory) *scheduling.Scheduler {
				s := scheduling.New(scheduling.Options{Dir: d, Runs: &cancelledRuns{dir: dir}, Alive: alive, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				require.NoError(t, s.Load(alive))
				return s
			}
			s := load(dir)
			_, err = s.Apply(alive, scheduling.Set{Schedules: one(t, "every: 10m, overlap: allow")})
			require.NoError(t, err)
			require.NoError(t, s.Pause(alive, "s", runstate.Act{}))
			require.NoError(t, s.Resume(alive, "s", runstate.Act{}))
			s = load(damagedDir{Dir: dir, key: store.ScheduleKeys + "d:s@001", value: damage})
			st, err := s.Get(alive, "s")
			require.NoError(t, err)
			require.Len(t, st.Events, 1)
			watched := make(chan struct{})
			go func() { defer close(watched); s.Watch() }()
			now := time.Now()
			_, err = s.Backfill(alive, "s", schedule.Backfill{From: now.Add(-30 * time.Minute), To: now, Most: 10})
			require.NoError(t, err)
			pass(35 * time.Minute)
			for st, err := range s.List(alive, "") {
				require.NoError(t, err)
				require.Empty(t, st.Backfills)
				require.Len(t, st.Running, 6)
			}
			events, err := s.Events(alive, "s", time.Time{}, time.Time{})
			require.NoError(t, err)
			require.Len(t, events, 7, "one is left out")
			stop()
			<-watched
			require.Equal(t, 1, strings.Count(log.String(), "an event of a schedule cannot be read"), log.String())
		})
	}
}

// A schedule whose row is damaged can be applied and deleted also where the first try could not be committed.
func TestADamagedScheduleOnAFullDisk(t *testing.T) {
	dir, err := store.Open(t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	load := func(d scheduling.Directory) *scheduling.Scheduler {
		s := scheduling.New(scheduling.Options{Dir: d, Runs: noRuns{}, Alive: t.Context(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, s.Load(t.Context()))
		return s
	}
	set := scheduling.Set{Schedules: one(t, "every: 1h")}
	_, err = load(dir).Apply(t.Context(), set)
	require.NoError(t, err)
	for _, again := range []func(*scheduling.Scheduler) error{
		func(s *scheduling.Scheduler) error { _, err := s.Apply(t.Context(), set); return err },
		func(s *scheduling.Scheduler) error { return s.Delete(t.Context(), "s") },
	} {
		d := damagedDir{Dir: dir, key: store.ScheduleKeys + ":s@", full: &atomic.Bool{}}
		s := load(d)
		d.full.Store(true)
		_, err = s.Apply(t.Context(), set)
		require.ErrorIs(t, err, store.ErrNoSpace)
		d.full.Store(false)
		require.NoError(t, again(s))
	}
}

// A schedule whose row is damaged can be deleted with its events, or applied again: its new events come behind those that are there.
func TestDamagedSchedule(t *testing.T) {
	ctx := t.Context()
	dir, err := store.Open(t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	load := func(d scheduling.Directory) *scheduling.Scheduler {
		s := scheduling.New(scheduling.Options{Dir: d, Runs: noRuns{}, Alive: ctx, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, s.Load(ctx))
		return s
	}
	apply := func(s *scheduling.Scheduler) {
		_, err := s.Apply(ctx, scheduling.Set{Schedules: one(t, "every: 1h")})
		require.NoError(t, err)
	}
	numbersOf := func(s *scheduling.Scheduler) (out []int64) {
		events, err := s.Events(ctx, "s", time.Time{}, time.Time{})
		require.NoError(t, err)
		for _, ev := range events {
			out = append(out, ev.Num)
		}
		return out
	}
	s := load(dir)
	apply(s)
	for range 3 {
		require.NoError(t, s.Pause(ctx, "s", runstate.Act{}))
		require.NoError(t, s.Resume(ctx, "s", runstate.Act{}))
	}
	damaged := damagedDir{Dir: dir, key: store.ScheduleKeys + ":s@"}
	s = load(damaged)
	_, err = s.Get(ctx, "s")
	require.ErrorIs(t, err, refusal.ErrScheduleNotFound)
	apply(s)
	require.NoError(t, s.Pause(ctx, "s", runstate.Act{}))
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7}, numbersOf(s))

	s = load(damaged)
	require.NoError(t, s.Delete(ctx, "s"))
	require.ErrorIs(t, s.Delete(ctx, "s"), refusal.ErrScheduleNotFound)
	s = load(dir)
	apply(s)
	require.Empty(t, numbersOf(s))

	damaged.value, err = value.Normalize(map[string]any{"schedule": one(t, "every: 1h")[0]}, value.Limits{})
	require.NoError(t, err)
	s = load(damaged) // whose state is missing
	changes, err := s.Apply(ctx, scheduling.Set{Prune: true})
	require.NoError(t, err)
	require.Equal(t, []schedule.Change{{ID: "s", Kind: "deleted"}}, changes)
	require.ErrorIs(t, s.Delete(ctx, "s"), refusal.ErrScheduleNotFound)
	_, err = dir.Outcome(ctx, damaged.key)
	require.ErrorIs(t, err, store.ErrNoOutcome)
}
