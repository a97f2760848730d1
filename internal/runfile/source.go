package runfile

import (
	"database/sql/driver"

	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A Source is the file of a run as it is read: [Open] and [InDatabase] return one.
type Source interface {
	// eachRow calls row with rows of a table in the order of their keys.
	eachRow(from selection, row func(*rowReader)) error
}

// A Target is a file that rows are written to: a database, or one that [Build] makes.
type Target interface {
	runStatement(s *statement) error
}

// A selection says which rows of a table are read.
type selection struct {
	table *table
	after int64  // in a table with rowids: only those behind it
	limit int    // how many of those; 0 for all rows of the table
	text  string // in a table whose key is one text: the row with it; "" for any
}

// A Database is the file of a run that SQLite has open.
type Database struct{ conn *sqlite.Conn }

// InDatabase returns the file of a run that a connection has open. The connection stays the
// caller's.
func InDatabase(c *sqlite.Conn) Database { return Database{c} }

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
		rd := rowReader{Row: r}
		row(&rd)
		return rd.err
	}, args...)
}

func (d Database) runStatement(s *statement) error { return s.runOn(d.conn) }

// A File is the bytes of a run's file.
type File struct{ image *image.Image }

// Open returns the file of a run that data holds, which must not change any more. It fails
// with [image.ErrMalformed].
func Open(data []byte) (*File, error) {
	m, err := image.Open(data)
	return &File{m}, err
}

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
		if len(values) != t.columns {
			return false, image.ErrMalformed
		}
		if t.keys == 0 {
			values[0] = id
		}
		if from.text != "" && values[0] != from.text {
			return false, nil
		}
		rd := rowReader{Row: sqlite.NewRow(values)}
		row(&rd)
		if rd.err == nil {
			rd.err = rd.Err()
		}
		left--
		return left != 0 && from.text == "", rd.err
	})
}
