package folderlog_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/folderlog"
	"github.com/pawl-run/pawl/store/logtest"
)

func openLog(t *testing.T, dir string) *folderlog.Log {
	l, err := folderlog.Open(dir)
	require.NoError(t, err)
	return l
}

func TestLog(t *testing.T) {
	logtest.Run(t, func(t *testing.T) func() store.Log {
		dir := filepath.Join(t.TempDir(), "of", "log")
		return func() store.Log { return openLog(t, dir) }
	})
}

// The log in memory, with which other packages test, does what this one does.
func TestMemory(t *testing.T) {
	logtest.Run(t, func(*testing.T) func() store.Log {
		m := &logtest.Memory{}
		return func() store.Log { return m.Writer(nil) }
	})
}

// A missing entry is told, and nothing behind it is read; other files are left alone.
func TestGap(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README"), nil, 0o600))
	l := openLog(t, dir)
	_, err := l.Take(t.Context(), func(store.Position) []byte { return []byte("1") })
	require.NoError(t, err)
	for _, entry := range []string{"2", "3"} {
		_, err = l.Append(t.Context(), []byte(entry))
		require.NoError(t, err)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "00000000000000000002")))
	var read []string
	for e, err := range l.Read(t.Context(), store.Position{}) {
		if err != nil {
			damage := (*store.CorruptError)(nil)
			require.True(t, errors.As(err, &damage))
			require.Equal(t, filepath.Join(dir, "00000000000000000002"), damage.File)
			break
		}
		read = append(read, string(e.Data))
	}
	require.Equal(t, []string{"1"}, read)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 3, "nothing temporary is left")
}
