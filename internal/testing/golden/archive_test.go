package golden

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxArchive is how large an archive may be, in bytes.
const maxArchive = 1 << 20

func archive(name string) string { return filepath.Join("testdata", name+".tar.gz") }

// archiveOf writes a directory, which no process has open, into an archive.
func archiveOf(t *testing.T, dir, to string) {
	f, err := os.Create(to)
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, errors.Join(w.Close(), z.Close(), f.Close()))
	info, err := os.Stat(to)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(maxArchive))
}

// unpack makes a directory from an archive.
func unpack(t *testing.T, from string) string {
	f, err := os.Open(from)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root.Name()
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, root.MkdirAll(h.Name, 0o700))
			continue
		}
		require.NoError(t, root.MkdirAll(filepath.Dir(h.Name), 0o700))
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, root.WriteFile(h.Name, data, 0o600))
	}
}
