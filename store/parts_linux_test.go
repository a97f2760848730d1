package store

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A record for which the disk has no room is refused before it takes what is left.
func TestSpare(t *testing.T) {
	d := open(t, t.TempDir())
	f, err := os.Create(d.at("tmp/x"))
	require.NoError(t, err)
	err = errors.Join(allocate(f, 1), f.Close(), os.Remove(f.Name()))
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("the file system cannot tell")
	}
	require.NoError(t, err)
	var s unix.Statfs_t
	require.NoError(t, unix.Statfs(d.path, &s))
	require.NoError(t, d.spare(1<<20))
	require.ErrorIs(t, d.spare(int64(s.Bfree)*s.Bsize+1<<30), ErrNoSpace)
	left, err := os.ReadDir(d.at("tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}
