package pg

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-run/pawl/blob"
)

// Blobs is a [blob.Store] in a database: a blob is one row, and a row for each 256 KiB of it. Any number of goroutines and processes may use it.
//
// Content that no blob has is deleted in small parts. A Put writes its chunks under a name of their own, and one statement at its end makes them the content of the blob, within 12 hours of the
// first. Chunks of a Put that did not come to its end, or whose outcome is unknown, are deleted by All, a day later.
type Blobs struct {
	db   *Database
	name string
}

var _ blob.Store = (*Blobs)(nil)

const (
	hashScheme = "sha256:"
	chunkSize  = 256 << 10
	pageBlobs  = 1000 // of All
)

// OpenBlobs opens the store of a name: letters, digits, _ and -, at most 32. Errors: as of OpenLog.
func (d *Database) OpenBlobs(ctx context.Context, name string) (*Blobs, error) {
	if err := d.checkTables(ctx, name); err != nil {
		return nil, fmt.Errorf("open the blobs %s: %w", name, err)
	}
	return &Blobs{d, name}, nil
}

// sumOf returns the bytes of a hash. Only one spelling is taken.
func sumOf(hash string) ([]byte, error) {
	digits, ok := strings.CutPrefix(hash, hashScheme)
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size || strings.ToLower(digits) != digits {
		return nil, &blob.Error{Hash: hash, Err: fs.ErrInvalid, Detail: "not sha256: and 64 lower-case hexadecimal digits"}
	}
	return sum, nil
}

func hashOf(sum []byte) string { return hashScheme + hex.EncodeToString(sum) }

// wrapBlobError returns an error as one of package blob, but for the context's own.
func wrapBlobError(ctx context.Context, hash string, err error) error {
	var already *blob.Error
	switch {
	case err == nil, errors.As(err, &already):
		return err
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case errors.Is(err, pgx.ErrNoRows):
		err = blob.ErrMissing
	}
	return &blob.Error{Hash: hash, Err: err}
}

// Put implements [blob.Store].
func (b *Blobs) Put(ctx context.Context, r io.Reader) (hash string, size int64, err error) {
	if r == nil {
		return "", 0, &blob.Error{Err: fs.ErrInvalid, Detail: "a blob is put with a reader"}
	}
	var content [16]byte
	_, _ = rand.Read(content[:]) // it cannot fail
	sum, chunk := sha256.New(), new(bytes.Buffer)
	chunk.Grow(chunkSize + bytes.MinRead)
	for number := 0; ; number++ {
		chunk.Reset()
		n, err := io.CopyN(chunk, contextReader{ctx, r}, chunkSize)
		last := err == io.EOF //nolint:errorlint // a connection that broke may have an error that wraps it
		if err != nil && !last {
			b.dropChunks(ctx, content, number)
			return "", 0, err
		}
		sum.Write(chunk.Bytes())
		size += n
		if last {
			hash = hashOf(sum.Sum(nil))
			if err := b.finishPut(ctx, content, number, chunk.Bytes(), sum.Sum(nil), size); err != nil {
				if isRolledBack(err) {
					b.dropChunks(ctx, content, number)
				}
				return "", 0, wrapBlobError(ctx, hash, err)
			}
			return hash, size, nil
		}
		const sql = `INSERT INTO pawl.chunks (content, number, data) SELECT $1, $2, $3 FROM ` + keepsLater // the last statement waits for all
		if _, err := b.db.query(ctx, n, sql, []any{content, number, chunk.Bytes()}, nil); err != nil {
			b.dropChunks(ctx, content, number+1)
			return "", 0, wrapBlobError(ctx, "", err)
		}
	}
}

// finishPut inserts the last chunk, if it is not empty, and makes the content that of the blob, in one statement. The content that the blob had
// is deleted then. Its commit waits until a synchronous standby has all chunks.
//
// If two put the same bytes at once, the chunks of the first one may stay behind, until All deletes them.
func (b *Blobs) finishPut(ctx context.Context, content [16]byte, number int, last, sum []byte, size int64) error {
	const sql = `
		WITH was AS (SELECT content FROM pawl.blobs WHERE store = $5 AND hash = $6 FOR UPDATE),
		added AS (INSERT INTO pawl.chunks (content, number, data) SELECT $1, $2, $3 WHERE octet_length($3::bytea) > 0)
		INSERT INTO pawl.blobs AS b (store, hash, content, size, put_at) SELECT $5, $6, $1, $4, clock_timestamp() FROM ` + keepsCommit + ` LEFT JOIN was ON true
		WHERE $2 = (SELECT count(*) FROM pawl.chunks WHERE content = $1 AND put_at > clock_timestamp() - interval '12 hours')
		ON CONFLICT (store, hash) DO UPDATE SET content = excluded.content, size = excluded.size, put_at = greatest(excluded.put_at, b.put_at + interval '1 microsecond')
		RETURNING (SELECT content FROM was)`
	var was *[16]byte
	n, err := b.db.query(ctx, size, sql, []any{content, number, orEmpty(last), size, b.name, sum}, func(r pgx.Rows) error { return r.Scan(&was) })
	if err == nil && n == 0 {
		err = errLongPut
	}
	if err == nil && was != nil && *was != content {
		b.deleteContent(ctx, *was)
	}
	return err
}

// errLongPut says that a Put has lasted for so long that All may soon delete its first chunks: see deleteLost.
var errLongPut = errors.New("the blob was not put within 12 hours")

// isRolledBack reports whether an error of finishPut proves that the blob does not have the content, and never will. Otherwise the commit may be there,
// or wait for a standby: nobody sees the row then, and the content must stay.
//
// An ERROR of the server aborts its transaction. An error that ends the connection (FATAL), or that a pooler says in its place (class 08), may come behind the commit.
func isRolledBack(err error) bool {
	var said *pgconn.PgError
	return errors.Is(err, errLongPut) || errors.As(err, &said) && said.SeverityUnlocalized == "ERROR" && !strings.HasPrefix(said.Code, "08")
}

// deleteChunks is how many chunks one statement deletes at most: few enough for it to be short.
const deleteChunks = 64

// dropChunks deletes what a Put that has failed has inserted, so many chunks perhaps.
func (b *Blobs) dropChunks(ctx context.Context, content [16]byte, inserted int) {
	if inserted > 0 {
		b.deleteContent(ctx, content)
	}
}

// deleteContent deletes the chunks of a content that is no blob's, some in each statement, also where ctx has ended. All deletes
// the rest, if the server does not answer, or all of it takes longer than one answer may.
//
// It must not be called for a content that a Put under way may still make a blob's.
func (b *Blobs) deleteContent(ctx context.Context, content [16]byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.db.answers)
	defer cancel()
	const sql = `DELETE FROM pawl.chunks WHERE content = $1 AND number IN (SELECT number FROM pawl.chunks WHERE content = $1 LIMIT $2)
		AND NOT EXISTS (SELECT FROM pawl.blobs WHERE content = $1)`
	_ = deleteParts(deleteChunks, func(most int64) (int64, error) { // All tries again
		return b.db.query(ctx, 0, sql, []any{content, most}, nil)
	})
}

// deleteLost deletes the chunks that Puts have left which did not come to their end, unless a Put is at its end just now: the next All does it then.
//
// A commit that waits for a standby, for days perhaps, has a row that the second statement would not see, and a lock that the first one does. It
// has begun within 12 hours of its first chunk: none begins between the two statements whose chunks are a day old.
func (b *Blobs) deleteLost(ctx context.Context) {
	const underWay = `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'pawl.blobs'::regclass AND mode = 'RowExclusiveLock'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`
	var waits bool
	if err := b.db.queryRow(ctx, underWay, nil, &waits); err != nil || waits {
		return
	}
	const sql = `DELETE FROM pawl.chunks WHERE (content, number) IN (
			SELECT content, number FROM pawl.chunks c WHERE put_at < clock_timestamp() - interval '1 day'
			AND NOT EXISTS (SELECT FROM pawl.blobs b WHERE b.content = c.content) LIMIT $1)`
	_ = deleteParts(deleteChunks, func(most int64) (int64, error) { return b.db.query(ctx, 0, sql, []any{most}, nil) }) // the next All tries again
}

// A contextReader ends with its context, between two reads.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (r contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Stat implements [blob.Store].
func (b *Blobs) Stat(ctx context.Context, hash string) (blob.Info, error) {
	info, _, err := b.lookUp(ctx, hash)
	return info, err
}

// lookUp returns what is known of a blob, and the name of its content.
func (b *Blobs) lookUp(ctx context.Context, hash string) (info blob.Info, content [16]byte, err error) {
	sum, err := sumOf(hash)
	if err != nil {
		return info, content, err
	}
	const sql = `SELECT content, size, put_at FROM pawl.blobs WHERE store = $1 AND hash = $2`
	info.Hash = hash
	err = b.db.queryRow(ctx, sql, []any{b.name, sum}, &content, &info.Size, &info.Time)
	if err != nil {
		return blob.Info{}, content, wrapBlobError(ctx, hash, err)
	}
	return info, content, nil
}

// Delete implements [blob.Store].
func (b *Blobs) Delete(ctx context.Context, hash string, before time.Time) (bool, error) {
	sum, err := sumOf(hash)
	if err != nil {
		return false, err
	}
	const sql = `DELETE FROM pawl.blobs WHERE store = $1 AND hash = $2 AND put_at < $3 RETURNING content`
	var content [16]byte
	before = before.Add(time.Microsecond - time.Nanosecond).Truncate(time.Microsecond) // the server counts in these
	err = b.db.queryRow(ctx, sql, []any{b.name, sum, before}, &content)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, wrapBlobError(ctx, hash, err)
	}
	b.deleteContent(ctx, content)
	return true, nil
}

// Open implements [blob.Store]. The first chunk is read at once.
func (b *Blobs) Open(ctx context.Context, hash string) (io.ReadCloser, error) {
	info, content, err := b.lookUp(ctx, hash)
	if err != nil {
		return nil, err
	}
	r := &blobReader{of: b, info: info, content: content, sum: sha256.New()}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if info.Size > 0 {
		if err := r.readChunk(); err != nil {
			r.cancel()
			return nil, err
		}
	}
	return r, nil
}

// A blobReader reads a blob, and checks it at the end.
type blobReader struct {
	of      *Blobs
	info    blob.Info
	content [16]byte
	ctx     context.Context
	cancel  context.CancelFunc
	next    int    // number of the chunk to read
	read    int64  // bytes of chunks before it
	left    []byte // of the last chunk
	sum     hash.Hash
}

// readChunk reads the next chunk. If the blob was put again meanwhile, it has another content with the same bytes; as often as that happens,
// the chunk is looked for there.
func (r *blobReader) readChunk() error {
	const sql = `SELECT data FROM pawl.chunks WHERE content = $1 AND number = $2`
	for {
		var chunk []byte
		_, err := r.of.db.query(r.ctx, chunkSize, sql, []any{r.content, r.next}, func(rows pgx.Rows) error { return rows.Scan(&chunk) })
		if err != nil {
			return wrapBlobError(r.ctx, r.info.Hash, err)
		}
		if len(chunk) > 0 {
			r.left, r.next, r.read = chunk, r.next+1, r.read+int64(len(chunk))
			r.sum.Write(chunk)
			return nil
		}
		was := r.content
		if _, r.content, err = r.of.lookUp(r.ctx, r.info.Hash); err != nil {
			return err
		}
		if r.content == was {
			return &blob.Error{Hash: r.info.Hash, Err: blob.ErrDamaged, Detail: fmt.Sprintf("chunk %d is missing", r.next)}
		}
	}
}

// Read returns the next bytes; at the end io.EOF, or that the blob is damaged.
func (r *blobReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 && len(p) > 0 {
		if err := r.ctx.Err(); err != nil {
			return 0, &blob.Error{Hash: r.info.Hash, Err: fs.ErrClosed}
		}
		if r.read >= r.info.Size {
			if hashOf(r.sum.Sum(nil)) != r.info.Hash {
				return 0, &blob.Error{Hash: r.info.Hash, Err: blob.ErrDamaged}
			}
			return 0, io.EOF
		}
		if err := r.readChunk(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// Close ends the reader.
func (r *blobReader) Close() error {
	r.cancel()
	r.left = nil
	return nil
}

// All implements [blob.Store]. It deletes what Puts have left that did not come to their end, where it may.
func (b *Blobs) All(ctx context.Context) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		b.deleteLost(ctx)
		for after := []byte{}; ; {
			page, err := b.readPage(ctx, after)
			if err != nil {
				yield(blob.Info{}, wrapBlobError(ctx, "", err))
				return
			}
			for _, info := range page {
				if err := context.Cause(ctx); err != nil {
					yield(blob.Info{}, err)
					return
				}
				if !yield(info, nil) {
					return
				}
			}
			if len(page) < pageBlobs {
				return
			}
			if after, err = sumOf(page[len(page)-1].Hash); err != nil {
				yield(blob.Info{}, err)
				return
			}
		}
	}
}

// readPage returns the blobs behind a hash, some of them.
func (b *Blobs) readPage(ctx context.Context, after []byte) (page []blob.Info, err error) {
	const sql = `SELECT hash, size, put_at FROM pawl.blobs WHERE store = $1 AND hash > $2 ORDER BY hash LIMIT $3`
	_, err = b.db.query(ctx, 0, sql, []any{b.name, after, pageBlobs}, func(r pgx.Rows) error {
		var sum []byte
		var info blob.Info
		if err := r.Scan(&sum, &info.Size, &info.Time); err != nil {
			return err
		}
		info.Hash = hashOf(sum)
		page = append(page, info)
		return nil
	})
	return page, err
}
