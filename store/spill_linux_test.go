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
	f, err := os.Create(d.pathOf("tmp/x"))
	require.NoError(t, err)
	err = errors.Join(allocateBlocks(f, 1), f.Close(), os.Remove(f.Name()))
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("the file system cannot tell")
	}
	require.NoError(t, err)
	require.NoError(t, d.reserveSpace(1<<20))
	const more = 1 << 60 // than any disk has
	require.ErrorIs(t, d.reserveSpace(more), ErrNoSpace)

	f, err = os.Create(d.pathOf("tmp/x"))
	require.NoError(t, err)
	require.ErrorIs(t, allocateBlocks(f, more), unix.ENOSPC)
	var s unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &s))
	require.Zero(t, s.Blocks, "what is refused takes nothing, not even for a moment: others write to the same disk")
	require.NoError(t, errors.Join(f.Close(), os.Remove(f.Name())))
	require.Empty(t, temporary(t, d))
}
