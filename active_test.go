package pawl_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

const waitThenWork = "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}, {id: b, task: work}]\ntransitions: [{from: a, to: b}]"

// A run that only waits leaves its place to others at once, and comes back when something comes for it; one that has a task
// does not.
func TestARunThatOnlyWaitsIsNotActive(t *testing.T) {
	for name, options := range map[string]pawl.Options{
		"of a tenant": {Tenants: map[string]pawl.TenantLimit{"acme": {Active: 2}}},
		"of all":      {MaxActive: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, dir, began := t.Context(), t.TempDir(), time.Now()
				gate := make(chan struct{})
				options.Executor = pawl.Handlers{"work": func(ctx context.Context, _ pawl.Task) (any, error) {
					select {
					case <-gate:
						return nil, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}}
				e := open(t, dir, options)
				def := define(t, waitThenWork)
				start := func(i int) error {
					return e.Start(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprintf("w%02d", i)), Definition: def, Tenant: "acme"}, nil)
				}
				for i := range 20 {
					require.NoError(t, start(i))
				}
				synctest.Wait()
				if options.MaxActive > 0 {
					s, err := e.Stats(ctx)
					require.NoError(t, err)
					require.Equal(t, 2, s.Active, "the others have left the memory")
				}
				require.NoError(t, e.Close(ctx))

				e = open(t, dir, options)
				for i := range 20 { // two of them have a task, and are active
					require.NoError(t, e.Signal(ctx, workflow.RunID(fmt.Sprintf("w%02d", i)), workflow.Signal{Name: "go"}))
					if i == 1 {
						require.ErrorIs(t, start(20), pawl.ErrBusy)
					}
				}
				close(gate)
				for i := range 20 {
					out, err := e.Wait(ctx, workflow.RunID(fmt.Sprintf("w%02d", i)))
					require.NoError(t, err)
					require.NoError(t, out.Err())
				}
				synctest.Wait()
				require.NoError(t, start(20))
				require.Zero(t, time.Since(began), "nobody waits for Options.IdleAfter")
				require.NoError(t, e.Close(ctx))
			})
		})
	}
}

// Runs that wait make room for others while events come for them, from many sides, and none is lost.
func TestRunsThatMakeRoomLoseNothing(t *testing.T) {
	ctx := t.Context()
	e := open(t, t.TempDir(), pawl.Options{
		MaxActive: 4, Tenants: map[string]pawl.TenantLimit{"acme": {Active: 3}}, Durability: pawl.ProcessCrash,
		Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }},
	})
	def := define(t, waitThenWork)
	var group sync.WaitGroup
	for side := range 8 {
		group.Go(func() {
			for i := range 25 {
				id := workflow.RunID(fmt.Sprintf("r%d.%d", side, i))
				for err := pawl.ErrBusy; err != nil; { //nolint:errname // it is one at first
					err = e.Start(ctx, workflow.Run{ID: id, Definition: def, Tenant: "acme"}, nil)
					if err != nil && !assert.ErrorIs(t, err, pawl.ErrBusy) {
						return
					}
					runtime.Gosched()
				}
				group.Go(func() { assert.NoError(t, e.Signal(ctx, id, workflow.Signal{Name: "go"})) })
			}
		})
	}
	group.Wait()
	for side := range 8 {
		for i := range 25 {
			out, err := e.Wait(ctx, workflow.RunID(fmt.Sprintf("r%d.%d", side, i)))
			require.NoError(t, err)
			require.NoError(t, out.Err())
		}
	}
}

// A start at the bound says which option it is.
func TestBusyNamesItsOption(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{MaxActive: 1, Executor: pawl.Handlers{"work": func(ctx context.Context, _ pawl.Task) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}})
	def := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: def}, nil))
	err := e.Start(t.Context(), workflow.Run{ID: "b", Definition: def}, nil)
	require.ErrorIs(t, err, pawl.ErrBusy)
	require.EqualError(t, err, "busy: 1 runs are active, and no more may be (Options.MaxActive)")
}

// Forks of runs that only wait keep to the bound of active runs: each of them makes room for the next.
func TestForksMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{MaxActive: 2})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, waitThenWork)}, nil))
		for i := range 20 {
			require.NoError(t, e.Fork(t.Context(), "a", workflow.RunID(fmt.Sprint("f", i)), pawl.ForkOptions{}))
			synctest.Wait()
		}
		s, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, s.Active, 3)
		require.NoError(t, e.Close(t.Context()))
	})
}

// A start of a run that is there is no new run: it needs no room, though the run has ended and has no actor.
func TestAStartIsRepeatedWithoutRoom(t *testing.T) {
	for name, options := range map[string]pawl.Options{
		"of a tenant": {Tenants: map[string]pawl.TenantLimit{"acme": {Active: 1}}},
		"of all":      {MaxActive: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				options.Executor = pawl.Handlers{
					"quick": func(context.Context, pawl.Task) (any, error) { return nil, nil },
					"slow":  func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
				}
				e := open(t, t.TempDir(), options)
				run := func(id workflow.RunID, task string) workflow.Run {
					return workflow.Run{ID: id, Tenant: "acme", Definition: define(t, "name: "+task+"\nstart: a\nnodes: [{id: a, task: "+task+"}]")}
				}
				_, err := e.Publish(t.Context(), run("", "quick").Definition)
				require.NoError(t, err)
				at := time.Now().Truncate(time.Hour).Add(time.Hour)
				fired := schedule.Firing{At: at}.RunID("s")
				for _, id := range []workflow.RunID{"q", fired} {
					_, err := e.Run(t.Context(), run(id, "quick"), nil)
					require.NoError(t, err)
					synctest.Wait() // its actor leaves
				}
				require.NoError(t, e.Start(t.Context(), run("hog", "slow"), nil))
				require.ErrorIs(t, e.Start(t.Context(), run("more", "slow"), nil), pawl.ErrBusy)
				require.NoError(t, e.Start(t.Context(), run("q", "quick"), nil))
				require.ErrorIs(t, e.Start(t.Context(), run("q", "slow"), nil), pawl.ErrRunExists)
				out, err := e.Run(t.Context(), run("q", "quick"), nil)
				require.NoError(t, err)
				require.Equal(t, workflow.RunCompleted, out.Status)

				set, err := schedule.Parse([]byte("schedules: [{id: s, tenant: acme, workflow: {name: quick}, cron: ['0 * * * *']}]"))
				require.NoError(t, err)
				_, err = e.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
				require.NoError(t, err)
				<-time.After(time.Until(at.Add(time.Minute)))
				var kinds []string
				events, err := e.Schedules().Events(t.Context(), "s", time.Time{}, time.Time{})
				require.NoError(t, err)
				for _, ev := range events {
					kinds = append(kinds, ev.Kind)
				}
				require.Equal(t, []string{"joined"}, kinds)
				require.NoError(t, e.Close(t.Context()))
			})
		})
	}
}
