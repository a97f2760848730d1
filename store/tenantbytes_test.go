package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// startFor starts a run of a tenant.
func startFor(t *testing.T, d *Dir, id workflow.RunID, tenant string) *owner {
	return &owner{t: t, run: d.New(Head{Run: id, Tenant: tenant}, graph(t)), state: state.NewState(id, graph(t))}
}

// requireTenantBytes compares what is counted with what an engine counts that opens a copy of the directory.
func requireTenantBytes(t *testing.T, d *Dir) {
	t.Helper()
	again := openWith(t, crashed(t, d.path), Options{CountTenants: true})
	for _, tenant := range []string{"a", "b", ""} {
		require.InDelta(t, again.TenantBytes(tenant), d.TenantBytes(tenant), 500, "but for how large values are packed: tenant %q", tenant)
	}
	require.NoError(t, again.Close())
}

// The bytes of a tenant are those of its runs, in the log and in files, at every moment: no run counts twice or stays when it
// is purged.
func TestTenantBytes(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	path := t.TempDir()
	d := openWith(t, path, Options{CountTenants: true})
	a, b, nobody := startFor(t, d, "a", "a"), startFor(t, d, "b", "b"), startFor(t, d, "n", "")
	require.Zero(t, d.TenantBytes("a"))
	for _, o := range []*owner{a, b, nobody} {
		o.do(state.Start{}, startRun(map[string]any{"x": "y"}), large(300_000))
	}
	require.InDelta(t, 300_000, d.TenantBytes("a"), 10_000)
	require.Equal(t, a.run.Bytes(), d.TenantBytes("a"))
	require.Zero(t, d.TenantBytes(""))
	requireTenantBytes(t, d)

	a.do(state.Heartbeat{}, large(3*partBytes), large(4*partBytes)) // put aside
	require.InDelta(t, a.run.Bytes(), d.TenantBytes("a"), 500)
	requireTenantBytes(t, d)
	require.NoError(t, a.file())
	require.Greater(t, d.TenantBytes("a"), int64(7*partBytes))
	requireTenantBytes(t, d)
	a.do(state.Heartbeat{}, large(1000))
	require.NoError(t, a.file(), "a file in place of another")
	requireTenantBytes(t, d)

	require.Error(t, startFor(t, d, "a", "a").try(state.Start{}, startRun(nil)), "the run exists")
	requireTenantBytes(t, d)

	ended := startFor(t, d, "ended", "b")
	before := d.TenantBytes("b")
	ended.five(map[string]any{"x": "y"})
	require.NoError(t, ended.file())
	filed := startFor(t, d, "logged", "b")
	filed.five(nil)
	require.Greater(t, d.TenantBytes("b"), before)
	requireTenantBytes(t, d)
	for _, id := range []workflow.RunID{"ended", "logged"} {
		require.NoError(t, d.Purge(id, ""))
	}
	require.Equal(t, before, d.TenantBytes("b"))
	require.ErrorIs(t, d.Purge("b", ""), ErrNotEnded)
	require.Equal(t, before, d.TenantBytes("b"))
	require.NoError(t, d.Close())

	d = openWith(t, path, Options{CountTenants: true})
	require.Greater(t, d.TenantBytes("a"), int64(7*partBytes))
	require.NoError(t, d.Close())
	require.Zero(t, open(t, path).TenantBytes("a"), "it is not counted")
}
