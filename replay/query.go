package replay

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// QuerySchema has the tables that a Query may ask, with what their columns mean, in SQL.
//
//go:embed query.sql
var QuerySchema string

// ErrNotQuery says that a text in SQL is not one query that only reads.
var ErrNotQuery = sqlite.ErrNotQuery

// ErrQueryFull says that recorded runs take too much memory as tables.
var ErrQueryFull = errors.New("the runs take more than 1 GiB as tables: ask fewer of them, or fewer tables")

// maxQueryPages bounds the tables of a Query, in pages of 4 KiB.
const maxQueryPages = 1 << 18

// maxQueryValue bounds a value that a query makes, and a row, in bytes.
const maxQueryValue = 64 << 20

// A Query is a question in SQL to recorded runs. Its tables are in memory, and have rows only where the question reads
// them. It belongs to one goroutine.
// text has no semicolon at its end. in has the tables that the question reads, as SQLite's authorizer
// saw them when it was prepared; only these are filled. from has where each run came from, for the
// error about the second one of an id. A Query that was not made by NewQuery has no db, and its
// methods fail.
type Query struct {
	text string
	db   *sqlite.Conn
	in   map[string]bool // tables that the question reads
	from map[workflow.RunID]string
}

// NewQuery returns a question to no runs yet. Close it. It fails with ErrNotQuery, and with what SQLite says of a text that is
// wrong.
//
// The question is checked on a database of its own, with the empty tables: to prepare it tells which
// tables it reads, and an error is found before any run is read. The second database has the bound on
// pages and is the one that Add fills. It holds everything in memory, sorts included, so a question
// leaves nothing behind on the disk.
func NewQuery(text string) (*Query, error) {
	q := &Query{text: strings.TrimRight(text, "; \t\r\n"), in: map[string]bool{}, from: map[workflow.RunID]string{}}
	checked, err := sqlite.Open(sqlite.Memory, QuerySchema)
	if err != nil {
		return nil, err
	}
	err = checked.LimitLength(maxQueryValue)
	if err == nil {
		err = checked.AllowQueries(func(table string) { q.in[table] = true })
	}
	if err == nil {
		err = checked.CheckQuery(q.text)
	}
	if err = errors.Join(err, checked.Close()); err != nil {
		return nil, fmt.Errorf("%q: %w", q.text, err)
	}
	pragmas := fmt.Sprintf("PRAGMA page_size=4096; PRAGMA max_page_count=%d; PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF;\n", maxQueryPages)
	q.db, err = sqlite.Open(sqlite.Memory, pragmas+QuerySchema)
	if err != nil {
		return nil, err
	}
	if err := q.db.LimitLength(maxQueryValue); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// Close frees the memory of the tables.
func (q *Query) Close() error {
	if q == nil || q.db == nil {
		return nil
	}
	return q.db.Close()
}

// Add adds a run to those that are asked. It fails if its records cannot be read, or do not fit each other, if there is a run
// of this id already, and with ErrQueryFull; then what has been added of it is taken away again.
//
// All rows of a run go in by one transaction, so a run whose records end in damage is left out as a
// whole, and the question may be asked of the others.
func (q *Query) Add(rec *Recording) (err error) {
	if q == nil || q.db == nil || rec == nil {
		return errEmpty
	}
	if rec.graph == nil {
		return rec.withSource(errEmpty)
	}
	if have, ok := q.from[rec.Run]; ok {
		return rec.withSource(fmt.Errorf("a run of this id came from %s already", have))
	}
	if err := q.db.Script("BEGIN"); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			q.from[rec.Run] = rec.Source
			err = q.db.Script("COMMIT")
			return
		}
		if sqlite.IsFull(err) {
			err = rec.withSource(ErrQueryFull)
		}
		_ = q.db.Script("ROLLBACK") // SQLite may have done it
	}()
	return addTables(q, rec)
}

// Answer runs the question. It calls head with the names of the columns, once, then row with the values of each row, which are nil,
// int64, float64, string or []byte; the slice is the next row's after that. An error of theirs, and the end of ctx, ends it.
// Runs are added before.
//
// Before it runs, the connection is limited to reading: from here on no run can be added. Rows are
// passed on as SQLite finds them, so an answer may be larger than the memory.
func (q *Query) Answer(ctx context.Context, head func(columns []string) error, row func(values []any) error) error {
	if q == nil || q.db == nil || head == nil || row == nil {
		return errEmpty
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if err := q.db.AllowQueries(func(string) {}); err != nil {
		return err
	}
	var values []any
	return q.db.Answer(ctx, q.text, head, func(r *sqlite.Row) error {
		values = values[:0]
		for _, v := range r.Values() {
			values = append(values, v)
		}
		return row(values)
	})
}
