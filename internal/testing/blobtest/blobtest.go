// Package blobtest is what every store of blobs must pass.
package blobtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// Run tests a store. open opens the same store, empty in each test, as another process would.
func Run(t *testing.T, newStore func(t *testing.T) (open func() blob.Store)) {
	for name, test := range map[string]func(*testing.T, func() blob.Store){
		"Contents": testContents, "Deletes": testDeletes, "DeletesAmongPuts": testDeletesAmongPuts, "ListsAmongDeletes": testListsAmongDeletes, "Refusals": testRefusals,
	} {
		t.Run(name, func(t *testing.T) { test(t, newStore(t)) })
	}
}

// Put puts a blob, and returns its hash.
func Put(t testing.TB, b blob.Store, content []byte) string {
	t.Helper()
	hash, size, err := b.Put(t.Context(), bytes.NewReader(content))
	require.NoError(t, err)
	require.EqualValues(t, len(content), size)
	return hash
}

// Read returns the content of a blob.
func Read(t testing.TB, b blob.Store, hash string) ([]byte, error) {
	t.Helper()
	r, err := b.Open(t.Context(), hash)
	if err != nil {
		return nil, err
	}
	defer func() { require.NoError(t, r.Close()) }()
	return io.ReadAll(r)
}

// ListHashes returns the hashes of all blobs.
func ListHashes(t testing.TB, b blob.Store) (hashes []string) {
	t.Helper()
	for info, err := range b.All(t.Context()) {
		require.NoError(t, err)
		hashes = append(hashes, info.Hash)
	}
	return hashes
}

// Blobs of any size are kept once, under the hashes that a folder gives them.
func testContents(t *testing.T, open func() blob.Store) {
	b := open()
	files, err := blob.OpenFiles(harness.Workspace(t), blob.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, files.Close()) }()
	require.Empty(t, ListHashes(t, b))
	want := map[string][]byte{}
	for _, n := range []int{0, 1, 128 << 10, 256 << 10, 256<<10 + 1, 1 << 20, 1<<20 + 1, 5 << 20} {
		content := bytes.Repeat([]byte{byte(n), 1, 2, 3, 5, 8, 13}, n/7+1)[:n]
		hash := Put(t, b, content)
		require.Equal(t, Put(t, files, content), hash)
		want[hash] = content
	}
	other := open()
	for hash, content := range want {
		got, err := Read(t, other, hash)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
		info, err := other.Stat(t.Context(), hash)
		require.NoError(t, err)
		require.EqualValues(t, len(content), info.Size)
		require.Equal(t, hash, info.Hash)
		require.WithinDuration(t, time.Now(), info.Time, time.Hour)
		if len(content) <= harness.Figure(256<<10+1, 1<<20+1, 5<<20) { // TestReader reads each byte alone, again and again
			r, err := b.Open(t.Context(), hash)
			require.NoError(t, err)
			require.NoError(t, iotest.TestReader(r, content))
			require.NoError(t, r.Close())
		}

		require.Equal(t, hash, Put(t, b, content))
		again, err := other.Stat(t.Context(), hash)
		require.NoError(t, err)
		require.True(t, again.Time.After(info.Time))
	}
	require.Equal(t, ListHashes(t, files), ListHashes(t, b), "once each, in the order of their hashes")
}

// A blob that was put at a moment or later is not deleted.
func testDeletes(t *testing.T, open func() blob.Store) {
	b := open()
	hash := Put(t, b, bytes.Repeat([]byte("0123456789"), 100_000))
	info, err := b.Stat(t.Context(), hash)
	require.NoError(t, err)
	gone, err := b.Delete(t.Context(), hash, info.Time)
	require.NoError(t, err)
	require.False(t, gone)
	later := info.Time.Add(time.Nanosecond)
	for _, want := range []bool{true, false} {
		gone, err = b.Delete(t.Context(), hash, later)
		require.NoError(t, err)
		require.Equal(t, want, gone)
	}
	_, err = Read(t, b, hash)
	require.ErrorIs(t, err, blob.ErrMissing)
	_, err = b.Stat(t.Context(), hash)
	require.ErrorIs(t, err, blob.ErrMissing)
	require.Empty(t, ListHashes(t, b))
}

// Puts and deletes of one blob at the same time leave it whole or not there.
func testDeletesAmongPuts(t *testing.T, open func() blob.Store) {
	b := open()
	hash := Put(t, b, []byte("y"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if _, _, err := b.Put(t.Context(), strings.NewReader("y")); err != nil {
					t.Error(err)
				}
				if _, err := b.Delete(t.Context(), hash, time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, hash, Put(t, b, []byte("y")))
	got, err := Read(t, b, hash)
	require.NoError(t, err)
	require.Equal(t, "y", string(got))
}

// A list that is made while a blob is deleted ends soon: it does not wait for what has gone.
func testListsAmongDeletes(t *testing.T, open func() blob.Store) {
	b := open()
	for i := range 100 {
		hash := Put(t, b, []byte{byte(i)})
		var deleting sync.WaitGroup
		deleting.Go(func() {
			_, err := b.Delete(t.Context(), hash, time.Now().Add(time.Hour))
			assert.NoError(t, err)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		for _, err := range b.All(ctx) {
			require.NoError(t, err)
		}
		cancel()
		deleting.Wait()
	}
}

// Calls that cannot be are refused, and end with their context.
func testRefusals(t *testing.T, open func() blob.Store) {
	b := open()
	for _, hash := range []string{"", "x", "sha256:", "sha256:12", "sha256:" + strings.Repeat("A", 64), "sha256:" + strings.Repeat("a", 63), "../" + strings.Repeat("a", 64)} {
		_, err := b.Open(t.Context(), hash)
		require.ErrorIs(t, err, fs.ErrInvalid)
		_, err = b.Stat(t.Context(), hash)
		require.ErrorIs(t, err, fs.ErrInvalid)
		_, err = b.Delete(t.Context(), hash, time.Now())
		require.ErrorIs(t, err, fs.ErrInvalid)
	}
	_, _, err := b.Put(t.Context(), nil)
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, _, err = b.Put(t.Context(), iotest.ErrReader(io.ErrClosedPipe))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	for _, n := range []int{1, 256 << 10, 256<<10 + 1} { // a reader that breaks is not at its end
		for _, broken := range []error{io.ErrUnexpectedEOF, fmt.Errorf("cut: %w", io.EOF)} {
			_, _, err = b.Put(t.Context(), io.MultiReader(bytes.NewReader(make([]byte, n)), iotest.ErrReader(broken)))
			require.ErrorIs(t, err, broken)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = b.Put(ctx, strings.NewReader("x"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = b.Open(ctx, "sha256:"+strings.Repeat("0", 64))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, ListHashes(t, b))
}
