package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// Writes between the steps, to pages that are copied already and to others, are
// in the copy.
func TestBackupWhileTheConnectionWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	data, err := memory(t).Serialize()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	c, err := sqlite.Open(path, `PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;`)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	n := int64(0)
	write := func() {
		_, err := c.Exec(insert, n, "x", make([]byte, 900))
		require.NoError(t, err)
		_, err = c.Exec(`UPDATE t SET b = ? WHERE a = 0`, string(rune('a'+n%26)))
		require.NoError(t, err)
		n++
	}
	for range 100 {
		write()
	}
	into := filepath.Join(t.TempDir(), "a b?c%.db")
	b, err := c.Backup(into)
	require.NoError(t, err)
	steps := 0
	for more := true; more; steps++ {
		more, err = b.Step(3)
		require.NoError(t, err)
		if more && steps%4 == 0 {
			write()
		}
	}
	require.Greater(t, steps, 20)
	require.NoError(t, b.Finish())
	want := n
	write() // too late

	copied, err := sqlite.Open(into, `PRAGMA integrity_check`)
	require.NoError(t, err)
	defer func() { require.NoError(t, copied.Close()) }()
	got := int64(0)
	require.NoError(t, copied.Each(list, func(r *sqlite.Row) error {
		require.Equal(t, got, r.Int64(0))
		if got == 0 {
			require.Equal(t, string(rune('a'+(want-1)%26)), r.Text(1))
		}
		got++
		return nil
	}))
	require.Equal(t, want, got)
}

func TestABackupThatIsGivenUp(t *testing.T) {
	c := memory(t)
	for i := range int64(100) {
		_, err := c.Exec(insert, i, "x", make([]byte, 900))
		require.NoError(t, err)
	}
	b, err := c.Backup(filepath.Join(t.TempDir(), "x.db"))
	require.NoError(t, err)
	more, err := b.Step(1)
	require.NoError(t, err)
	require.True(t, more)
	require.NoError(t, b.Finish())
	_, err = c.Exec(insert, int64(100), "x", nil)
	require.NoError(t, err)
	_, err = c.Backup(filepath.Join(t.TempDir(), "no", "x.db"))
	require.Error(t, err)
}
