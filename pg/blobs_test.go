package pg_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/testing/blobtest"
	"github.com/pawl-run/pawl/pg"
)

func openBlobs(t testing.TB, db *pg.Database) *pg.Blobs {
	t.Helper()
	b, err := db.OpenBlobs(t.Context(), "b")
	require.NoError(t, err)
	return b
}

// Blobs in a database pass what every store must pass.
func TestBlobsInADatabase(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) func() blob.Store {
		db := open(t, newDatabase(t), pg.Options{})
		return func() blob.Store { return openBlobs(t, db) }
	})
}

// The content of a blob is there once, however often it is put, and nothing is left of a blob that is deleted.
func TestChunksOfBlobs(t *testing.T) {
	url := newDatabase(t)
	b := openBlobs(t, open(t, url, pg.Options{}))
	countChunks := func() string { return queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`) }
	small, large := blobtest.Put(t, b, textOf(256<<10+1)), blobtest.Put(t, b, textOf(30<<20))
	require.Equal(t, "122", countChunks())
	blobtest.Put(t, b, textOf(256<<10+1))
	blobtest.Put(t, b, textOf(30<<20))
	require.Equal(t, "122", countChunks())
	for _, hash := range []string{small, large} {
		gone, err := b.Delete(t.Context(), hash, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.True(t, gone)
	}
	require.Equal(t, "0", countChunks())
}

// A reader goes on when its blob is put again; a damaged or missing chunk is told, and putting the bytes again repairs it.
func TestBlobsThatAreDamaged(t *testing.T) {
	url := newDatabase(t)
	b := openBlobs(t, open(t, url, pg.Options{}))
	content := textOf(600 << 10)
	hash := blobtest.Put(t, b, content)
	r, err := b.Open(t.Context(), hash)
	require.NoError(t, err)
	part := make([]byte, 1000)
	_, err = io.ReadFull(r, part)
	require.NoError(t, err)
	blobtest.Put(t, b, content)
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, content, append(part, rest...))
	require.NoError(t, r.Close())
	_, err = r.Read(part)
	require.ErrorIs(t, err, fs.ErrClosed)

	execute(t, url, `UPDATE pawl.chunks SET data = set_byte(data, 7, 0) WHERE number = 1`)
	_, err = blobtest.Read(t, b, hash)
	require.ErrorIs(t, err, blob.ErrDamaged)
	execute(t, url, `DELETE FROM pawl.chunks WHERE number = 1`)
	_, err = blobtest.Read(t, b, hash)
	require.ErrorIs(t, err, blob.ErrDamaged)
	blobtest.Put(t, b, content)
	got, err := blobtest.Read(t, b, hash)
	require.NoError(t, err)
	require.Equal(t, content, got)
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
	hash := blobtest.Put(t, b, content)
	tracer, left := new(putAgain), 3
	r, err := openBlobs(t, open(t, url, pg.Options{Configure: func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer }})).Open(t.Context(), hash)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	tracer.put = func() {
		if left--; left >= 0 {
			blobtest.Put(t, b, content)
		}
	}
	blobtest.Put(t, b, content)
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
	require.Equal(t, "0", queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`))
	execute(t, url, `INSERT INTO pawl.chunks SELECT gen_random_uuid(), 0, clock_timestamp() - n * interval '25 hours', 'x' FROM generate_series(0, 200) n`)
	require.Empty(t, blobtest.ListHashes(t, b))
	require.Equal(t, "1", queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`), "it may be under way")
}

// A cell changes only for a caller who knows what it is, and a server that has lost revisions does not give them again.
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
