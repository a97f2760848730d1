package store_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
)

func TestAccessWarnings(t *testing.T) {
	for _, c := range []struct {
		mode        fs.FileMode
		owner, user int
		want        int
	}{
		{0o700, 1, 1, 0}, {0o755, 0, 0, 0}, {0o775, 1, 1, 0}, {0o777, 1, 1, 1}, {0o777 | os.ModeSticky, 1, 1, 1},
		{0o700, 2, 1, 1}, {0o700, 2, 0, 1}, {0o777, 0, 1, 2}, {0o777, -1, -1, 1}, {0o700, -1, 5, 0},
	} {
		require.Len(t, store.AccessWarnings(c.mode, c.owner, c.user), c.want, "%v of %d for %d", c.mode, c.owner, c.user)
	}
}

// The log is told of a directory into which everybody can write, and of no other.
func TestADirectoryForEverybodyIsTold(t *testing.T) {
	for mode, told := range map[fs.FileMode]bool{0o700: false, 0o777: true} {
		path := filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.Mkdir(path, 0o700))
		require.NoError(t, os.Chmod(path, mode))
		var log bytes.Buffer
		require.NoError(t, store.OpenWith(t, path, store.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}).Close())
		require.Equal(t, told, bytes.Contains(log.Bytes(), []byte("everybody on this machine")), log.String())
	}
}

// Nobody else can read a backup.
func TestABackupIsForItsUserAlone(t *testing.T) {
	d := store.OpenDir(t, t.TempDir())
	o := store.StartOwner(t, d, "r1")
	o.Do(state.Start{}, store.StartRun(nil), store.CreateToken(1, "start"))
	require.NoError(t, o.File())
	into := filepath.Join(t.TempDir(), "copy")
	_, err := d.Backup(t.Context(), into, nil)
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(into, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
}
