package blob_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
)

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	none, err := blob.OpenFiles(dir, blob.Options{ReadOnly: true})
	require.NoError(t, err)
	_, err = none.Stat(t.Context(), "sha256:"+strings.Repeat("0", 64))
	require.ErrorIs(t, err, blob.ErrMissing)
	require.NoError(t, none.Close())
	require.NoDirExists(t, dir)

	f, err := blob.OpenFiles(dir, blob.Options{})
	require.NoError(t, err)
	hash, _, err := f.Put(t.Context(), strings.NewReader("x"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	left := filepath.Join(dir, "tmp", "put-"+strings.Repeat("0", 32))
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	r, err := blob.OpenFiles(dir, blob.Options{ReadOnly: true})
	require.NoError(t, err)
	require.FileExists(t, left)
	info, err := r.Stat(t.Context(), hash)
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Size)
	_, _, err = r.Put(t.Context(), strings.NewReader("y"))
	require.ErrorIs(t, err, fs.ErrPermission)
	_, err = r.Delete(t.Context(), hash, time.Now().Add(time.Hour))
	require.ErrorIs(t, err, fs.ErrPermission)
	require.NoError(t, r.Close())
	_, err = blob.OpenFiles("", blob.Options{ReadOnly: true})
	require.ErrorIs(t, err, fs.ErrInvalid)
}
