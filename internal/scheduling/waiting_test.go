package scheduling_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// openBesideABroker opens an engine whose feed goes to a broker that may be away, and fills its outbox: no run begins until the broker is back.
func openBesideABroker(t *testing.T, away *atomic.Bool) *opening {
	t.Helper()
	away.Store(true)
	broker := pawl.FeedFunc(func(context.Context, pawl.FeedMessage) error {
		if away.Load() {
			return errors.New("away")
		}
		return nil
	})
	e, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{
		Executor: pawl.Handlers{"work": done}, Logger: slog.New(slog.DiscardHandler), Feed: pawl.FeedOptions{MaxBytes: 10_000, To: broker},
	})
	require.NoError(t, err)
	o := &opening{Engine: e, t: t}
	t.Cleanup(o.shut)
	o.publishAs("{name: full, start: a, nodes: [{id: a, wait: {event: x}}]}")
	o.publish()
	for i := 0; err == nil; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = e.Start(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint("full", i)), Workflow: "full"}, nil)
		cancel()
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	return o
}

// callFor makes a call with a context of a second, and returns how long it took, and its error.
func callFor(t *testing.T, call func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	err := call(ctx)
	return time.Since(begun), err
}

// While the commit of a firing waits, because the broker of the feed is away, calls that change the schedule end with their context, and
// others show how it stood. The firing comes when the broker is back, and what the calls wanted does not.
func TestCallsWhileACommitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		o := openBesideABroker(t, &away)
		o.applyFields("every: 1m")
		instant := o.readStanding().Next[0].At
		pass(90 * time.Second)
		s := o.Schedules()
		changed := one(t, "every: 1h")
		for name, call := range map[string]func(context.Context) error{
			"pause":   func(ctx context.Context) error { return s.Pause(ctx, "s") },
			"resume":  func(ctx context.Context) error { return s.Resume(ctx, "s") },
			"trigger": func(ctx context.Context) error { _, err := s.Trigger(ctx, "s"); return err },
			"apply":   func(ctx context.Context) error { _, err := s.Apply(ctx, changed, pawl.ApplyOptions{}); return err },
			"delete":  func(ctx context.Context) error { return s.Delete(ctx, "s") },
			"backfill": func(ctx context.Context) error {
				_, err := s.Backfill(ctx, "s", schedule.Backfill{From: instant.Add(-time.Hour), To: instant.Add(-time.Minute), Most: 1})
				return err
			},
		} {
			took, err := callFor(t, call)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.Equal(t, time.Second, took, name)
		}
		took, err := callFor(t, func(ctx context.Context) error {
			for st, err := range s.List(ctx, "") {
				require.NoError(t, err)
				require.Zero(t, st.Fired)
			}
			return nil
		})
		require.NoError(t, err)
		require.Zero(t, took)
		st := o.readStanding()
		require.Equal(t, "the firing of "+instant.Format(time.RFC3339)+" has come, and is being committed", st.Why)
		away.Store(false)
		pass(time.Minute)
		st = o.readStanding()
		require.Equal(t, time.Minute, st.Schedule.Every)
		require.Nil(t, st.Paused)
		require.Empty(t, st.Backfills)
		require.Positive(t, st.Fired)
		for _, ev := range st.Events {
			require.Equal(t, "instant", ev.Cause)
		}
	})
}

// A trigger whose run waits for its commit ends with its context, and the run begins later. Nothing is committed meanwhile that the commit
// would undo.
func TestTriggerWhoseCommitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		o := openBesideABroker(t, &away)
		o.applyFields("every: 24h")
		s := o.Schedules()
		trigger := func(ctx context.Context) error { _, err := s.Trigger(ctx, "s"); return err }
		for range 2 { // the second waits for its turn
			took, err := callFor(t, trigger)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, took)
		}
		_, err := callFor(t, func(ctx context.Context) error { return s.Pause(ctx, "s") })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, o.readStanding().Fired)
		away.Store(false)
		pass(time.Minute)
		require.NoError(t, s.Pause(t.Context(), "s"))
		st := o.readStanding()
		require.EqualValues(t, 1, st.Fired)
		require.Equal(t, []string{"started", "paused"}, []string{st.Events[1].Kind, st.Events[0].Kind})
		require.Equal(t, workflow.RunCompleted, st.Events[1].Status)
	})
}

// An engine closes while a trigger waits for its commit.
func TestCloseWhileATriggerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		o := openBesideABroker(t, &away)
		o.applyFields("every: 24h")
		_, err := callFor(t, func(ctx context.Context) error { _, err := o.Schedules().Trigger(ctx, "s"); return err })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		o.shut()
	})
}
