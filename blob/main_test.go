package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// TestMain lets the test binary be the process that kills itself.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PAWL_BLOB_CRASH"); dir != "" {
		putInChild(dir)
		os.Exit(0)
	}
	harness.VerifyTestMain(m)
}

var _ Store = (*Files)(nil)

func open(t testing.TB, dir string) *Files {
	t.Helper()
	f, err := OpenFiles(dir, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

func put(t testing.TB, f *Files, content []byte) string {
	t.Helper()
	hash, size, err := f.Put(context.Background(), bytes.NewReader(content))
	require.NoError(t, err)
	require.EqualValues(t, len(content), size)
	require.Equal(t, hashOf(content), hash)
	return hash
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return addressOf(sum[:]).fullHash()
}

// get reads a blob to its end.
func get(f *Files, hash string) (content []byte, err error) {
	r, err := f.Open(context.Background(), hash)
	if err != nil {
		return nil, err
	}
	content, err = io.ReadAll(r)
	return content, errors.Join(err, r.Close())
}

// pattern returns n bytes that differ from those of every other seed.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i)*31 ^ byte(seed)
	}
	return b
}

func pathOf(dir, hash string) string {
	a, _ := parseAddress(hash)
	return filepath.Join(dir, filepath.FromSlash(a.filePath()))
}

// files returns the paths of everything below dir that is no folder.
func files(t testing.TB, dir string) []string {
	t.Helper()
	names := []string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	require.NoError(t, err)
	return names
}

func infos(t testing.TB, all iter.Seq2[Info, error]) []Info {
	t.Helper()
	list := []Info{}
	for info, err := range all {
		require.NoError(t, err)
		list = append(list, info)
	}
	return list
}

// is requires an *Error for a hash with a cause.
func is(t testing.TB, err error, hash string, cause error) {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, cause)
	require.Equal(t, hash, e.Hash)
}
