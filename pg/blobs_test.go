package pg_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/pg"
)

func openBlobs(t testing.TB, db *pg.Database) *pg.Blobs {
	t.Helper()
	b, err := db.OpenBlobs(t.Context(), "b")
	require.NoError(t, err)
	return b
}

func putBlob(t testing.TB, b blob.Store, content []byte) string {
	t.Helper()
	hash, size, err := b.Put(t.Context(), bytes.NewReader(content))
	require.NoError(t, err)
	require.EqualValues(t, len(content), size)
	return hash
}

func namesOf(t testing.TB, b blob.Store) (names []string) {
	t.Helper()
	for info, err := range b.All(t.Context()) {
		require.NoError(t, err)
		names = append(names, info.Hash)
	}
	return names
}

func readBlob(t testing.TB, b blob.Store, hash string) ([]byte, error) {
	t.Helper()
	r, err := b.Open(t.Context(), hash)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// Blobs of any size are kept once, under the hashes that a folder gives them.
func TestBlobsInADatabase(t *testing.T) {
	url := newDatabase(t)
	db := open(t, url, pg.Options{})
	b := openBlobs(t, db)
	files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, files.Close()) }()
	require.Empty(t, namesOf(t, b))
	want := map[string][]byte{}
	for _, n := range []int{0, 1, 256 << 10, 256<<10 + 1, 1 << 20, 2<<20 + 1} {
		content := bytes.Repeat([]byte{byte(n), 1, 2, 3, 5, 8, 13}, n/7+1)[:n]
		hash := putBlob(t, b, content)
		require.Equal(t, putBlob(t, files, content), hash)
		want[hash] = content
	}
	other := openBlobs(t, db)
	for hash, content := range want {
		got, err := readBlob(t, other, hash)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
		info, err := other.Stat(t.Context(), hash)
		require.NoError(t, err)
		require.EqualValues(t, len(content), info.Size)
		require.Equal(t, hash, info.Hash)
		require.WithinDuration(t, time.Now(), info.Time, time.Minute)
		r, err := b.Open(t.Context(), hash)
		require.NoError(t, err)
		require.NoError(t, iotest.TestReader(r, content))
		require.NoError(t, r.Close())
	}
	require.Equal(t, namesOf(t, files), namesOf(t, b), "in the order of their hashes")

	chunks := queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`)
	for hash, content := range want {
		before, err := b.Stat(t.Context(), hash)
		require.NoError(t, err)
		require.Equal(t, hash, putBlob(t, b, content))
		after, err := b.Stat(t.Context(), hash)
		require.NoError(t, err)
		require.True(t, after.Time.After(before.Time))
	}
	require.Len(t, namesOf(t, b), len(want))
	require.Equal(t, chunks, queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`), "they are there once")
}

// A blob that was put at a moment or later is not deleted, and of a deleted one nothing is left.
func TestBlobsAreDeleted(t *testing.T) {
	url := newDatabase(t)
	b := openBlobs(t, open(t, url, pg.Options{}))
	content := textOf(30 << 20)
	hash := putBlob(t, b, content)
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
	_, err = readBlob(t, b, hash)
	require.ErrorIs(t, err, blob.ErrMissing)
	_, err = b.Stat(t.Context(), hash)
	require.ErrorIs(t, err, blob.ErrMissing)
	require.Equal(t, "0", queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`), "nothing is left of it")

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
}

// A reader goes on when its blob is put again; a damaged or missing chunk is told, and putting the bytes again repairs it.
func TestBlobsThatAreDamaged(t *testing.T) {
	url := newDatabase(t)
	b := openBlobs(t, open(t, url, pg.Options{}))
	content := textOf(600 << 10)
	hash := putBlob(t, b, content)
	r, err := b.Open(t.Context(), hash)
	require.NoError(t, err)
	part := make([]byte, 1000)
	_, err = io.ReadFull(r, part)
	require.NoError(t, err)
	putBlob(t, b, content)
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, content, append(part, rest...))
	require.NoError(t, r.Close())
	_, err = r.Read(part)
	require.ErrorIs(t, err, fs.ErrClosed)

	execute(t, url, `UPDATE pawl.chunks SET data = set_byte(data, 7, 0) WHERE number = 1`)
	_, err = readBlob(t, b, hash)
	require.ErrorIs(t, err, blob.ErrDamaged)
	execute(t, url, `DELETE FROM pawl.chunks WHERE number = 1`)
	_, err = readBlob(t, b, hash)
	require.ErrorIs(t, err, blob.ErrDamaged)
	putBlob(t, b, content)
	got, err := readBlob(t, b, hash)
	require.NoError(t, err)
	require.Equal(t, content, got)
	for _, bad := range []string{"", "x", "sha256:12", strings.ToUpper(hash)} {
		_, err = b.Stat(t.Context(), bad)
		require.ErrorIs(t, err, fs.ErrInvalid)
		_, err = b.Delete(t.Context(), bad, time.Now())
		require.ErrorIs(t, err, fs.ErrInvalid)
	}
}

// A putAgain puts a blob again when a reader has looked where its content is.
type putAgain struct{ put func() }

// TraceQueryStart implements pgx.QueryTracer.
func (p *putAgain) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, p, q.SQL)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (p *putAgain) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if sql := ctx.Value(p).(string); p.put != nil && strings.HasPrefix(sql, "SELECT content, size") {
		p.put()
	}
}

// A reader goes on however often its blob is put again, and has another content each time.
func TestBlobsThatArePutAgainAndAgain(t *testing.T) {
	url := newDatabase(t)
	b := openBlobs(t, open(t, url, pg.Options{}))
	content := textOf(300 << 10)
	hash := putBlob(t, b, content)
	tracer, left := new(putAgain), 3
	r, err := openBlobs(t, open(t, url, pg.Options{Configure: func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer }})).Open(t.Context(), hash)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	tracer.put = func() {
		if left--; left >= 0 {
			putBlob(t, b, content)
		}
	}
	putBlob(t, b, content)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
	require.Equal(t, -1, left, "it was put again thrice, while the reader looked for one chunk")
}

// A Put that does not come to its end leaves nothing, or what All deletes a day later.
func TestBlobsThatAreNotPut(t *testing.T) {
	url := newDatabase(t)
	b := openBlobs(t, open(t, url, pg.Options{}))
	broken := errors.New("broken")
	_, _, err := b.Put(t.Context(), io.MultiReader(bytes.NewReader(textOf(600<<10)), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	_, _, err = b.Put(t.Context(), nil)
	require.ErrorIs(t, err, fs.ErrInvalid)
	require.Equal(t, "0", queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`))
	execute(t, url, `INSERT INTO pawl.chunks SELECT gen_random_uuid(), 0, clock_timestamp() - n * interval '25 hours', 'x' FROM generate_series(0, 200) n`)
	require.Empty(t, namesOf(t, b))
	require.Equal(t, "1", queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`), "it may be under way")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = b.Put(ctx, strings.NewReader("x"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = b.Open(ctx, "sha256:"+strings.Repeat("0", 64))
	require.ErrorIs(t, err, context.Canceled)
}

// A cell changes only for who knows what it is, and a server that has lost revisions does not give them again.
func TestCell(t *testing.T) {
	url := newDatabase(t)
	db := open(t, url, pg.Options{})
	a, err := db.OpenCell(t.Context(), "c")
	require.NoError(t, err)
	value, err := a.Read(t.Context())
	require.NoError(t, err)
	require.Zero(t, value)
	began := time.Now().Add(-time.Millisecond)
	first, err := a.Write(t.Context(), []byte("one"), 0)
	require.NoError(t, err)
	_, err = a.Write(t.Context(), []byte("two"), 0)
	require.ErrorIs(t, err, cluster.ErrChanged)
	value, err = a.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "one", string(value.Data))
	require.Equal(t, first, value.Revision)
	require.WithinRange(t, value.Written, began, time.Now().Add(time.Millisecond), "it is the server's stamp")
	second, err := a.Write(t.Context(), []byte("two"), first)
	require.NoError(t, err)
	require.Greater(t, second, first)
	_, err = a.Write(t.Context(), []byte("three"), first)
	require.ErrorIs(t, err, cluster.ErrChanged)
	execute(t, url, `UPDATE pawl.cells SET revision = `+"revision - 1000")
	value, err = a.Read(t.Context())
	require.NoError(t, err)
	third, err := a.Write(t.Context(), []byte("three"), value.Revision)
	require.NoError(t, err)
	require.Greater(t, third, second)
}
