package runfile

import (
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
)

const (
	// ID is the application id in the header of a file: "pawr". It tells a file of a run from any other SQLite
	// database: a foreign file is refused.
	ID = 0x70617772
	// Version is the version of the format in the header of a file. A program that knows only lower versions refuses
	// the file.
	Version = 3
)

// New returns the bytes of an empty file that will be large: SQLite goes on with it. Its tables are there with pages
// of their own, and its pages are large: SQLite could put no rows into the views of a small file.
func New() []byte { return newDraft().writeTo(new(image.Writer), true) }

// Enlarge returns a file as [New] has it, with the content of another. It fails with [image.ErrMalformed]. A run
// whose file grows out of what is made in memory is handed over to SQLite in this form.
func Enlarge(data []byte) ([]byte, error) {
	d := newDraft()
	err := d.loadImage(data)
	if err != nil {
		return nil, err
	}
	return d.writeTo(new(image.Writer), true), nil
}

// A Builder builds files in memory that it keeps for the next. The zero value is ready. A worker that writes files of
// many runs, one after the other, has one: nearly all files are of about the same small size, and the memory for rows
// and pages is allocated once. It is not for several goroutines.
type Builder struct {
	// Both are nil before the first file and after one that was too large or failed.
	draft  *draft
	writer *image.Writer
}

// maxKept is the size in bytes of a file after which a builder gives its memory back. Otherwise one large file would
// have each worker hold as much for ever.
const maxKept = 256 << 10

// Build returns the bytes of a file after fill, which begins with old, or empty if that is nil. They are good until
// the next Build. old is decoded only as far as the keys of its rows; their records go into the new file as they are.
// fill writes the definition, the meta row and the changes.
func (b *Builder) Build(old []byte, fill func(Target) error) (data []byte, err error) {
	if b.draft == nil {
		b.draft, b.writer = newDraft(), new(image.Writer)
	}
	// A draft that a failed fill has left half-way is not used again.
	defer func() {
		if err != nil || len(data) > maxKept {
			*b = Builder{}
		} else {
			b.draft.clearRows()
		}
	}()
	// The old rows come first: what has changed replaces them.
	if old != nil {
		if err := b.draft.loadImage(old); err != nil {
			return nil, err
		}
	}
	if err := fill(b.draft); err != nil {
		return nil, err
	}
	return b.draft.writeTo(b.writer, false), nil
}

// WriteDefinition writes the definition that the run began with. It is written at each flush: a row that is there
// already stays, since revision 1 never changes. Definitions that patches have made come with the changes.
func WriteDefinition(to Target, hash, doc string) error {
	return to.runStatement(&statement{table: definitionTable, rows: [][]driver.Value{{int64(1), hash, doc}}})
}

// WriteMeta writes which run the file is of, and how far it goes. It replaces the one row. With the sequence and
// checksum in it, whoever reads the file knows from which record of the log to go on, and that the file is not of
// another run or of another time.
func WriteMeta(to Target, m *Meta) error {
	row, err := metaRow(m)
	if err != nil {
		return err
	}
	return to.runStatement(&statement{table: metaTable, rows: [][]driver.Value{row}})
}

// WriteChanges writes everything that has changed in a state, with the records and the events of the changes. They
// are of one flush. If several have come together, they are written one after the other, the oldest first: rows
// replace each other, and data depend on the order.
func WriteChanges(to Target, ch *state.Changes, entries []Entry, events []decision.Event) error {
	statements := fileStatements(ch, entries, events)
	for i := range statements {
		if err := to.runStatement(&statements[i]); err != nil {
			return err
		}
	}
	return nil
}

// runOn runs the statement on a database. draft.runStatement does the same in memory.
func (b *statement) runOn(c *sqlite.Conn) error {
	switch {
	case b.delete != "":
		_, err := c.Exec(b.delete, b.rows[0]...)
		return err
	// The rows are made in the database: one statement with a few parameters in place of up to 1,000 rows of them.
	case b.count > 0:
		pace.Pause()
		_, err := c.Exec(b.table.siblingsText(), append([]driver.Value{int64(b.count)}, b.rows[0]...)...)
		return err
	}
	return b.table.insertRows(c, b.rows)
}

// chunks are the numbers of rows that one statement inserts. Each number is a text of SQL that a connection keeps
// prepared, so they are few: 117 rows are two times 50, one time 10, two times 3 and 1.
var chunks = [...]int{50, 10, 3, 1}

// insertRows inserts rows with as few statements as chunks allow, the largest first. The arguments of all of them
// share a slice.
func (t *table) insertRows(c *sqlite.Conn, rows [][]driver.Value) error {
	args := make([]driver.Value, 0, min(len(rows), chunks[0])*t.columns)
	for _, n := range chunks {
		for ; len(rows) >= n; rows = rows[n:] {
			pace.Pause()
			args = args[:0]
			for _, row := range rows[:n] {
				args = append(args, row...)
			}
			if _, err := c.Exec(t.insertText(n), args...); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	return nil
}

// inserts has the statement that inserts n rows into each table. They are made once for the process; a connection
// keeps each of them prepared under its text.
var inserts = func() map[string]map[int]string {
	out := map[string]map[int]string{}
	for _, t := range allTables {
		out[t.name] = map[int]string{}
		row := "(" + strings.Repeat("?,", t.columns-1) + "?)"
		for _, n := range chunks {
			out[t.name][n] = t.verb + t.name + " VALUES " + strings.Repeat(row+",", n-1) + row
		}
	}
	return out
}()

// insertText returns the statement for n rows, which is one of chunks.
func (t *table) insertText(n int) string { return inserts[t.name][n] }

// siblingsText returns the statement that inserts as many rows as its first parameter says, alike but for the columns
// that count up. Example, for branches 0 to 99 of group 2 that have arrived: the parameters are 100 and the row (2,
// 0, arrived, NULL), and the second column is "? + i".
func (t *table) siblingsText() string {
	columns := make([]string, t.columns)
	for i := range columns {
		columns[i] = "?"
		if i == t.first || i == t.second {
			columns[i] = "? + i"
		}
	}
	return "WITH RECURSIVE n (i, end) AS (SELECT 0, ? UNION ALL SELECT i + 1, end FROM n WHERE i + 1 < end) " +
		t.verb + t.name + " SELECT " + strings.Join(columns, ", ") + " FROM n"
}
