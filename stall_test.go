package pawl_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A run whose task never answers is failed once it has made no progress for as
// long as the option says, with a reason that names the task, also after a
// restart. A run that waits for something that may still come is left alone.
func TestStalledRunsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pending := pawl.Handlers{
			"lost":  func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
			"fails": func(context.Context, pawl.Task) (any, error) { return nil, pawl.TaskError{Code: "no"} },
		}
		dir := t.TempDir()
		options := pawl.Options{Executor: pending, StallAfter: time.Hour}
		e, err := pawl.Open(t.Context(), dir, options)
		require.NoError(t, err)
		nodes := map[workflow.RunID]string{
			"stalled": `{task: lost}`, "times-out": `{task: lost, timeout: 100h}`, "timer": `{wait: {for: 100h}}`,
			"event": `{wait: {event: e}}`, "approval": `{approval: {}}`, "parked": `{task: fails, retry: {exhausted: park}}`,
			"paused": `{task: lost}`,
		}
		for id, node := range nodes {
			d := define(t, "name: w\nstart: s\nnodes: [{id: s}, "+`{id: n, `+node[1:]+"]\ntransitions: [{from: s, to: n}]\n")
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
		}
		require.NoError(t, e.Pause(t.Context(), "paused"))
		d := define(t, "name: child\nstart: n\nnodes: [{id: n, wait: {event: e}}]\n")
		publish(t, e, d)
		d = define(t, "name: parent\nstart: n\nnodes: [{id: n, subworkflow: {name: child}}]\n")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "parent", Definition: d}, nil))

		<-time.After(40 * time.Minute)
		require.NoError(t, e.Close(context.Background()))
		e, err = pawl.Open(t.Context(), dir, options)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		status := func() map[workflow.RunStatus][]string {
			out := map[workflow.RunStatus][]string{}
			for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
				require.NoError(t, err)
				if r.Parent == "" {
					out[r.Status] = append(out[r.Status], string(r.Run))
				}
			}
			for _, ids := range out { // they were started in the order of a map
				slices.Sort(ids)
			}
			return out
		}
		require.Empty(t, status()[workflow.RunFailed])
		<-time.After(59 * time.Minute)
		require.Empty(t, status()[workflow.RunFailed], "what is out was sent again a while ago only")
		<-time.After(2 * time.Minute)
		require.Equal(t, []string{"stalled"}, status()[workflow.RunFailed])
		<-time.After(3 * time.Hour)
		require.Equal(t, map[workflow.RunStatus][]string{
			workflow.RunFailed: {"stalled"}, workflow.RunPaused: {"paused"},
			workflow.RunRunning: {"approval", "event", "parent", "parked", "timer", "times-out"},
		}, status())
		out, err := e.Wait(t.Context(), "stalled")
		require.NoError(t, err)
		require.Equal(t, "stalled", out.Failure.Code)
		require.Regexp(t, `^no progress for 1h4\d+m\d+(\.\d+)?s; no result came for t2 of node "n" \(task type "lost", attempt 1\)$`, out.Failure.Message)
	})
}

// A heartbeat is progress, also at a node without heartbeat.
func TestHeartbeatsAreProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{StallAfter: time.Hour, Executor: pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
			for range 10 {
				<-time.After(40 * time.Minute)
				if err := task.Heartbeat(ctx, nil); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}}})
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}]\n")
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	})
}

// A task that is sent again while the engine opens may tell a heartbeat before Open
// returns. With the race detector this fails if there is no detector by then.
func TestAHeartbeatWhileTheEngineOpens(t *testing.T) {
	dir, out := t.TempDir(), make(chan struct{}, 1)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
		out <- struct{}{}
		return nil, pawl.ErrPending
	}}})
	require.NoError(t, err)
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}]\n")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	<-out
	require.NoError(t, e.Close(t.Context()))

	e = open(t, dir, pawl.Options{StallAfter: time.Hour, Executor: pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
		err := task.Heartbeat(ctx, nil)
		out <- struct{}{}
		return nil, err
	}}})
	<-out // nothing else may order the two
	o, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.NoError(t, o.Err())
}

// A run that moves now and then is not stalled, and without the option none is.
func TestSlowRunsAreNotStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := pawl.Handlers{"*": func(ctx context.Context, _ pawl.Task) (any, error) {
			select {
			case <-time.After(50 * time.Minute):
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}, {id: b, task: t}, {id: c, task: t}]\ntransitions: [{from: a, to: b}, {from: b, to: c}]\n")
		e := open(t, t.TempDir(), pawl.Options{Executor: slow, StallAfter: time.Hour})
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())

		never := open(t, t.TempDir(), pawl.Options{})
		require.NoError(t, never.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
		<-time.After(harness.Figure[time.Duration](100, 1000, 1000) * time.Hour)
		snap, err := never.Inspect(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, workflow.RunRunning, snap.Status)
	})
}

// The wall clock says nothing about how long a run was quiet when it has jumped:
// runs that move are left alone, those that do not are failed after their time,
// also in the next life.
func TestStallsWhenTheClockJumps(t *testing.T) {
	for name, jump := range map[string]time.Duration{
		"an hour ahead": time.Hour, "an hour back": -time.Hour, "ten years ahead": 87_600 * time.Hour, "ten years back": -87_600 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				hook := &testhook.Hook{}
				hook.OnNow(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
				options := pawl.Options{StallAfter: time.Hour, Executor: pawl.Handlers{
					"lost": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
					"slow": func(context.Context, pawl.Task) (any, error) { <-time.After(50 * time.Minute); return nil, nil },
				}}
				dir := t.TempDir()
				e, err := pawl.Open(testhook.With(t.Context(), hook), dir, options)
				require.NoError(t, err)
				slow := define(t, "name: w\nstart: a\nnodes: [{id: a, task: slow}, {id: b, task: slow}]\ntransitions: [{from: a, to: b}, {from: b, to: a, loop: {maxIterations: 2}}]\n")
				lost := define(t, "name: l\nstart: a\nnodes: [{id: a, task: lost}]\n")
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "moves", Definition: slow}, nil))
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "lost", Definition: lost}, nil))
				stands := func(id workflow.RunID) workflow.RunStatus {
					synctest.Wait()
					snap, err := e.Inspect(t.Context(), id)
					require.NoError(t, err)
					return snap.Status
				}
				<-time.After(59 * time.Minute)
				ahead.Store(int64(jump))
				<-time.After(50 * time.Minute)
				require.Equal(t, workflow.RunRunning, stands("lost"), "it was asked again when the clock had jumped")
				<-time.After(30 * time.Minute)
				require.Equal(t, workflow.RunFailed, stands("lost"))
				require.Equal(t, workflow.RunRunning, stands("moves"))
				out, err := e.Wait(t.Context(), "lost")
				require.NoError(t, err)
				require.Regexp(t, `^no progress for 1h\d+m`, out.Failure.Message)

				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "again", Definition: lost}, nil))
				require.NoError(t, e.Close(context.Background()))
				ahead.Store(0)
				e, err = pawl.Open(testhook.With(t.Context(), hook), dir, options)
				require.NoError(t, err)
				defer func() { require.NoError(t, e.Close(context.Background())) }()
				<-time.After(140 * time.Minute) // a record may lie up to StallAfter ahead of the clock before it tells
				require.Equal(t, workflow.RunFailed, stands("again"))
				out, err = e.Wait(t.Context(), "moves")
				require.NoError(t, err)
				require.NoError(t, out.Err())
			})
		})
	}
}
