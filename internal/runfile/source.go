package runfile

import (
	"database/sql/driver"
	"io"

	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A Source is the file of a run as it is read: [Open] and [InDatabase] return one. Nothing in this package changes a
// source. An error of row, kept in its reader, ends the reading and is returned.
type Source interface {
	// eachRow calls row with rows of a table in the order of their keys.
	eachRow(from selection, row func(*rowReader)) error
}

// A Target is a file that rows are written to, by a [Builder] or by [WriteFile]. Its one method takes statements, not
// rows: the one makes their rows at once, the other when all are known.
type Target interface {
	runStatement(s *statement) error
}

// A selection says which rows of a table are read. These are the questions that are asked of a file, and both kinds
// of source answer them: all rows, the rows behind a number, one row by a text.
type selection struct {
	table *table
	after int64  // in a table with rowids: only those behind it
	limit int    // how many of those; 0 for all rows of the table
	text  string // in a table whose key is one text: the row with it; "" for any
}

// A Database is the file of a run that SQLite has open. It is a Source.
type Database struct{ conn *sqlite.Conn }

// InDatabase returns the file of a run that a connection has open. The connection stays the
// caller's.
func InDatabase(c *sqlite.Conn) Database { return Database{c} }

// eachRow reads rows with SQLite. The columns of SELECT * are in the order of file.sql, whoever has made the table.
func (d Database) eachRow(from selection, row func(*rowReader)) error {
	t := from.table
	text, args := "SELECT * FROM "+t.name, []driver.Value(nil)
	switch {
	case from.text != "":
		text, args = text+" WHERE "+t.key+" = ?", []driver.Value{from.text}
	case from.limit > 0:
		text, args = text+" WHERE "+t.key+" > ? ORDER BY "+t.key+" LIMIT ?", []driver.Value{from.after, int64(from.limit)}
	default:
		text += " ORDER BY " + t.key
	}
	return d.conn.Each(text, func(r *sqlite.Row) error {
		// Each row has a reader of its own, so that an error belongs to one row.
		rd := rowReader{Row: r}
		row(&rd)
		return rd.err
	}, args...)
}

// A File is a run's file that is read without SQLite. It is a Source only: what is written goes into another file.
type File struct{ image *image.Image }

// Open returns the file of a run that data holds, which must not change any more. It fails
// with [image.ErrMalformed].
func Open(data []byte) (*File, error) {
	m, err := image.Open(data)
	return &File{m}, err
}

// OpenAt returns the file of a run that is read from a file of some size. It fails with [image.ErrMalformed], or with
// what the file fails with.
func OpenAt(file io.ReaderAt, size int64) (*File, error) {
	m, err := image.OpenAt(file, size)
	return &File{m}, err
}

// eachRow reads rows from the file. It starts at the right page of the tree and decodes no row before.
func (f *File) eachRow(from selection, row func(*rowReader)) error {
	t, left := from.table, from.limit
	start := image.Start{Text: from.text}
	if left > 0 {
		start.From = from.after + 1
	}
	values := make([]driver.Value, 0, t.columns)
	return f.image.Rows(t.name, start, func(id int64, record []byte) (bool, error) {
		var err error
		if values, err = image.DecodeRecord(values[:0], record); err != nil {
			return false, err
		}
		// A file of another version, or a damaged one: to read it by number would take one column for another.
		if len(values) != t.columns {
			return false, image.ErrMalformed
		}
		// The record has NULL where SQLite shows the rowid.
		if t.keys == 0 {
			values[0] = id
		}
		// The tree led to the first key that is not smaller: there is no row with this one.
		if from.text != "" && values[0] != from.text {
			return false, nil
		}
		rd := rowReader{Row: sqlite.NewRow(values)}
		row(&rd)
		if rd.err == nil {
			rd.err = rd.Err()
		}
		// Without a limit, left begins at 0 and is never 0 again.
		left--
		return left != 0 && from.text == "", rd.err
	})
}
