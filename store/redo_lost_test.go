package store

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
)

// TestARunThatPawlDBLacks: where the redo log has commits of a run whose row is gone, that of a run which was purged, the
// directory opens; any other row was lost, and with it what was acknowledged.
func TestARunThatPawlDBLacks(t *testing.T) {
	d, o := ahead(t, Options{})
	gone := start(t, d, "gone")
	gone.do(state.Start{}, startRun(nil))
	gone.do(state.Heartbeat{}, decision.CompleteRun{At: at(3)})
	require.NoError(t, d.Purge("gone", ""))
	later := start(t, d, "later")
	later.do(state.Start{}, startRun(nil))
	later.do(state.Heartbeat{})
	path := crashed(t, d.path)
	again := open(t, path)
	o.same(again)
	later.same(again)
	_, err := again.Head("gone")
	require.ErrorIs(t, err, ErrRunNotFound)
	require.NoError(t, again.Close())

	path = crashed(t, d.path)
	db, err := sqlite.OpenKeeping(filepath.Join(path, indexFile), `PRAGMA locking_mode=EXCLUSIVE; PRAGMA wal_autocheckpoint=0`)
	require.NoError(t, err)
	require.NoError(t, db.Script(`DELETE FROM runs WHERE id = 'later'`))
	lost := crashed(t, path)
	require.NoError(t, db.Close())
	_, err = Open(lost, Options{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "it lacks a run")
	report, err := Verify(lost)
	require.NoError(t, err)
	require.Positive(t, report.Damage)
	repaired := filepath.Join(t.TempDir(), "repaired")
	_, err = Repair(lost, repaired)
	require.NoError(t, err)
	head, err := open(t, repaired).Head("r1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, head.Seq, o.run.Head().Seq)
}
