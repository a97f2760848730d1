package folderlog_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
)

// On a full disk an entry is refused for want of room, and is not there; when old ones are dropped, it finds room.
func TestFullDisk(t *testing.T) {
	dir := harness.Workspace(t)
	harness.MountSmall(t, dir, 1<<20)
	l := fillLog(t, filepath.Join(dir, "log"), 1)
	large, last := bytes.Repeat([]byte("x"), 100<<10), uint64(1)
	for {
		p, err := l.Append(t.Context(), large)
		if err != nil {
			require.ErrorIs(t, err, store.ErrNoSpace)
			break
		}
		last = p.Seq
	}
	read, err := readLog(t, l, 0, func(uint64) {})
	require.NoError(t, err)
	require.Len(t, read, int(last)) //nolint:gosec // about ten
	reader := openLog(t, filepath.Join(dir, "log"))
	_, err = reader.Take(t.Context(), func(store.Position) []byte { return large })
	require.ErrorIs(t, err, store.ErrNoSpace)
	require.NoError(t, l.Drop(t.Context(), store.Position{Seq: last - 1}))
	p, err := l.Append(t.Context(), large)
	require.NoError(t, err)
	require.Equal(t, last+1, p.Seq)
}
