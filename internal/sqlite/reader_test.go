package sqlite_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// A reader reads the file that it was given, whatever has its name by then.
func TestOpenReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	written := memory(t)
	for i := range int64(1000) {
		_, err := written.Exec(insert, 1000-i, "x", make([]byte, 100))
		require.NoError(t, err)
	}
	data, err := written.Serialize()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	c, err := sqlite.OpenReader(f, `PRAGMA trusted_schema=OFF;`)
	require.NoError(t, err)
	require.NoError(t, os.Rename(path, path+".old"))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.WriteFile(path+"-journal", data, 0o600))
	n := 0
	require.NoError(t, c.Each(list, func(r *sqlite.Row) error { n++; require.Equal(t, n, r.Int(0)); return nil }), "sorted")
	require.Equal(t, 1000, n)
	_, err = c.Exec(insert, int64(1), "x", nil)
	require.ErrorContains(t, err, "readonly")
	require.NoError(t, c.Close())
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
}

func TestOpenReaderCloses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	_, err = sqlite.OpenReader(f, `SELECT * FROM sqlite_schema;`)
	require.True(t, sqlite.IsDamaged(err), "%v", err)
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
}
