package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Contents of every size around the chunks come back as they were.
func TestPutOpenProperty(t *testing.T) {
	f := open(t, t.TempDir())
	f.sync = noSync
	rapid.Check(t, func(r *rapid.T) {
		near := rapid.SampledFrom([]int{0, chunkSize, 2 * chunkSize}).Draw(r, "near")
		size := max(0, near+rapid.IntRange(-3, 3).Draw(r, "off"))
		content := pattern(size, rapid.IntRange(0, 255).Draw(r, "seed"))
		how := rapid.SampledFrom([]func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.HalfReader, iotest.DataErrReader,
		}).Draw(r, "reader")
		hash, n, err := f.Put(context.Background(), how(bytes.NewReader(content)))
		require.NoError(r, err)
		require.Equal(r, hashOf(content), hash)
		require.EqualValues(r, size, n)
		got, err := get(f, hash)
		require.NoError(r, err)
		require.True(r, bytes.Equal(content, got))
		if size < chunkSize/2 { // it reads byte by byte
			in, err := f.Open(context.Background(), hash)
			require.NoError(r, err)
			require.NoError(r, iotest.TestReader(in, content))
			require.NoError(r, in.Close())
		}
		info, err := f.Stat(context.Background(), hash)
		require.NoError(r, err)
		require.EqualValues(r, size, info.Size)
	})
}

// The folder appears with the first Put, with all above it, and not before.
func TestLazy(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "engine", "blobs")
	f := open(t, dir)
	hash := hashOf([]byte("a"))
	_, err := f.Open(t.Context(), hash)
	is(t, err, hash, ErrMissing)
	_, err = f.Stat(t.Context(), hash)
	is(t, err, hash, ErrMissing)
	deleted, err := f.Delete(t.Context(), hash, time.Now())
	require.NoError(t, err)
	assert.False(t, deleted)
	assert.Empty(t, infos(t, f.All(t.Context())))
	assert.NoDirExists(t, filepath.Join(top, "engine"))
	put(t, f, []byte("a"))
	assert.Len(t, files(t, dir), 1)
	assert.Equal(t, "a", string(must(get(open(t, dir), hash))))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The names on the disk are a file format.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	put(t, f, []byte("hello"))
	put(t, f, nil)
	assert.Equal(t, []string{
		"2c/f24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		"e3/b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	}, files(t, dir))
	got := infos(t, f.All(t.Context()))
	require.Len(t, got, 2)
	assert.Equal(t, hashOf([]byte("hello")), got[0].Hash)
	assert.EqualValues(t, 5, got[0].Size)
	assert.WithinDuration(t, time.Now(), got[0].Time, time.Minute)
	assert.Equal(t, hashOf(nil), got[1].Hash)
}

// Hashes that are none reach no file.
func TestBadHash(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	put(t, f, []byte("hello"))
	good := hashOf([]byte("hello"))
	for _, hash := range []string{
		"", "sha256:", good[7:], strings.ToUpper(good), good + "0", good[:len(good)-1], "sha512:" + good[7:],
		"sha256:../../" + good[13:], "sha256:2c/" + good[10:], good[:70] + "\x00", good[:70] + "g", " " + good,
	} {
		_, err := f.Open(t.Context(), hash)
		is(t, err, hash, fs.ErrInvalid)
		_, err = f.Stat(t.Context(), hash)
		is(t, err, hash, fs.ErrInvalid)
		_, err = f.Delete(t.Context(), hash, time.Now().Add(time.Hour))
		is(t, err, hash, fs.ErrInvalid)
	}
	_, err := OpenFiles("", Options{})
	is(t, err, "", fs.ErrInvalid)
}

// OpenFiles removes what Puts have left and nothing else; in a folder that others may have open, what is an hour old.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	tmp := filepath.Join(dir, tmpFolder)
	require.NoError(t, os.Mkdir(tmp, 0o700))
	ours := tmpPrefix + strings.Repeat("0a", 16)
	require.NoError(t, os.WriteFile(filepath.Join(tmp, ours), []byte("x"), 0o600))
	keep := []string{"notes.txt", tmpPrefix, ours + "0", ours[:len(ours)-1] + "G", "x" + ours}
	for _, name := range keep {
		require.NoError(t, os.WriteFile(filepath.Join(tmp, name), nil, 0o600))
	}
	folder := tmpPrefix + strings.Repeat("0b", 16)
	require.NoError(t, os.Mkdir(filepath.Join(tmp, folder), 0o700))
	old := filepath.Join(tmp, tmpPrefix+strings.Repeat("0d", 16))
	require.NoError(t, os.WriteFile(old, nil, 0o600))
	require.NoError(t, os.Chtimes(old, time.Time{}, time.Now().Add(-underWay)))
	require.NoError(t, must(OpenFiles(dir, Options{Shared: true})).Close())
	require.NoFileExists(t, old)
	require.FileExists(t, filepath.Join(tmp, ours))
	link := tmpPrefix + strings.Repeat("0c", 16)
	require.NoError(t, os.Symlink(filepath.Join(tmp, "notes.txt"), filepath.Join(tmp, link)))
	open(t, dir)
	var names []string
	for _, e := range must(os.ReadDir(tmp)) {
		names = append(names, e.Name())
	}
	assert.ElementsMatch(t, append(keep, folder, link), names)
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := OpenFiles(file, Options{})
	var e *Error
	require.ErrorAs(t, err, &e)

	other := t.TempDir()
	require.NoError(t, os.Symlink(other, filepath.Join(dir, tmpFolder)))
	_, err = OpenFiles(dir, Options{})
	is(t, err, "", ErrDamaged)

	later := filepath.Join(t.TempDir(), "later")
	f := open(t, filepath.Join(later, "blobs"))
	require.NoError(t, os.WriteFile(later, nil, 0o600))
	_, _, err = f.Put(t.Context(), strings.NewReader("a"))
	require.ErrorAs(t, err, &e)
	require.NoError(t, os.Remove(later))
	put(t, f, []byte("a"))
}

func TestClosed(t *testing.T) {
	for _, made := range []bool{false, true} {
		f := open(t, filepath.Join(t.TempDir(), "blobs"))
		hash := hashOf([]byte("a"))
		var reader io.ReadCloser
		if made {
			put(t, f, []byte("a"))
			reader = must(f.Open(t.Context(), hash))
		}
		require.NoError(t, f.Close())
		require.NoError(t, f.Close())
		_, _, err := f.Put(t.Context(), strings.NewReader("a"))
		is(t, err, "", fs.ErrClosed)
		_, err = f.Open(t.Context(), hash)
		is(t, err, "", fs.ErrClosed)
		_, err = f.Stat(t.Context(), hash)
		is(t, err, "", fs.ErrClosed)
		_, err = f.Delete(t.Context(), hash, time.Now())
		is(t, err, "", fs.ErrClosed)
		for _, err := range f.All(t.Context()) {
			is(t, err, "", fs.ErrClosed)
		}
		if made {
			assert.Equal(t, "a", string(must(io.ReadAll(reader))))
			require.NoError(t, reader.Close())
		}
	}
}

func TestContext(t *testing.T) {
	f := open(t, t.TempDir())
	hash := put(t, f, []byte("a"))
	put(t, f, []byte("b"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range f.All(ctx) {
		if n++; n == 1 {
			require.NoError(t, err)
			cancel()
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	assert.Equal(t, 2, n)
	_, _, err := f.Put(ctx, strings.NewReader("a"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Open(ctx, hash)
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Stat(ctx, hash)
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Delete(ctx, hash, time.Now().Add(time.Hour))
	require.ErrorIs(t, err, context.Canceled)
	for _, err := range f.All(ctx) {
		require.ErrorIs(t, err, context.Canceled)
	}
	for range f.All(t.Context()) {
		break // and nothing comes after it
	}
}

// Times follow the clock of the callers: Put refreshes them, Delete is strict.
func TestTimes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f, err := OpenFiles(dir, Options{})
		require.NoError(t, err)
		defer f.Close()
		hash := put(t, f, []byte("a"))
		first := must(f.Stat(t.Context(), hash)).Time
		assert.True(t, first.Equal(time.Now()), "%s", first)
		<-time.After(time.Hour)
		deleted, err := f.Delete(t.Context(), hash, first)
		require.NoError(t, err)
		assert.False(t, deleted, "put at before")
		put(t, f, []byte("a"))
		second := must(f.Stat(t.Context(), hash)).Time
		assert.Equal(t, time.Hour, second.Sub(first))
		deleted, err = f.Delete(t.Context(), hash, first.Add(time.Minute))
		require.NoError(t, err)
		assert.False(t, deleted, "put anew since")
		deleted, err = f.Delete(t.Context(), hash, second.Add(1))
		require.NoError(t, err)
		assert.True(t, deleted)
		deleted, err = f.Delete(t.Context(), hash, second.Add(1))
		require.NoError(t, err)
		assert.False(t, deleted, "it is gone")
	})
}

// The store does what a map does, with the clock and Close among the actions.
func TestModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir := must(os.MkdirTemp(t.TempDir(), ""))
		synctest.Test(t, func(t *testing.T) {
			m := &machine{dir: filepath.Join(dir, "blobs"), want: map[string]Info{}}
			m.open()
			defer func() { _ = m.f.Close() }()
			r.Repeat(map[string]func(*rapid.T){
				"put": m.put, "delete": m.delete, "wait": m.wait, "reopen": m.reopen, "damage": m.damage, "": m.check,
			})
		})
	})
}

type machine struct {
	dir  string
	f    *Files
	want map[string]Info
}

func content(t *rapid.T) []byte {
	return []byte{byte(rapid.IntRange(0, 4).Draw(t, "content"))}
}

func (m *machine) put(t *rapid.T) {
	c := content(t)
	hash, size, err := m.f.Put(context.Background(), bytes.NewReader(c))
	require.NoError(t, err)
	m.want[hash] = Info{hash, size, time.Now()}
}

func (m *machine) delete(t *rapid.T) {
	hash := hashOf(content(t))
	before := time.Now().Add(-time.Duration(rapid.IntRange(-1, 3).Draw(t, "age")) * time.Minute)
	deleted, err := m.f.Delete(context.Background(), hash, before)
	require.NoError(t, err)
	info, ok := m.want[hash]
	require.Equal(t, ok && info.Time.Before(before), deleted)
	if deleted {
		delete(m.want, hash)
	}
}

func (m *machine) wait(*rapid.T) { <-time.After(time.Minute) }

func (m *machine) reopen(t *rapid.T) {
	require.NoError(t, m.f.Close())
	m.open()
}

func (m *machine) open() {
	m.f = must(OpenFiles(m.dir, Options{}))
	m.f.sync = noSync
}

// noSync is for tests that put much and crash never.
func noSync(*os.File) error { return nil }

// damage breaks a blob and puts it again.
func (m *machine) damage(t *rapid.T) {
	c := content(t)
	if _, ok := m.want[hashOf(c)]; !ok {
		t.Skip("not there")
	}
	path := pathOf(m.dir, hashOf(c))
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte{c[0] + 1}, 0o600))
	_, err := get(m.f, hashOf(c))
	require.ErrorIs(t, err, ErrDamaged)
	_, _, err = m.f.Put(context.Background(), bytes.NewReader(c))
	require.NoError(t, err)
	m.want[hashOf(c)] = Info{hashOf(c), 1, time.Now()}
}

func (m *machine) check(t *rapid.T) {
	n, last := 0, ""
	for info, err := range m.f.All(context.Background()) {
		require.NoError(t, err)
		want, ok := m.want[info.Hash]
		require.True(t, ok, info.Hash)
		require.Equal(t, want.Size, info.Size)
		require.True(t, want.Time.Equal(info.Time), "%s %s", want.Time, info.Time)
		require.Less(t, last, info.Hash, "in order")
		_, err := get(m.f, info.Hash)
		require.NoError(t, err)
		n, last = n+1, info.Hash
	}
	require.Len(t, m.want, n)
}

// Puts of the same and of other bytes, readers and a collector at the same time:
// what a Put has returned is there, unless it was deleted, and is always whole.
func TestConcurrent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	f := open(t, dir)
	contents := [][]byte{pattern(10, 1), pattern(chunkSize+1, 2), pattern(10, 3)}
	kept := slices.Clone(contents[0])
	start := time.Now()
	var group sync.WaitGroup
	problems := make(chan error, 100)
	work := func(n int, do func(i int) error) {
		group.Go(func() {
			for i := range n {
				if err := do(i); err != nil {
					problems <- err
					return
				}
			}
		})
	}
	for range 4 {
		work(40, func(i int) error {
			hash, _, err := f.Put(t.Context(), bytes.NewReader(contents[i%3]))
			if err == nil && i%3 == 0 { // never old enough to be deleted
				_, err = get(f, hash)
			}
			return err
		})
	}
	work(200, func(i int) error {
		before := time.Now().Add(time.Hour) // deletes whatever is there
		if i%3 == 0 {
			before = start
		}
		_, err := f.Delete(t.Context(), hashOf(contents[i%3]), before)
		return err
	})
	work(200, func(i int) error {
		got, err := get(f, hashOf(contents[i%3]))
		if err == nil && !bytes.Equal(got, contents[i%3]) {
			return fmt.Errorf("read %d bytes", len(got))
		}
		if missing(err) {
			return nil
		}
		return err
	})
	work(50, func(int) error {
		for _, err := range f.All(t.Context()) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	group.Wait()
	close(problems)
	for err := range problems {
		t.Error(err)
	}
	got, err := get(f, hashOf(kept))
	require.NoError(t, err)
	assert.Equal(t, kept, got)
	assert.Empty(t, must(os.ReadDir(filepath.Join(dir, tmpFolder))))
}

// No Delete comes between a Put and its time: what was put since before is there.
func TestDeleteAgainstPut(t *testing.T) {
	f := open(t, t.TempDir())
	hash := put(t, f, []byte("a"))
	var before atomic.Pointer[time.Time]
	before.Store(&time.Time{})
	var group sync.WaitGroup
	defer group.Wait()
	done := make(chan struct{})
	defer close(done)
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_, err := f.Delete(context.Background(), hash, *before.Load())
				assert.NoError(t, err)
			}
		}
	})
	for range 300 {
		info, _ := f.Stat(t.Context(), hash)
		now := time.Now()
		before.Store(&now)
		put(t, f, []byte("a"))
		_, err := f.Stat(t.Context(), hash)
		require.NoError(t, err, "put at %s, before that at %s", now, info.Time)
	}
}

// Delete judges and removes in one step.
func TestDeleteExcludesPut(t *testing.T) {
	f := open(t, t.TempDir())
	hash := put(t, f, []byte("a"))
	judges := 0
	f.at = func(s stage) {
		if s == judged {
			judges++
			require.False(t, f.names.TryLock())
		}
	}
	deleted, err := f.Delete(t.Context(), hash, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.True(t, deleted)
	require.Equal(t, 1, judges)
}

// A blob that is deleted while All is on its way is passed over.
func TestDeletedDuringAll(t *testing.T) {
	f := open(t, t.TempDir())
	folders := map[string][]string{}
	var pair []string
	for i := 0; pair == nil; i++ {
		hash := hashOf([]byte{byte(i), byte(i >> 8)})
		folder := must(checkAddress(hash)).folderName()
		if folders[folder] = append(folders[folder], hash); len(folders[folder]) == 2 {
			pair = folders[folder]
		}
		put(t, f, []byte{byte(i), byte(i >> 8)})
	}
	slices.Sort(pair)
	for info, err := range f.All(t.Context()) {
		require.NoError(t, err)
		require.NotEqual(t, pair[1], info.Hash)
		if info.Hash == pair[0] {
			deleted, err := f.Delete(t.Context(), pair[1], time.Now().Add(time.Hour))
			require.NoError(t, err)
			require.True(t, deleted)
		}
	}
}

// A blob that is deleted after Put has compared it is written after all. Once it
// has its new time it is too young to be deleted.
func TestDeleteDuringPut(t *testing.T) {
	f := open(t, t.TempDir())
	hash := put(t, f, []byte("a"))
	future := time.Now().Add(time.Hour)
	var got []stage
	f.at = func(s stage) {
		if s != judged {
			got = append(got, s)
		}
		if s == compared {
			deleted, err := f.Delete(t.Context(), hash, future)
			require.NoError(t, err)
			require.True(t, deleted)
		}
	}
	put(t, f, []byte("a"))
	assert.Equal(t, []stage{created, written, compared, stored, named, listed}, got)
	assert.Equal(t, "a", string(must(get(f, hash))))

	require.NoError(t, f.root.Chtimes(must(checkAddress(hash)).filePath(), time.Unix(1, 0), time.Unix(1, 0)))
	f.at = func(s stage) {
		if s == refreshed {
			deleted, err := f.Delete(t.Context(), hash, time.Unix(1e9, 0))
			require.NoError(t, err)
			require.False(t, deleted)
		}
	}
	put(t, f, []byte("a"))
	assert.Equal(t, "a", string(must(get(f, hash))))
}

func missing(err error) bool { return errors.Is(err, ErrMissing) }
