package scheduling_test

import (
	"context"
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
