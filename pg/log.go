package pg

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/store"
)

// A Log is a [store.Log] in a database: an entry is a row. Any number of goroutines may use it.
//
// An append is one statement: it inserts the row behind the one that this writer has appended last, which it locks. So a writer that has
// lost the log appends nothing, even if the rows that say so were dropped, or if another server has another history; and nothing is
// there twice. An entry is acknowledged when its commit is on the disk of the primary and of the synchronous standbys, if the server has
// some.
//
// mu is held for a whole Append: a writer has one entry under way. last is the last entry that is known to be there, and this writer's.
type Log struct {
	db     *Database
	name   string
	writer [16]byte

	mu   sync.Mutex
	took bool
	last store.Position
}

var _ store.Log = (*Log)(nil)

// OpenLog opens the log of a name: letters, digits, _ and -, at most 32. It is empty at first; each engine directory has its own. Errors:
// pawl.ErrInvalid, ErrNoTables, pawl.ErrVersion (the tables are of a newer program); or what PostgreSQL says.
func (d *Database) OpenLog(ctx context.Context, name string) (*Log, error) {
	err := d.checkTables(ctx, name)
	if err == nil {
		_, err = d.query(ctx, 0, `INSERT INTO pawl.logs (name) SELECT $1 WHERE NOT EXISTS (SELECT FROM pawl.logs WHERE name = $1) ON CONFLICT DO NOTHING`, []any{name}, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("open the log %s: %w", name, err)
	}
	l := &Log{db: d, name: name}
	_, _ = rand.Read(l.writer[:]) // it cannot fail
	return l, nil
}

// ListLogs returns the names of the logs that were opened in the database, in their order. Errors: ErrNoTables, pawl.ErrVersion; or what PostgreSQL
// says.
func (d *Database) ListLogs(ctx context.Context) (names []string, err error) {
	if err = d.checkVersion(ctx); err == nil {
		_, err = d.query(ctx, 0, `SELECT name FROM pawl.logs ORDER BY name COLLATE "C"`, nil, func(r pgx.Rows) error {
			var name string
			err := r.Scan(&name)
			names = append(names, name)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list the logs: %w", err)
	}
	return names, nil
}

// A lastEntry is the last entry of a log. Without any entry the position is zero.
type lastEntry struct {
	position   store.Position
	writer     [16]byte
	beginnings int64 // how often a first entry was written
}

// lookAt returns the last entry.
func (l *Log) lookAt(ctx context.Context) (last lastEntry, err error) {
	const sql = `
		SELECT l.beginnings, e.number, e.writer, sha256(e.data) FROM pawl.logs l
		LEFT JOIN LATERAL (SELECT number, writer, data FROM pawl.entries WHERE log = $1 ORDER BY number DESC LIMIT 1) e ON true
		WHERE l.name = $1`
	var number *int64
	var writer *[16]byte
	var sum []byte
	err = l.db.queryRow(ctx, sql, []any{l.name}, &last.beginnings, &number, &writer, &sum)
	if errors.Is(err, pgx.ErrNoRows) {
		return last, l.corruptAt(0, "somebody has deleted the log's row in the table logs")
	}
	if err == nil && number != nil {
		last.position.Seq, last.writer = uint64(*number), *writer //nolint:gosec // from 1
		copy(last.position.Sum[:], sum)
	}
	return last, err
}

// Take implements [store.Log].
//
// It appends an entry behind the last one, whoever has that from; the writer before finds it where its next entry belongs. If somebody else
// appends in between, it looks again and makes another entry.
func (l *Log) Take(ctx context.Context, makeEntry func(store.Position) []byte) (store.Position, error) {
	if makeEntry == nil {
		return store.Position{}, fmt.Errorf("%w: a log is taken with what makes its entry", pawl.ErrInvalid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		last, err := l.lookAt(ctx)
		if err != nil {
			return store.Position{}, l.wrapError("take", err)
		}
		entry := makeEntry(last.position)
		if err := context.Cause(ctx); err != nil {
			return store.Position{}, err
		}
		l.took = false // until it is certain
		there, err := l.insertEntry(ctx, last, entry)
		if err != nil {
			return store.Position{}, l.wrapError("take", err)
		}
		if there {
			l.last, l.took = store.PositionOf(last.position.Seq+1, entry), true
			return l.last, nil
		}
	}
}

// insertEntry inserts a row behind the last entry, and reports whether it did: not if there is another one at its place, or what must be
// before it is not there.
//
// The row before is locked until the commit: nobody drops it meanwhile, and with it what might stand in the place of the new one. A first
// entry counts in the row of the log, which another first entry waits for.
func (l *Log) insertEntry(ctx context.Context, last lastEntry, entry []byte) (bool, error) {
	sql := `
		WITH before AS (SELECT FROM pawl.entries WHERE log = $1 AND number = $2 - 1 AND writer = $5 FOR KEY SHARE)
		INSERT INTO pawl.entries (log, number, writer, data) SELECT $1, $2, $3, $4 FROM before, ` + keepsCommit + ` ON CONFLICT DO NOTHING`
	args := []any{l.name, int64(last.position.Seq) + 1, l.writer, orEmpty(entry), last.writer} //nolint:gosec // a number of rows
	if last.position.Seq == 0 {
		sql = `
			WITH before AS (UPDATE pawl.logs SET beginnings = beginnings + 1 WHERE name = $1 AND beginnings = $5 RETURNING name)
			INSERT INTO pawl.entries (log, number, writer, data) SELECT $1, $2, $3, $4 FROM before, ` + keepsCommit + ` ON CONFLICT DO NOTHING`
		args[4] = last.beginnings
	}
	n, err := l.db.query(ctx, int64(len(entry)), sql, args, nil)
	return n == 1, err
}

// orEmpty returns bytes that are not NULL in the database.
func orEmpty(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// Append implements [store.Log]. It tries once: the caller repeats it.
func (l *Log) Append(ctx context.Context, entry []byte) (store.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return store.Position{}, err
	}
	if !l.took {
		return store.Position{}, fmt.Errorf("%w: append to a log that was not taken", pawl.ErrInvalid)
	}
	p := store.PositionOf(l.last.Seq+1, entry)
	there, err := l.insertEntry(ctx, lastEntry{position: l.last, writer: l.writer}, entry)
	if err == nil && !there {
		err = l.settleEntry(ctx, p)
	}
	if err != nil {
		return store.Position{}, l.wrapError("append to", err)
	}
	l.last = p
	return p, nil
}

// settleEntry finds out why an entry could not be inserted: nil says that it is there already, since the answer to an earlier Append was lost.
//
// A row that is there may be on the primary alone, if the server was killed while its commit waited for a standby. The lock makes this statement a
// transaction that writes, whose commit waits for all commits before it.
func (l *Log) settleEntry(ctx context.Context, p store.Position) error {
	const sql = `SELECT e.writer, sha256(e.data) FROM pawl.entries e, ` + keepsCommit + ` WHERE e.log = $1 AND e.number = $2 FOR KEY SHARE OF e`
	var writer [16]byte
	var sum []byte
	err := l.db.queryRow(ctx, sql, []any{l.name, int64(p.Seq)}, &writer, &sum) //nolint:gosec // a number of rows
	switch {
	case err == nil && writer == l.writer && bytes.Equal(sum, p.Sum[:]):
		return nil
	case err == nil:
		return l.fencedError(p.Seq)
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	last, err := l.lookAt(ctx)
	switch {
	case err != nil:
		return err
	case last.position.Seq < l.last.Seq:
		return l.corruptAt(l.last.Seq, "it is missing: the database has lost the end of the log")
	case last.position.Seq > l.last.Seq || last.writer != l.writer:
		return l.fencedError(p.Seq)
	}
	return errUnderWay
}

// errUnderWay says that nobody can tell yet.
var errUnderWay = errors.New("the database has refused the entry, and does not have another one: it may be there or not")

// fencedError says that somebody else has taken the log: this writer must not go on.
func (l *Log) fencedError(seq uint64) error {
	return fmt.Errorf("%w: entry %d of the log %s is another one's", store.ErrFenced, seq, l.name)
}

// corruptAt returns the error that an entry is not what it must be; it is store.ErrCorrupt.
func (l *Log) corruptAt(seq uint64, what string) error {
	file := "the log " + l.name
	if seq != 0 {
		file = fmt.Sprintf("entry %d of the log %s", seq, l.name)
	}
	return &store.CorruptError{File: file, What: what}
}

// wrapError says what failed, unless the context has ended or the error says all.
func (l *Log) wrapError(what string, err error) error {
	var damage *store.CorruptError
	if errors.Is(err, store.ErrFenced) || errors.As(err, &damage) {
		return err
	}
	return fmt.Errorf("%s the log %s: %w", what, l.name, err)
}

// A page of entries has so many rows and bytes at most, and at least one entry.
const (
	pageRows  = 512
	pageBytes = 4 << 20
)

// Read implements [store.Log]. It asks for pages, and holds no connection while the caller has an entry.
func (l *Log) Read(ctx context.Context, after store.Position) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		place := after.Seq != 0 // where the next entry must be
		for next := after.Seq + 1; ; {
			page, err := l.readPage(ctx, next)
			if err == nil && len(page) == 0 {
				return
			}
			for _, e := range page {
				if place && e.Seq != next {
					err = l.missingError(ctx, next, next == after.Seq+1)
					break
				}
				if !yield(e, nil) {
					return
				}
				next, place = e.Seq+1, true
			}
			if err != nil {
				yield(store.Entry{}, l.wrapError("read", err))
				return
			}
		}
	}
}

// readPage returns some entries from a number on; none at the end of the log.
func (l *Log) readPage(ctx context.Context, from uint64) (page []store.Entry, err error) {
	const sql = `
		SELECT number, data FROM (
			SELECT number, data, sum(octet_length(data)) OVER (ORDER BY number) - octet_length(data) AS before
			FROM (SELECT number, data FROM pawl.entries WHERE log = $1 AND number >= $2 ORDER BY number LIMIT $3) p
		) q WHERE before < $4 ORDER BY number`
	if from > math.MaxInt64 {
		return nil, nil
	}
	_, err = l.db.query(ctx, 2*pageBytes, sql, []any{l.name, int64(from), pageRows, pageBytes}, func(r pgx.Rows) error {
		var number int64
		var data []byte
		if err := r.Scan(&number, &data); err != nil {
			return err
		}
		page = append(page, store.Entry{Seq: uint64(number), Data: data}) //nolint:gosec // from 1
		return nil
	})
	return page, err
}

// missingError says why an entry is not there, the first that is asked for or a later one: somebody has dropped it, with all before it, or it
// is damage.
func (l *Log) missingError(ctx context.Context, seq uint64, first bool) error {
	var before bool
	err := l.db.queryRow(ctx, `SELECT EXISTS (SELECT FROM pawl.entries WHERE log = $1 AND number < $2)`, []any{l.name, int64(seq)}, &before) //nolint:gosec // a number of rows
	switch {
	case err != nil:
		return err
	case before || first:
		return l.corruptAt(seq, "it is missing")
	}
	return fmt.Errorf("entry %d was dropped meanwhile: read again", seq)
}

// dropRows is how many entries one statement drops at most: few enough for it to be short.
const dropRows = 1000

// Drop implements [store.Log]. It leaves the last entry, behind which the next one comes. A statement drops a part of the range, from the front: what
// is left has no gap. If one takes too long, the next part is smaller.
func (l *Log) Drop(ctx context.Context, upTo store.Position) error {
	const sql = `
		DELETE FROM pawl.entries e USING
			(SELECT min(number) AS first FROM pawl.entries WHERE log = $1) f,
			(SELECT max(number) AS last FROM pawl.entries WHERE log = $1) l,
			` + keepsLater + `
		WHERE e.log = $1 AND e.number < l.last AND e.number <= $2 AND e.number < f.first + $3`
	err := deleteParts(dropRows, func(most int64) (int64, error) {
		return l.db.query(ctx, 0, sql, []any{l.name, int64(min(upTo.Seq, math.MaxInt64)), most}, nil) //nolint:gosec // bounded
	})
	if err != nil {
		return l.wrapError("drop entries of", err)
	}
	return nil
}
