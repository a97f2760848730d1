package blob

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// damage changes the content of a blob's file.
func damage(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, change(content), 0o600))
}

// Any change of the content is found at its end, and put right by a Put.
func TestDamagedContent(t *testing.T) {
	content := pattern(2*chunkSize+7, 0)
	tests := []struct {
		name   string
		change func([]byte) []byte
	}{
		{"first bit", func(b []byte) []byte { b[0] ^= 1; return b }},
		{"last bit", func(b []byte) []byte { b[len(b)-1] ^= 0x80; return b }},
		{"bit in the middle", func(b []byte) []byte { b[chunkSize] ^= 4; return b }},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }},
		{"cut at a chunk", func(b []byte) []byte { return b[:chunkSize] }},
		{"emptied", func([]byte) []byte { return nil }},
		{"longer", func(b []byte) []byte { return append(b, 0) }},
		{"another's", func(b []byte) []byte { return pattern(len(b), 1) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir)
			hash := put(t, f, content)
			damage(t, pathOf(dir, hash), tt.change)

			r, err := f.Open(t.Context(), hash)
			require.NoError(t, err)
			_, err = io.ReadAll(r)
			is(t, err, hash, ErrDamaged)
			_, err = r.Read(make([]byte, 1))
			is(t, err, hash, ErrDamaged)
			require.NoError(t, r.Close())

			put(t, f, content)
			got, err := get(f, hash)
			require.NoError(t, err)
			assert.Equal(t, content, got)
			assert.Len(t, files(t, dir), 1)
		})
	}
}

// A reader that is open while its file is changed finds it.
func TestDamagedWhileRead(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	hash := put(t, f, pattern(3*chunkSize, 0))
	r, err := f.Open(t.Context(), hash)
	require.NoError(t, err)
	_, err = io.ReadFull(r, make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(pathOf(dir, hash), 20))
	_, err = io.ReadAll(r)
	is(t, err, hash, ErrDamaged)
	require.NoError(t, r.Close())
	_, err = r.Read(nil)
	require.Error(t, err)
}

func TestRemoved(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	hash := put(t, f, []byte("a"))
	for _, path := range []string{pathOf(dir, hash), filepath.Dir(pathOf(dir, hash))} {
		require.NoError(t, os.RemoveAll(path))
		_, err := f.Open(t.Context(), hash)
		is(t, err, hash, ErrMissing)
		_, err = f.Stat(t.Context(), hash)
		is(t, err, hash, ErrMissing)
		put(t, f, []byte("a"))
		assert.Equal(t, "a", string(must(get(f, hash))))
	}
}

// Files of others in the place of a blob, or of its folder.
func TestImpostors(t *testing.T) {
	content := []byte("a")
	hash := hashOf(content)
	tests := []struct {
		name   string
		place  func(t *testing.T, path, outside string)
		repair bool // by a Put
	}{
		{"link to the same bytes", func(t *testing.T, path, outside string) { require.NoError(t, os.Symlink(outside, path)) }, true},
		{"link within", func(t *testing.T, path, _ string) {
			inside := filepath.Join(filepath.Dir(path), "inside")
			require.NoError(t, os.WriteFile(inside, content, 0o600))
			require.NoError(t, os.Symlink("inside", path))
		}, true},
		{"dangling link", func(t *testing.T, path, _ string) { require.NoError(t, os.Symlink("nowhere", path)) }, true},
		{"fifo", func(t *testing.T, path, _ string) { makeFIFO(t, path) }, true},
		{"folder", func(t *testing.T, path, _ string) { require.NoError(t, os.Mkdir(path, 0o700)) }, false},
		{"folder is a link", func(t *testing.T, path, outside string) {
			require.NoError(t, os.Remove(filepath.Dir(path)))
			require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Dir(path)))
		}, false},
		{"folder is a link within", func(t *testing.T, path, _ string) {
			require.NoError(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+"x"))
			require.NoError(t, os.Symlink(filepath.Base(filepath.Dir(path))+"x", filepath.Dir(path)))
		}, false},
		{"folder is a file", func(t *testing.T, path, _ string) {
			require.NoError(t, os.Remove(filepath.Dir(path)))
			require.NoError(t, os.WriteFile(filepath.Dir(path), nil, 0o600))
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			outside := filepath.Join(t.TempDir(), filepath.Base(pathOf(dir, hash)))
			require.NoError(t, os.WriteFile(outside, content, 0o600))
			f := open(t, dir)
			put(t, f, content)
			require.NoError(t, os.Remove(pathOf(dir, hash)))
			tt.place(t, pathOf(dir, hash), outside)
			checkImpostor(t, f, hash)

			_, _, err := f.Put(t.Context(), &onceReader{content: content})
			if tt.repair {
				require.NoError(t, err)
				assert.Equal(t, content, must(get(f, hash)))
				info, err := os.Lstat(pathOf(dir, hash))
				require.NoError(t, err)
				assert.True(t, info.Mode().IsRegular())
			} else {
				is(t, err, hash, ErrDamaged)
			}
			assert.Empty(t, must(os.ReadDir(filepath.Join(dir, tmpFolder))))
			assert.Equal(t, content, must(os.ReadFile(outside)), "nothing outside is changed")
		})
	}
}

// checkImpostor checks that nothing but Put does anything with it.
func checkImpostor(t *testing.T, f *Files, hash string) {
	_, err := f.Open(t.Context(), hash)
	is(t, err, hash, ErrDamaged)
	_, err = f.Stat(t.Context(), hash)
	is(t, err, hash, ErrDamaged)
	deleted, err := f.Delete(t.Context(), hash, time.Now().Add(time.Hour))
	is(t, err, hash, ErrDamaged)
	assert.False(t, deleted)
	n := 0
	for info, err := range f.All(context.Background()) {
		require.ErrorIs(t, err, ErrDamaged)
		if info.Hash != "" {
			assert.Equal(t, hash, info.Hash)
		}
		n++
	}
	assert.Equal(t, 1, n, "All goes on to its end")
}

// Foreign names in the folder are no blobs.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	hash := put(t, f, []byte("a"))
	for _, name := range []string{"README", "zz", filepath.Join(filepath.Base(filepath.Dir(pathOf(dir, hash))), "x"), "AB"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	got := infos(t, f.All(t.Context()))
	require.Len(t, got, 1)
	assert.Equal(t, hash, got[0].Hash)
}

// onceReader hands out its content and ends.
type onceReader struct {
	content []byte
	done    bool
}

func (r *onceReader) Read(p []byte) (int, error) {
	if r.done {
		return 0, io.EOF
	}
	r.done = true
	return copy(p, r.content), nil
}
