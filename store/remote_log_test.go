package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
)

// The write of an entry of no transaction into pawl.db is synced before the next transaction: a loss of power between the two would
// leave a write-ahead log that looks damaged.
func TestThePlaceInALogIsSyncedBeforeTheNextCommit(t *testing.T) {
	var memory logtest.Memory
	files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, files.Close()) }()
	d, err := store.OpenRemote(t.Context(), t.TempDir(), store.Options{}, store.RemoteOptions{Log: memory.Writer(nil), Bases: files})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	o := store.StartOwner(t, d, "r1")
	o.Do(state.Start{}, store.StartRun(nil), store.CreateToken(1, "start"), store.Dispatch(1))
	require.False(t, d.LogIsUnsynced())
	require.NoError(t, d.ConfirmLog())
	require.True(t, d.LogIsUnsynced())
	o.Do(state.Heartbeat{Token: 1})
	require.False(t, d.LogIsUnsynced())
}
