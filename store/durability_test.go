package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// SQLite syncs every commit unless the directory was opened for less.
func TestDurabilityOfCommits(t *testing.T) {
	for durability, want := range map[Durability]int64{PowerLoss: 2, ProcessCrash: 1} { // FULL, NORMAL
		d, err := Open(t.TempDir(), Options{Durability: durability})
		require.NoError(t, err)
		var got int64
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
			return db.Each(`PRAGMA synchronous`, func(r *sqlite.Row) error { got = r.Int64(0); return nil })
		}))
		require.Equal(t, want, got)
		require.NoError(t, d.Close())
	}
}
