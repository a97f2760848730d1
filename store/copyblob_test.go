package store

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
)

// A shortStore keeps the beginning of what is put.
type shortStore struct{ blob.Store }

func (s shortStore) Put(ctx context.Context, r io.Reader) (string, int64, error) {
	return s.Store.Put(ctx, io.LimitReader(r, 3))
}

// A copy of a blob that is another one is an error, which does not say that the original is lost.
func TestCopiesOfBlobsAreCompared(t *testing.T) {
	open := func() *blob.Files {
		files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, files.Close()) })
		return files
	}
	from, to := open(), open()
	hash, _, err := from.Put(t.Context(), strings.NewReader("content"))
	require.NoError(t, err)
	err = copyBlob(t.Context(), from, shortStore{to}, hash)
	require.ErrorContains(t, err, "the copy is sha256:")
	require.False(t, isLost(err))
	require.NoError(t, copyBlob(t.Context(), from, to, hash))
}
