package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/store"
)

func TestOpenLeavesAFolderOfOtherFilesAlone(t *testing.T) {
	for name, files := range map[string][]string{
		"sources":               {"main.go", "go.mod", "runs/1.png", "tmp/x"},
		"another database":      {"LOCK", "MANIFEST"},
		"a folder named as one": {"runs/a", "notes.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			for _, file := range files {
				makeFile(t, filepath.Join(path, file))
			}
			before, err := os.ReadDir(path)
			require.NoError(t, err)
			_, err = store.Open(path, store.Options{})
			require.ErrorIs(t, err, store.ErrForeign)
			require.ErrorContains(t, err, "use an empty or a new folder, such as "+filepath.Join(path, "data"))
			after, err := os.ReadDir(path)
			require.NoError(t, err)
			require.Equal(t, before, after)
			require.NoError(t, store.OpenDir(t, filepath.Join(path, "data")).Close())
		})
	}
}

// The remains of a first Open that was interrupted, a mount point and a folder that
// a repository keeps are as good as empty. In an engine's directory any file may
// lie.
func TestOpenTakesAFolderOfItsOwn(t *testing.T) {
	for name, files := range map[string][]string{
		"lock":                  {store.LockName},
		"no lock":               {store.TmpDir + "/x", store.IndexFile + ".new"},
		"mount point":           {"lost+found/x"},
		"kept by a repository":  {".gitignore", ".gitkeep"},
		"interrupted, and kept": {store.LockName, store.IndexFile + ".new", ".gitignore"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			for _, file := range files {
				makeFile(t, filepath.Join(path, file))
			}
			require.NoError(t, store.OpenDir(t, path).Close())
			makeFile(t, filepath.Join(path, "later.txt"))
			require.NoError(t, store.OpenDir(t, path).Close())
			require.NoError(t, os.Remove(filepath.Join(path, store.IndexFile)))
			_, err := store.Open(path, store.Options{})
			require.ErrorIs(t, err, store.ErrCorrupt, "the lock says that there was an engine")
		})
	}
}

func makeFile(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
}
