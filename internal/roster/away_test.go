package roster_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/metertest"
	"github.com/pawl-run/pawl/workflow"
)

// A run is active while a handler works for hours, while its task waits for a slot, and while its result comes later, through a restart as
// well; it is not while it only waits. The bound of metrics says the same.
func TestARunWithATaskIsActiveForHours(t *testing.T) {
	const both = "name: w\nstart: a\nnodes: [{id: a, task: t}, {id: b, wait: {for: 1h}}]\ntransitions: [{from: a, to: b}]"
	d, err := workflow.ParseYAML([]byte(both))
	require.NoError(t, err)
	for bound, options := range map[string]pawl.Options{
		"pawl.bound=tenant.runs,pawl.tenant=acme": {Tenants: map[string]pawl.TenantLimit{"acme": {Active: 2}}},
		"pawl.bound=runs":                         {MaxActive: 2},
	} {
		for _, pending := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, dir, working := t.Context(), t.TempDir(), true
				var p metertest.Provider
				options.MeterProvider, options.MeterTenants, options.Concurrency = &p, true, 1
				options.Executor = pawl.Handlers{"t": func(ctx context.Context, _ pawl.Task) (any, error) {
					switch {
					case !working:
						return nil, nil
					case pending:
						return nil, pawl.ErrPending
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}}
				e, err := pawl.Open(ctx, dir, options)
				require.NoError(t, err)
				start := func(id workflow.RunID) error {
					return e.Start(ctx, workflow.Run{ID: id, Tenant: "acme", Definition: d}, nil)
				}
				full := func(repeated workflow.RunID) {
					t.Helper()
					<-time.After(3 * time.Hour)
					s, err := e.Stats(ctx)
					require.NoError(t, err)
					require.Zero(t, s.Active, "both have left the memory")
					require.ErrorIs(t, start("more"), pawl.ErrBusy)
					left, told := p.Collect(ctx)["pawl.bound.room{"+bound+"}"]
					require.True(t, told)
					require.Zero(t, left)
					require.NoError(t, start(repeated), "it is there")
				}
				require.NoError(t, start("one"))
				require.NoError(t, start("two"))
				full("one")
				require.NoError(t, e.Close(ctx))
				e, err = pawl.Open(ctx, dir, options)
				require.NoError(t, err)
				full("one")

				require.NoError(t, e.Cancel(ctx, "one", "not wanted"))
				synctest.Wait() // it leaves by itself
				require.NoError(t, start("three"))
				full("three")
				working = false
				require.NoError(t, e.Close(ctx))
				e, err = pawl.Open(ctx, dir, options)
				require.NoError(t, err)
				<-time.After(time.Minute)
				require.NoError(t, start("more"))
				for _, id := range []workflow.RunID{"two", "three", "more"} {
					_, err := e.Wait(ctx, id)
					require.NoError(t, err)
				}
				require.NoError(t, e.Close(ctx))
			})
		}
	}
}

// A sleeping run whose file is gone is woken once: it is left asleep from then on.
func TestADamagedRunIsWokenOnce(t *testing.T) {
	d, err := workflow.ParseYAML([]byte("name: w\nstart: a\nnodes: [{id: a, wait: {for: 1h}}]"))
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, dir := t.Context(), t.TempDir()
		e, err := pawl.Open(ctx, dir, pawl.Options{IdleAfter: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		require.NoError(t, e.Start(ctx, workflow.Run{ID: "one", Definition: d}, nil))
		<-time.After(time.Minute)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "runs")))
		<-time.After(2 * time.Hour)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "runs"), 0o700))
		require.NoError(t, e.Close(ctx))
		require.Equal(t, 1, strings.Count(log.String(), "a run cannot go on"), log.String())
	})
}
