//go:build unix

package replay_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
)

// A folder of files of strangers may have pipes and links in it: nobody waits for its writer.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "a.db"), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "b.pawl"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "c.db")))
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "d.pawl")))
	require.NoError(t, os.Symlink("e.db", filepath.Join(dir, "e.db")))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "f.db")))
	n := 0
	for rec, err := range replay.All(replay.Options{}, dir, filepath.Join(dir, "a.db")) {
		require.Nil(t, rec)
		require.Error(t, err)
		n++
	}
	require.Equal(t, 7, n)
	_, err := replay.Open(filepath.Join(dir, "b.pawl"), replay.Options{})
	require.ErrorIs(t, err, store.ErrCorrupt)
}
