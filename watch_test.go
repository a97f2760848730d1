package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

const steps = `
name: steps
start: a
nodes: [{id: a, task: t}, {id: b, task: t}, {id: c, task: t}]
transitions: [{from: a, to: b}, {from: b, to: c}]
`

// watching returns a watch that has been told to list the runs.
func watching(t testing.TB, ctx context.Context, e *pawl.Engine, f pawl.WatchFilter) (next func() (pawl.RunChange, error), stop func()) {
	t.Helper()
	pull, stop := iter.Pull2(e.Watch(ctx, f))
	next = func() (pawl.RunChange, error) {
		c, err, ok := pull()
		require.True(t, ok)
		return c, err
	}
	c, err := next()
	require.NoError(t, err)
	require.False(t, c.At.IsZero(), "when it was told")
	require.Equal(t, pawl.RunChange{At: c.At, Lost: true}, c)
	return next, stop
}

// summaryOf returns a run as Runs lists it.
func summaryOf(t testing.TB, e *pawl.Engine, id workflow.RunID) pawl.RunSummary {
	t.Helper()
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{Prefix: string(id), Limit: 1}) {
		require.NoError(t, err)
		return r
	}
	require.Fail(t, "no such run", "%s", id)
	return pawl.RunSummary{}
}

func codeOf(f *workflow.Failure) string {
	if f == nil {
		return ""
	}
	return f.Code
}

// A watcher is told of each commit of each run that fits, and of a run what its row in the
// index says.
func TestWatch(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
	next, stop := watching(t, t.Context(), e, pawl.WatchFilter{Tenant: "me"})
	defer stop()
	ended, stopEnded := watching(t, t.Context(), e, pawl.WatchFilter{Status: []workflow.RunStatus{workflow.RunCancelled}, Prefix: "o"})
	defer stopEnded()
	is := func(status workflow.RunStatus, seq int64, next func() (pawl.RunChange, error)) {
		t.Helper()
		c, err := next()
		require.NoError(t, err)
		s := summaryOf(t, e, c.Run)
		require.Equal(t, pawl.RunChange{
			Run: s.Run, Workflow: s.Workflow, Version: s.Version, Tenant: s.Tenant, Parent: s.Parent,
			Status: s.Status, Seq: s.Seq, At: c.At, StartedAt: s.StartedAt, EndedAt: s.EndedAt, Code: codeOf(s.Failure),
		}, c)
		require.Equal(t, []any{status, seq}, []any{c.Status, c.Seq})
		require.False(t, c.At.Before(c.StartedAt))
	}
	start := func(id workflow.RunID, tenant string) {
		t.Helper()
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, steps), Tenant: tenant}, nil))
	}
	start("a", "me")
	start("other", "you")
	is(workflow.RunRunning, 1, next)
	require.NoError(t, e.Pause(t.Context(), "a"))
	is(workflow.RunPaused, 2, next)
	require.NoError(t, e.Resume(t.Context(), "a"))
	is(workflow.RunRunning, 3, next)
	for node := range 3 { // nobody looks meanwhile
		snap, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, e.Complete(t.Context(), snap.Tokens[node].Key, nil))
	}
	is(workflow.RunCompleted, 6, next)
	require.NoError(t, e.Cancel(t.Context(), "other", "enough"))
	is(workflow.RunCancelled, 2, ended)
}

// A watch ends with its context, which need not be that of a call, and with the engine, once
// the reader has what was there before.
func TestWatchEnds(t *testing.T) {
	e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
	require.NoError(t, err)
	cause := errors.New("the page was left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancelled, stopCancelled := watching(t, ctx, e, pawl.WatchFilter{})
	defer stopCancelled()
	closed, stopClosed := watching(t, t.Context(), e, pawl.WatchFilter{})
	defer stopClosed()
	cancel(cause)
	_, err = cancelled()
	require.ErrorIs(t, err, cause)
	_, err = e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, steps)}, nil)
	require.NoError(t, err)
	require.NoError(t, e.Close(context.Background()))
	c, err := closed()
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, c.Status)
	_, err = closed()
	require.ErrorIs(t, err, pawl.ErrClosed)
}

// BenchmarkWatch runs chains of three tasks with nobody who watches, and with three.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{0, 3} {
		b.Run(fmt.Sprint(watchers), func(b *testing.B) {
			e := open(b, b.TempDir(), pawl.Options{
				Durability: pawl.ProcessCrash,
				Executor:   pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, nil }},
			})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for range watchers {
				next, stop := watching(b, ctx, e, pawl.WatchFilter{})
				go func() {
					defer stop()
					for _, err := next(); err == nil; {
						_, err = next()
					}
				}()
			}
			def, n := define(b, steps), 0
			for b.Loop() {
				n++
				_, err := e.Run(b.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint(n)), Definition: def}, nil)
				require.NoError(b, err)
			}
		})
	}
}

// No more readers watch at once than may, and one that ends makes room for another.
func TestReadersOfWatchAreBounded(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	var stops []func()
	for range pawl.MaxWatchers {
		_, stop := watching(t, t.Context(), e, pawl.WatchFilter{})
		stops = append(stops, stop)
	}
	for change, err := range e.Watch(t.Context(), pawl.WatchFilter{}) {
		require.ErrorIs(t, err, pawl.ErrBusy)
		require.ErrorContains(t, err, "MaxWatchers")
		require.Zero(t, change)
	}
	stops[0]()
	_, stops[0] = watching(t, t.Context(), e, pawl.WatchFilter{})
	for _, stop := range stops {
		stop()
	}
}
