package pawl_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

const wideTasks = "name: wide\nstart: a\nnodes: [{id: a}, {id: b, task: work}]\ntransitions: [{from: a, to: b, spawnCount: 10000}]"

// One tenant has 10,000 tasks and a hundred runs queued; a run that another one begins has every second turn from its
// first task on, and waits for no task but the one that has the turn.
func TestATenantIsNotDelayedByAnother(t *testing.T) {
	tasks := &firstHeld{begun: make(chan struct{}, 1), gate: make(chan struct{})}
	e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Durability: pawl.ProcessCrash, Executor: tasks})
	one := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}, {id: b, task: work}]\ntransitions: [{from: a, to: b}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "wide", Definition: define(t, wideTasks), Tenant: "big"}, nil))
	<-tasks.begun
	for i := range 100 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID("many" + string(rune('a'+i%26)) + string(rune('a'+i/26))), Definition: one, Tenant: "big"}, nil))
	}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "small", Definition: one, Tenant: "small"}, nil))
	close(tasks.gate)
	out, err := e.Wait(t.Context(), "small")
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.LessOrEqual(t, slices.Index(tasks.order(), workflow.RunID("small")), 2, "of the tasks that were queued before it, one runs and one may have the turn")
	require.NoError(t, e.Cancel(t.Context(), "wide", ""))
}

const family = "name: family\nstart: a\nnodes: [{id: a, subworkflow: {name: leaf}}]"

// The tenant of a run is that of its children, is shown, selects runs, and stays: over a restart and a repair.
func TestTheTenantOfARun(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	begun := make(chan bool, 9)
	options := pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		begun <- true
		return nil, pawl.ErrPending
	}}}
	e := open(t, dir, options)
	_, err := e.Publish(t.Context(), define(t, "name: leaf\nstart: w\nnodes: [{id: w, task: work}]"))
	require.NoError(t, err)
	def := define(t, family)
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def, Tenant: "acme"}, nil))
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def, Tenant: "acme"}, nil), "the same again")
	require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def}, nil), pawl.ErrRunExists)
	require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def, Tenant: "other"}, nil), pawl.ErrRunExists)
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "s", Definition: def, Tenant: "other"}, nil))
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "t", Definition: def}, nil))
	for _, bad := range []string{strings.Repeat("x", workflow.MaxTenant+1), "a\xff", "a\nb", "a\u200bb"} {
		require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "bad", Definition: def, Tenant: bad}, nil), pawl.ErrInvalid)
	}

	runsOf := func(e *pawl.Engine, f pawl.RunFilter) (ids []workflow.RunID) {
		for r, err := range e.Runs(ctx, f) {
			require.NoError(t, err)
			require.Equal(t, f.Tenant, r.Tenant)
			ids = append(ids, r.Run)
		}
		return ids
	}
	check := func(e *pawl.Engine) {
		for range 3 { // the children are there
			<-begun
		}
		require.Equal(t, []workflow.RunID{"r", "r/1.1"}, slices.Sorted(slices.Values(runsOf(e, pawl.RunFilter{Tenant: "acme"}))))
		require.Equal(t, []workflow.RunID{"s"}, runsOf(e, pawl.RunFilter{Tenant: "other", Roots: true}))
		require.Empty(t, runsOf(e, pawl.RunFilter{Tenant: "other", Status: []workflow.RunStatus{workflow.RunFailed}}))
		require.Empty(t, runsOf(e, pawl.RunFilter{Tenant: "nobody"}))
		for id, want := range map[workflow.RunID]string{"r": "acme", "r/1.1": "acme", "s/1.1": "other", "t": "", "t/1.1": ""} {
			s, err := e.Inspect(ctx, id)
			require.NoError(t, err)
			require.Equal(t, want, s.Tenant, id)
			for ev, err := range e.Events(ctx, id, pawl.EventsOptions{}) {
				require.NoError(t, err)
				told, _ := ev.Data["tenant"].(string)
				require.Equal(t, want, told, "as the first event says")
				break
			}
		}
	}
	check(e)
	require.NoError(t, e.Close(ctx))
	e = open(t, dir, options)
	check(e)
	require.NoError(t, e.Close(ctx))
	report, err := rescue.Verify(dir)
	require.NoError(t, err)
	require.Zero(t, report.Damage)
	repaired := filepath.Join(t.TempDir(), "repaired")
	_, err = rescue.Repair(dir, repaired)
	require.NoError(t, err)
	check(open(t, repaired, options))
}

// Limits of tenants bound what each has at once, and no other.
func TestLimitsOfTenants(t *testing.T) {
	ctx := t.Context()
	for _, bad := range []map[string]pawl.TenantLimit{{"a": {Concurrency: -1}}, {"*": {Active: -1}}, {"a": {Bytes: -1}}, {"a": {Pending: true}}, {"": {Active: 1}}, {"a\n": {}}} {
		_, err := pawl.Open(ctx, t.TempDir(), pawl.Options{Tenants: bad})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, "Options.Tenants")
	}
	begun := make(chan workflow.RunID, 99)
	gate := make(chan struct{})
	dir := t.TempDir()
	options := pawl.Options{
		Tenants: map[string]pawl.TenantLimit{"*": {Active: 2, Concurrency: 1}, "vip": {}},
		Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
			begun <- task.Run
			select {
			case <-gate:
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}},
	}
	e := open(t, dir, options)
	def := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}]")
	start := func(id workflow.RunID, tenant string) error {
		return e.Start(ctx, workflow.Run{ID: id, Definition: def, Tenant: tenant}, nil)
	}
	require.NoError(t, start("a1", "a"))
	require.Equal(t, workflow.RunID("a1"), <-begun)
	require.NoError(t, start("a2", "a"))
	s, err := e.Inspect(ctx, "a2")
	require.NoError(t, err)
	require.True(t, s.Tokens[0].Limited, "it waits for its tenant")
	err = start("a3", "a")
	require.ErrorIs(t, err, pawl.ErrBusy)
	var busy *pawl.TenantBusyError
	require.ErrorAs(t, err, &busy)
	require.Equal(t, pawl.TenantBusyError{Tenant: "a", Active: 2, Max: 2}, *busy)
	for _, other := range []string{"b", "vip", "vip", "vip", "", "", ""} {
		require.NoError(t, start(pawl.NewRunID(), other))
		<-begun
	}
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, options) // what goes on counts as well
	for range 8 {
		<-begun
	}
	for _, id := range []workflow.RunID{"a1", "a2"} {
		require.ErrorAs(t, e.Signal(ctx, id, workflow.Signal{Name: "unknown"}), new(*workflow.SignalError), "it is loaded")
	}
	require.ErrorIs(t, start("a3", "a"), pawl.ErrBusy)
	close(gate)
	for _, id := range []workflow.RunID{"a1", "a2"} {
		out, err := e.Wait(ctx, id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
}

// A tenant whose runs take as many bytes as they may starts and forks no more; its runs go on, others notice nothing, and
// a purge makes room.
func TestTheBytesOfATenantAreBounded(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	options := pawl.Options{
		Tenants:  map[string]pawl.TenantLimit{"*": {Bytes: 600_000}, "vip": {}},
		Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }},
	}
	def := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}]")
	start := func(e *pawl.Engine, id workflow.RunID, tenant string) error {
		return e.Start(ctx, workflow.Run{ID: id, Definition: def, Tenant: tenant}, map[string]any{"x": strings.Repeat("x", 250_000)})
	}
	e := open(t, dir, options)
	require.NoError(t, start(e, "a1", "a"))
	require.NoError(t, start(e, "a2", "a"))
	require.NoError(t, start(e, "a3", "a"), "it may begin until there are so many")
	refused := func(e *pawl.Engine) {
		err := start(e, "a4", "a")
		require.ErrorIs(t, err, pawl.ErrBusy)
		var full *pawl.TenantFullError
		require.ErrorAs(t, err, &full)
		require.Equal(t, "a", full.Tenant)
		require.Equal(t, int64(600_000), full.Max)
		require.Greater(t, full.Bytes, full.Max)
		require.ErrorContains(t, err, "purge")
		_, err = e.Inspect(ctx, "a4")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		require.ErrorAs(t, e.Fork(ctx, "a3", "f", pawl.ForkOptions{}), &full)
	}
	refused(e)
	for _, other := range []string{"b", "vip", "vip", "vip", "vip", "", "", "", ""} {
		require.NoError(t, start(e, pawl.NewRunID(), other))
	}
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, options)
	refused(e)
	require.NoError(t, start(e, "a2", "a"), "the same again")
	require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "a2", Definition: def, Tenant: "a"}, nil), pawl.ErrRunExists)
	for _, id := range []workflow.RunID{"a1", "a2"} {
		require.NoError(t, e.Cancel(ctx, id, ""), "it goes on")
		refused(e)
	}
	for _, id := range []workflow.RunID{"a1", "a2"} {
		require.NoError(t, e.Purge(ctx, id))
	}
	require.NoError(t, start(e, "a4", "a"))
	err := start(e, "a5", "a")
	require.ErrorAs(t, err, new(*pawl.TenantFullError))
}
