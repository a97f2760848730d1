package store

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// Keys that were given out before a restart, or before the directory was copied, are
// good after it.
func TestTheSecretStays(t *testing.T) {
	path, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	d := open(t, path)
	secret := d.Secret()
	require.Len(t, secret, index.SecretSize)
	_, err := d.Backup(t.Context(), copied, nil)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.Equal(t, secret, open(t, path).Secret())
	require.Equal(t, secret, open(t, copied).Secret())
	require.NotEqual(t, secret, open(t, t.TempDir()).Secret())
}

func TestADamagedSecretIsRefused(t *testing.T) {
	for _, change := range []string{`value = x'00'`, `value = ''`, `value = 1`, `value = zeroblob(36)`, `value = substr(value, 1, 35) || x'00'`, `key = 'secrets'`} {
		path := t.TempDir()
		d := open(t, path)
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
			return db.Script(`UPDATE meta SET ` + change + ` WHERE key = 'secret'`)
		}))
		require.NoError(t, d.Close())
		_, err := Open(path, Options{})
		require.ErrorIs(t, err, ErrCorrupt, change)
		require.ErrorContains(t, err, "secret", change)
	}
}
