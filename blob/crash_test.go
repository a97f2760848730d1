package blob

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crashContents are what the child puts: an empty blob, one of several chunks, one
// that is put twice, and one whose file was damaged before.
func crashContents() [][]byte {
	big := pattern(2*chunkSize+1, 1)
	return [][]byte{{}, big, []byte("small"), big, crashDamaged}
}

var crashDamaged = []byte("was damaged")

// putInChild puts the contents, says what is done, and kills its process at the
// boundary that the environment counts to.
func putInChild(dir string) {
	last, err := strconv.Atoi(os.Getenv("PAWL_BLOB_STAGE"))
	check(err)
	f, err := OpenFiles(dir, Options{})
	check(err)
	stages := 0
	f.at = func(s stage) {
		if stages++; stages == last {
			fmt.Println("at", s)
			p, err := os.FindProcess(os.Getpid())
			check(err)
			check(p.Kill())
			select {} // nothing comes after it
		}
	}
	for _, content := range crashContents() {
		hash, _, err := f.Put(context.Background(), bytes.NewReader(content))
		check(err)
		fmt.Println("put", hash)
	}
	check(f.Close())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// TestKill kills a process at every boundary of its Puts: what it said is there,
// and nothing has an address that is not whole.
func TestKill(t *testing.T) {
	at := map[string]int{}
	for n := 1; ; n++ {
		dir := filepath.Join(t.TempDir(), "blobs")
		prepareDamage(t, dir)
		out := run(t, dir, n)
		if checkKilled(t, dir, out, at) {
			break
		}
		require.Less(t, n, 100)
	}
	want := map[string]int{"created": 5, "written": 8, "stored": 4, "named": 4, "compared": 1, "refreshed": 1, "listed": 5}
	assert.Equal(t, want, at)
}

// prepareDamage makes a store with one blob that is damaged.
func prepareDamage(t *testing.T, dir string) {
	f, err := OpenFiles(dir, Options{})
	require.NoError(t, err)
	damage(t, pathOf(dir, put(t, f, crashDamaged)), func(b []byte) []byte { return append(b[:3:3], "XXXXXXXX"...) })
	require.NoError(t, f.Close())
}

// run starts a child that dies at the n-th boundary and returns what it said.
func run(t *testing.T, dir string, n int) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAWL_BLOB_CRASH="+dir, "PAWL_BLOB_STAGE="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if strings.Contains(string(out), "at ") {
		require.ErrorContains(t, err, "killed")
	} else {
		require.NoError(t, err)
	}
	return string(out)
}

// checkKilled checks what a child has left, and counts the boundaries that it
// died at. It reports whether the child came to its end.
func checkKilled(t *testing.T, dir, out string, at map[string]int) (ended bool) {
	acknowledged, died := []string{}, ""
	for line := range strings.Lines(out) {
		if word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word == "put" {
			acknowledged = append(acknowledged, rest)
		} else {
			died = rest
		}
	}
	f := open(t, dir)
	for _, hash := range acknowledged {
		_, err := get(f, hash)
		require.NoError(t, err, "died at %s", died)
	}
	contents := crashContents()
	for _, info := range infos(t, f.All(context.Background())) {
		_, err := get(f, info.Hash)
		repaired := len(acknowledged) == len(contents) || len(acknowledged) == len(contents)-1 && (died == "named" || died == "listed")
		if info.Hash == hashOf(crashDamaged) && !repaired {
			require.ErrorIs(t, err, ErrDamaged, "it was so before")
			continue
		}
		require.NoError(t, err, "died at %s", died)
	}
	left, err := os.ReadDir(filepath.Join(dir, tmpFolder))
	require.NoError(t, err)
	require.Empty(t, left, "died at %s", died)
	if died == "" {
		require.Len(t, acknowledged, len(contents))
		return true
	}
	at[died]++
	next := hashOf(contents[len(acknowledged)])
	if _, err := get(f, next); died != "created" && died != "written" && died != "stored" {
		require.NoError(t, err, "died at %s", died)
	}
	for _, content := range contents {
		put(t, f, content)
	}
	require.Len(t, files(t, dir), 4)
	return false
}

// The order of the boundaries in Puts that make a blob, find it, and repair it.
func TestStages(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	content := pattern(chunkSize+1, 0)
	tests := []struct {
		name string
		do   func(path string)
		want []stage
	}{
		{"new", func(string) {}, []stage{created, written, written, stored, named, listed}},
		{"again", func(string) {}, []stage{created, written, written, compared, refreshed, listed}},
		{"cut", func(path string) { damage(t, path, func(b []byte) []byte { return b[:9] }) }, []stage{created, written, written, stored, named, listed}},
		{"flipped", func(path string) { damage(t, path, func(b []byte) []byte { b[9] ^= 1; return b }) }, []stage{created, written, written, stored, named, listed}},
	}
	for _, tt := range tests {
		tt.do(pathOf(dir, hashOf(content)))
		var got []stage
		f.at = func(s stage) {
			got = append(got, s)
			name := pathOf(dir, hashOf(content))
			_, err := os.Lstat(name)
			if tt.name == "new" {
				require.Equal(t, s == named || s == listed, err == nil, "no name before it is stored")
			}
		}
		put(t, f, content)
		assert.Equal(t, tt.want, got, tt.name)
		require.Equal(t, []string{tmpless(dir, hashOf(content))}, files(t, dir))
	}
}

// Everything that Put says is durable was synced, in the order that makes it so:
// the content before its name, each name before Put returns.
func TestSyncs(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "engine", "blobs")
	var got []string
	watch := func() *Files {
		f := open(t, dir)
		f.at = func(s stage) { got = append(got, string(s)) }
		f.sync = func(file *os.File) error {
			name, err := filepath.Rel(top, file.Name())
			require.NoError(t, err)
			if strings.Contains(name, tmpPrefix) {
				name = "content"
			}
			got = append(got, "sync "+filepath.ToSlash(name))
			return file.Sync()
		}
		return f
	}
	steps := func(f *Files, content string) string {
		got = nil
		put(t, f, []byte(content))
		return strings.Join(got, ", ")
	}
	f := watch()
	install := ", sync content, stored, named, sync engine/blobs/2c, listed"
	assert.Equal(t, "sync ., sync engine, created, written, sync engine/blobs"+install, steps(f, "hello"))
	assert.Equal(t, "created, written, compared, refreshed, sync engine/blobs/2c, listed", steps(f, "hello"))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "2c")))
	assert.Equal(t, "created, written, sync engine/blobs"+install, steps(f, "hello"), "the folder is new")
	require.NoError(t, os.Remove(pathOf(dir, hashOf([]byte("hello")))))
	assert.Equal(t, "created, written"+install, steps(f, "hello"))
	require.NoError(t, f.Close())
	f = watch()
	assert.Equal(t, "sync engine, created, written, sync engine/blobs, compared, refreshed, sync engine/blobs/2c, listed", steps(f, "hello"),
		"the life before may have ended before its syncs")
}

// A sync that fails makes the Put fail, whichever it is; the content gets no
// address that was not synced.
func TestSyncFails(t *testing.T) {
	for n := 1; ; n++ {
		dir := filepath.Join(t.TempDir(), "blobs")
		f := open(t, dir)
		syncs, content := 0, false
		f.sync = func(file *os.File) error {
			if syncs++; syncs != n {
				return file.Sync()
			}
			content = strings.Contains(file.Name(), tmpPrefix)
			return &os.PathError{Op: "sync", Path: file.Name(), Err: errDisk}
		}
		_, _, err := f.Put(t.Context(), strings.NewReader("a"))
		if syncs < n {
			require.NoError(t, err)
			assert.Equal(t, 4, syncs, "the folder in its place, the sub-folder, the content, its name")
			return
		}
		var e *Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, errDisk)
		if content {
			assert.Empty(t, files(t, dir))
		}
		put(t, f, []byte("a"))
		assert.Equal(t, "a", string(must(get(f, hashOf([]byte("a"))))))
	}
}

func tmpless(dir, hash string) string {
	name, _ := filepath.Rel(dir, pathOf(dir, hash))
	return filepath.ToSlash(name)
}

// A Put that fails leaves nothing, and says why.
func TestPutFails(t *testing.T) {
	boom := fmt.Errorf("boom")
	half := io.MultiReader(bytes.NewReader(pattern(chunkSize+5, 0)), iotest.ErrReader(boom))
	tests := []struct {
		name string
		r    io.Reader
		out  func(*os.File) io.Writer
		want error
		own  bool // an *Error
	}{
		{"reader", half, nil, boom, false},
		{"wrapped end", iotest.ErrReader(fmt.Errorf("lost: %w", io.EOF)), nil, io.EOF, false},
		{"idle reader", idle{}, nil, io.ErrNoProgress, false},
		{"disk full", bytes.NewReader(pattern(3*chunkSize, 0)), full(chunkSize + 10), errFull, true},
		{"disk full at once", strings.NewReader("a"), full(0), errFull, true},
		{"short write", strings.NewReader("abc"), func(f *os.File) io.Writer { return short{f} }, io.ErrShortWrite, true},
		{"file closed", strings.NewReader("abc"), func(f *os.File) io.Writer { f.Close(); return f }, os.ErrClosed, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir)
			if tt.out != nil {
				f.write = tt.out
			}
			hash, size, err := f.Put(t.Context(), tt.r)
			require.ErrorIs(t, err, tt.want)
			assert.Empty(t, hash)
			assert.Zero(t, size)
			e := (*Error)(nil)
			if tt.own {
				require.ErrorAs(t, err, &e)
			} else {
				require.NotErrorAs(t, err, &e)
			}
			assert.Empty(t, files(t, dir))
		})
	}
}

// A reader that panics leaves nothing.
func TestPutPanics(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	f.at = func(s stage) {
		if s == written {
			panic("boom")
		}
	}
	require.PanicsWithValue(t, "boom", func() { put(t, f, []byte("a")) })
	assert.Empty(t, files(t, dir))
}

// A context that ends stops a Put between two chunks, or while it compares.
func TestPutCancelled(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	content := pattern(3*chunkSize, 0)
	for range 2 { // once for a new blob, once for one that is there
		ctx, cancel := context.WithCancel(t.Context())
		chunks := 0
		f.at = func(s stage) {
			if chunks++; s == written && chunks == 3 {
				cancel()
			}
		}
		before := files(t, dir)
		_, _, err := f.Put(ctx, bytes.NewReader(content))
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, before, files(t, dir))
		assert.Equal(t, 3, chunks, "created, and two chunks")
		cancel()
		f.at = func(stage) {}
		put(t, f, content)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.at = func(s stage) {
		if s == written {
			cancel()
		}
	}
	small := func() io.Reader { return iotest.DataErrReader(strings.NewReader("small")) }
	_, _, err := f.Put(ctx, small())
	require.NoError(t, err, "all of it was read and nothing had to be compared")
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	_, _, err = f.Put(ctx, small())
	require.ErrorIs(t, err, context.Canceled, "while it compares")
	assert.Len(t, files(t, dir), 2)
}
