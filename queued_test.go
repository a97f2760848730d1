package pawl_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A task that is dispatched and that nobody performs says what it waits for, its place in line and since when, and nobody is
// advised to skip it; a task that is performed says so.
func TestQueuedTasksSayWhatTheyWaitFor(t *testing.T) {
	for want, o := range map[string]pawl.Options{
		workflow.QueuedForSlot:   {Concurrency: 1},
		workflow.QueuedForType:   {Types: map[string]pawl.TypeLimit{"work": {Concurrency: 1}}},
		workflow.QueuedForRate:   {Types: map[string]pawl.TypeLimit{"work": {Rate: 0.01}}},
		workflow.QueuedForTenant: {Tenants: map[string]pawl.TenantLimit{"acme": {Concurrency: 1}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			o.Executor = pawl.Handlers{"work": func(ctx context.Context, _ pawl.Task) (any, error) {
				select {
				case <-hold:
				case <-ctx.Done():
				}
				return nil, ctx.Err()
			}}
			e := open(t, t.TempDir(), o)
			def := define(t, "name: w\nstart: s\nnodes: [{id: s}, {id: a, task: work}]\ntransitions: [{from: s, to: a, spawnCount: 3, siblingGroup: g}]\n")
			began := time.Now().UTC()
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Tenant: "acme", Definition: def}, nil))
			<-time.After(time.Second)
			var places []int
			running := 0
			for _, token := range mustInspect(t, e, "r").Tokens[1:] {
				if token.Executing {
					running++
					require.Nil(t, token.Queued, want)
					continue
				}
				require.NotNil(t, token.Queued, want)
				require.Equal(t, want, token.Queued.For)
				require.Equal(t, 2, token.Queued.Of)
				require.True(t, token.Queued.Since.Equal(began), want)
				places = append(places, token.Queued.Place)
			}
			require.Equal(t, 1, running, want)
			require.Equal(t, []int{1, 2}, places, want)

			x, err := e.Why(t.Context(), "r")
			require.NoError(t, err)
			require.Len(t, x.Waits, 1)
			w := x.Waits[0]
			require.Equal(t, []int{3, 1, 2}, []int{w.Count, w.Running, w.Waiting})
			require.Equal(t, 1, w.Queued.Place)
			require.Contains(t, w.For, "attempt 1: 1 run, the first since 2000-01-01T00:00:00Z; 2 wait, the first is queued for")
			require.NotEmpty(t, w.Try, "one is performed")

			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "q", Tenant: "acme", Definition: def}, nil))
			<-time.After(time.Second)
			x, err = e.Why(t.Context(), "q")
			require.NoError(t, err)
			require.Zero(t, x.Waits[0].Running)
			require.Equal(t, 3, x.Waits[0].Queued.Place)
			require.Empty(t, x.Waits[0].Try, "to skip what has not begun helps nobody")
			require.Contains(t, x.Waits[0].For, "3 of 5 in line")
			require.Equal(t, 1, strings.Count(x.Waits[0].For, "since"), x.Waits[0].For)
			close(hold)
		})
	}
}
