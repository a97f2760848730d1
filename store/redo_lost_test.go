package store_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
)

// TestARunThatPawlDBLacks: where the redo log has commits of a run whose row is gone, that of a run which was purged, the
// directory opens; any other row was lost, and with it what was acknowledged.
func TestARunThatPawlDBLacks(t *testing.T) {
	d, o := store.Ahead(t, store.Options{})
	gone := store.StartOwner(t, d, "gone")
	gone.Do(state.Start{}, store.StartRun(nil))
	gone.Do(state.Heartbeat{}, decision.CompleteRun{At: store.At(3)})
	require.NoError(t, d.Purge("gone", ""))
	later := store.StartOwner(t, d, "later")
	later.Do(state.Start{}, store.StartRun(nil))
	later.Do(state.Heartbeat{})
	path := store.Crashed(t, d.Path())
	again := store.OpenDir(t, path)
	o.Same(again)
	later.Same(again)
	_, err := again.Head("gone")
	require.ErrorIs(t, err, store.ErrRunNotFound)
	require.NoError(t, again.Close())

	path = store.Crashed(t, d.Path())
	db, err := sqlite.OpenKeeping(filepath.Join(path, store.IndexFile), `PRAGMA locking_mode=EXCLUSIVE; PRAGMA wal_autocheckpoint=0`)
	require.NoError(t, err)
	require.NoError(t, db.Script(`DELETE FROM runs WHERE id = 'later'`))
	lost := store.Crashed(t, path)
	require.NoError(t, db.Close())
	_, err = store.Open(lost, store.Options{})
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, "it lacks a run")
	report, err := store.Verify(lost)
	require.NoError(t, err)
	require.Positive(t, report.Damage)
	repaired := filepath.Join(t.TempDir(), "repaired")
	_, err = store.Repair(lost, repaired)
	require.NoError(t, err)
	head, err := store.OpenDir(t, repaired).Head("r1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, head.Seq, o.Run().Head().Seq)
}
