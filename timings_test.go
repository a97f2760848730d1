package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/workflow"
)

// timed has a task that works for as long as its input says, once more if it fails, and may be timed out.
const timed = `
name: timed
start: pay
nodes:
  - {id: pay, task: charge, timeout: 5s, retry: {maxAttempts: 2, initialInterval: 1ms}, input: {work: input.work}}
`

// timingsOf returns the one row of the timings of an engine.
func timingsOf(t *testing.T, e *pawl.Engine, f history.TimingFilter) history.Timing {
	t.Helper()
	out, err := e.Timings(t.Context(), f)
	require.NoError(t, err)
	require.Len(t, out.Rows, 1)
	return out.Rows[0]
}

// TestTimingsTellQueueAndWork: the time in the queue and of the work count apart, each failure and timeout counts, and all of it is
// there after Close and Open, and is yesterday's a day later.
func TestTimingsTellQueueAndWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"charge": func(ctx context.Context, task pawl.Task) (any, error) {
			work, err := time.ParseDuration(task.Input.(map[string]any)["work"].(string))
			if err != nil {
				return nil, err
			}
			select {
			case <-time.After(work):
			case <-ctx.Done():
			}
			return pawl.Result{Metadata: map[string]any{"cost": 0.1, "model": "small", string(task.Run): 1}}, nil
		}}}
		e := open(t, dir, o)
		begin := time.Now()
		def := define(t, timed)
		for i, work := range []string{"2s", "1s", "no time"} {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: def}, map[string]any{"work": work}))
			synctest.Wait()
		}
		for i := range 3 {
			_, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("r", i)))
			require.NoError(t, err)
		}
		row := timingsOf(t, e, history.TimingFilter{Within: "hour"})
		require.Equal(t, [3]string{"timed", "pay", "charge"}, [3]string{row.Workflow, string(row.Node), row.Task})
		require.Equal(t, int64(4), row.Attempts) // the failure is tried again
		require.Equal(t, int64(2), row.Failed)
		require.InEpsilon(t, 3*time.Second, row.Queue.P95, 0.06) // r2 waited for both others
		require.InEpsilon(t, 2*time.Second, row.Work.P95, 0.06)
		require.Equal(t, map[string]float64{"cost": 0.2, "r0": 1, "r1": 1}, row.Meta)

		_, err := e.Run(t.Context(), workflow.Run{ID: "slow", Definition: def}, map[string]any{"work": "1h"})
		require.NoError(t, err)
		row = timingsOf(t, e, history.TimingFilter{Workflow: "timed", By: "node", Within: "month"})
		require.Equal(t, int64(6), row.Attempts)
		require.Equal(t, int64(4), row.Failed)
		require.InEpsilon(t, 5*time.Second, row.Work.P99, 0.06) // until the run was told that its time was up
		require.Equal(t, row.TimingSum.Attempts, row.Today.Attempts)
		require.NoError(t, e.Close(t.Context()))

		<-time.After(24 * time.Hour)
		e = open(t, dir, o)
		after := timingsOf(t, e, history.TimingFilter{})
		require.Zero(t, after.Attempts)
		require.Zero(t, after.Today)
		require.Equal(t, row.Queue, after.Yesterday.Queue)
		require.Equal(t, row.Work, after.Yesterday.Work)
		require.Equal(t, int64(6), after.Yesterday.Attempts)
		all, err := e.Timings(t.Context(), history.TimingFilter{By: "task", Within: "month"})
		require.NoError(t, err)
		require.WithinDuration(t, begin.Add(3*time.Second), all.Since, 3*time.Second)
		require.Equal(t, map[string]float64{"cost": 0.2, "r0": 1, "r1": 1}, after.Yesterday.Meta)
		require.Len(t, all.Points, 31)
		require.Nil(t, all.Points[30].Meta)
		require.Equal(t, after.Yesterday.Meta, all.Points[29].Meta)
		require.Equal(t, after.Yesterday.Meta, all.Total.Meta)
	})
}

// TestTimingsTellTheLoad: what runs and waits in a process is told by type, with the oldest.
func TestTimingsTellTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := open(t, t.TempDir(), pawl.Options{Concurrency: 2, Executor: pawl.Handlers{
			"charge": func(context.Context, pawl.Task) (any, error) { <-release; return nil, nil },
			"later":  func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
		}})
		later := define(t, "name: later\nstart: a\nnodes: [{id: a, task: later}]\n")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "l", Definition: later}, nil))
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: charge}]\n")
		for i := range 5 {
			synctest.Wait()
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: def}, nil))
			<-time.After(time.Second)
		}
		out, err := e.Timings(t.Context(), history.TimingFilter{})
		require.NoError(t, err)
		require.Equal(t, []history.TypeLoad{
			{Task: "charge", Waiting: 3, Running: 2, Oldest: 3 * time.Second, Longest: 5 * time.Second}, {Task: "later", Pending: 1},
		}, out.Load)
		require.Empty(t, out.Rows)
		close(release)
	})
}

// TestTimingsAreChecked: a filter that asks for what there is not is refused.
func TestTimingsAreChecked(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for _, f := range []history.TimingFilter{{By: "run"}, {Within: "year"}} {
		_, err := e.Timings(t.Context(), f)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone"))
	_, err := e.Timings(gone, history.TimingFilter{})
	require.ErrorContains(t, err, "gone")
}
