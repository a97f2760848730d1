package store_test

import (
	"os"
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

// TestARedoLogThatNothingNames: a pawl.db that lacks the runs of a redo log is refused, also if there is no lock record that says so.
func TestARedoLogThatNothingNames(t *testing.T) {
	d := store.OpenDir(t, t.TempDir())
	first := store.StartOwner(t, d, "first")
	first.Do(state.Start{}, store.StartRun(nil))
	require.NoError(t, d.Close())
	d = store.OpenDir(t, d.Path())
	later := store.StartOwner(t, d, "later")
	later.Do(state.Start{}, store.StartRun(nil))
	later.Do(state.Heartbeat{})
	later.Do(state.Heartbeat{})
	for _, lock := range []string{"", "closed 00"} {
		path := store.Crashed(t, d.Path())
		for _, name := range []string{store.LockName, store.IndexFile + "-wal"} {
			require.NoError(t, os.Remove(filepath.Join(path, name)))
		}
		if lock != "" {
			require.NoError(t, os.WriteFile(filepath.Join(path, store.LockName), []byte(lock), 0o600))
		}
		_, err := store.Open(path, store.Options{})
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.ErrorContains(t, err, "it does not name pawl.db-redo, which has them")
		report, err := store.Verify(path)
		require.NoError(t, err)
		require.Positive(t, report.Damage, report.Findings)
		require.FileExists(t, filepath.Join(path, "pawl.db-redo"))
	}
	// With its log pawl.db has or names everything, and nobody misses the lock record.
	path := store.Crashed(t, d.Path())
	require.NoError(t, os.Remove(filepath.Join(path, store.LockName)))
	later.Same(store.OpenDir(t, path))
}
