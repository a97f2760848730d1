package tracing_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// A start that is refused has no span: because of a bound, for an hour of firings of a schedule as well, because of its input, or because
// the caller gave up before a message was sent.
func TestRefusedStartsHaveNoSpan(t *testing.T) {
	for name, options := range map[string]pawl.Options{
		"bytes":  {Tenants: map[string]pawl.TenantLimit{"acme": {Bytes: 1}}},
		"tenant": {Tenants: map[string]pawl.TenantLimit{"acme": {Active: 1}}},
		"active": {MaxActive: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p spantest.Provider
				options.Executor = pawl.Handlers{"t": func(ctx context.Context, _ pawl.Task) (any, error) { <-ctx.Done(); return nil, ctx.Err() }}
				e := open(t, t.TempDir(), &p, options)
				d := define(t, "name: w\nstart: b\ninput: {schema: {properties: {n: {type: integer}}}}\nnodes: [{id: b, task: t}]")
				_, err := e.Publish(t.Context(), d)
				require.NoError(t, err)
				start := func(id workflow.RunID, input any) error {
					return e.Start(t.Context(), workflow.Run{ID: id, Tenant: "acme", Definition: d}, input)
				}
				require.ErrorAs(t, start("bad", map[string]any{"n": "one"}), new(*workflow.InputError))
				synctest.Wait() // its actor leaves
				require.NoError(t, start("hog", nil))
				set, err := schedule.Parse([]byte("schedules: [{id: s, tenant: acme, workflow: {name: w}, every: 1h}]"))
				require.NoError(t, err)
				_, err = e.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
				require.NoError(t, err)
				<-time.After(90 * time.Minute)
				for range 10 {
					require.ErrorIs(t, start("more", nil), pawl.ErrBusy)
				}
				gone, leave := context.WithCancel(t.Context())
				leave()
				require.ErrorIs(t, e.Start(gone, workflow.Run{ID: "gone", Definition: d}, nil), context.Canceled)
				require.NoError(t, e.Close(t.Context()))
				started := p.Named("start w")
				require.Len(t, started, 1)
				require.Equal(t, "hog", started[0].Attributes["pawl.run.id"])
				spantest.RequireWhole(t, p.Spans())
			})
		})
	}
}

// A start span is told before the commit of its run begins, also if its caller has left meanwhile, and once.
func TestAStartSpanComesBeforeItsCommit(t *testing.T) {
	var p spantest.Provider
	hook := &testhook.Hook{}
	e, err := pawl.Open(testhook.With(t.Context(), hook), t.TempDir(), pawl.Options{TracerProvider: &p})
	require.NoError(t, err)
	begun, goesOn := make(chan int, 1), make(chan struct{})
	var once sync.Once
	hook.OnHit(func(point string) {
		if point == "commit.begin" && p.Begun() > 0 {
			once.Do(func() {
				begun <- len(p.Named("start w"))
				<-goesOn
			})
		}
	})
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: x}}]")
	ctx, leave := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { answer <- e.Start(ctx, workflow.Run{ID: "r", Definition: d}, nil) }()
	require.Equal(t, 1, <-begun)
	leave()
	require.ErrorIs(t, <-answer, context.Canceled)
	close(goesOn)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	require.NoError(t, e.Close(t.Context()))
	require.Len(t, p.Named("start w"), 1)
}

// Among many that start the same run at once, one has begun it, and its span is the parent of all.
func TestOneOfManyStartsHasASpan(t *testing.T) {
	var p spantest.Provider
	e := open(t, t.TempDir(), &p, pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
	d := define(t, "name: w\nstart: b\nnodes: [{id: b, task: t}]")
	const runs = 50
	var group sync.WaitGroup
	failed := make(chan error, 4*runs)
	for i := range runs {
		for range 4 {
			group.Go(func() {
				failed <- e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: d}, nil)
			})
		}
	}
	group.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	for i := range runs {
		_, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("r", i)))
		require.NoError(t, err)
	}
	require.NoError(t, e.Close(t.Context()))
	spantest.RequireWhole(t, p.Spans())
	require.Len(t, p.Named("start w"), runs)
}

// A fork or an import that is refused has no span either, because of a bound or of a run that has its id; one that is made has one.
func TestRefusedForksHaveNoSpan(t *testing.T) {
	var p spantest.Provider
	e := open(t, t.TempDir(), &p, pawl.Options{
		Tenants:  map[string]pawl.TenantLimit{"acme": {Active: 2}},
		Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }},
	})
	d := define(t, "name: w\nstart: b\nnodes: [{id: b, task: t}]")
	for _, id := range []workflow.RunID{"a", "b"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Tenant: "acme", Definition: d}, nil))
	}
	recording, err := e.Recording(t.Context(), "a")
	require.NoError(t, err)
	defer recording.Close()
	fork := func(id workflow.RunID) error { return e.Fork(t.Context(), "a", id, pawl.ForkOptions{}) }
	require.ErrorIs(t, fork("f"), pawl.ErrBusy)
	require.ErrorIs(t, fork("b"), pawl.ErrRunExists)
	require.ErrorIs(t, e.Import(t.Context(), recording, "i", pawl.ForkOptions{}), pawl.ErrBusy)
	require.NoError(t, e.Cancel(t.Context(), "b", ""))
	require.Eventually(t, func() bool { return fork("f") == nil }, time.Minute, time.Millisecond, "the actor of b leaves")
	require.NoError(t, e.Close(t.Context()))
	var runs []any
	for _, s := range p.Named("start w") {
		runs = append(runs, s.Attributes["pawl.run.id"])
	}
	require.ElementsMatch(t, []any{"a", "b", "f"}, runs)
	spantest.RequireWhole(t, p.Spans())
}
