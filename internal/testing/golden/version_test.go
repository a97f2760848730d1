package golden

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store"
)

// userVersion is where a SQLite database has the version of its format.
const userVersion = 60

// A directory of a format that is newer, or older than the first release, is
// refused in words, and stays byte for byte as it is.
func TestOtherVersions(t *testing.T) {
	opened := 0
	for _, g := range sample() {
		for _, version := range []uint32{1, 2, 3, 4, 5, 6, 7, 9, 1 << 31} {
			dir := unpack(t, archive(g.name))
			path := filepath.Join(dir, "pawl.db")
			setVersion(t, path, version)
			was := harness.Contents(t, dir)

			_, err := pawl.Open(t.Context(), dir, pawl.Options{})
			require.ErrorIs(t, err, pawl.ErrVersion)
			var ve *store.VersionError
			require.ErrorAs(t, err, &ve)
			require.Equal(t, []uint32{version, 8}, []uint32{ve.Version, ve.Known})
			require.Equal(t, path, ve.File)
			_, err = rescue.Verify(t.Context(), dir, rescue.Options{})
			require.ErrorIs(t, err, pawl.ErrVersion)
			_, err = rescue.Repair(t.Context(), dir, filepath.Join(t.TempDir(), "repaired"), rescue.Options{})
			require.ErrorIs(t, err, pawl.ErrVersion)
			require.Equal(t, was, harness.Contents(t, dir))
			opened++
		}
	}
	t.Logf("%d directories of other versions, all refused, 0 violations", opened)
}

// A run whose file is of another version is refused; the others are not.
func TestOtherVersionsOfAFile(t *testing.T) {
	dir := unpack(t, archive(goldens[0].name))
	was := map[string]string{}
	for _, h := range heads(t, dir) {
		if h.Run == "event" || h.Run == "done" {
			path := filepath.Join(dir, h.File)
			setVersion(t, path, 4)
			was[path] = read(t, path)
		}
	}
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: hand{}})
	require.NoError(t, err)
	_, err = e.Inspect(t.Context(), "done")
	require.ErrorIs(t, err, pawl.ErrVersion)
	require.ErrorIs(t, signal("paid", object{"n": 2})(t.Context(), e, "event"), pawl.ErrVersion)
	require.NoError(t, signal("paid", object{"n": 2})(t.Context(), e, "event-late"))
	out, err := e.Wait(t.Context(), "event-late")
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.NoError(t, e.Close(t.Context()))
	require.Len(t, was, 2)
	for path, text := range was {
		require.Equal(t, text, read(t, path))
	}
}

func setVersion(t *testing.T, path string, version uint32) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(binary.BigEndian.AppendUint32(nil, version), userVersion)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func read(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}
