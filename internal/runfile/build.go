package runfile

import (
	"database/sql/driver"
	_ "embed" // the schema
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
)

const (
	// ID is the application id in the header of a file: "pawr".
	ID = 0x70617772
	// Version is the version of the format in the header of a file.
	Version = 3

	filePage = 1024
)

const (
	begin    = `BEGIN IMMEDIATE`
	commit   = `COMMIT`
	rollback = `ROLLBACK`
)

//go:embed file.sql
var fileSchema string

// New returns the bytes of an empty file.
func New() ([]byte, error) {
	return sqlite.NewDatabase(fileSchema, filePage, ID, Version)
}

// WriteDefinition writes the definition that the run began with.
func WriteDefinition(c *sqlite.Conn, hash, doc string) error {
	return definitionTable.insertRows(c, [][]driver.Value{{int64(1), hash, doc}})
}

// WriteMeta writes which run the file is of, and how far it goes.
func WriteMeta(c *sqlite.Conn, m *Meta) error {
	row, err := metaRow(m)
	if err != nil {
		return err
	}
	return metaTable.insertRows(c, [][]driver.Value{row})
}

// WriteChanges writes everything that has changed in a state, with the records and the
// events of the changes.
func WriteChanges(c *sqlite.Conn, ch *state.Changes, entries []Entry, events []decision.Event) error {
	for _, b := range fileStatements(ch, entries, events) {
		if err := b.runOn(c); err != nil {
			return err
		}
	}
	return nil
}

// A Builder builds files in memory. It keeps one empty file and rolls back to
// it after each: nothing is parsed or prepared twice.
type Builder struct{ empty *sqlite.Conn }

// maxKept is the size in bytes of a file after which a builder gives its memory
// back.
const maxKept = 4 << 20

// Build returns the bytes of a file after fill, which begins with old, or empty
// if that is nil.
func (b *Builder) Build(old []byte, fill func(*sqlite.Conn) error) ([]byte, error) {
	if old != nil {
		return b.rebuildFile(old, fill)
	}
	if b.empty == nil {
		var err error
		if b.empty, err = sqlite.OpenMemory(fileSchema, filePage, ID, Version); err != nil {
			return nil, err
		}
	}
	data, err := fillDatabase(b.empty, fill)
	if err == nil {
		_, err = b.empty.Exec(rollback)
	}
	if err != nil || len(data) > maxKept {
		b.FreeMemory()
	}
	return data, err
}

// fillDatabase returns the bytes of a database after fill, in an open transaction.
func fillDatabase(c *sqlite.Conn, fill func(*sqlite.Conn) error) ([]byte, error) {
	if _, err := c.Exec(begin); err != nil {
		return nil, err
	}
	if err := fill(c); err != nil {
		return nil, err
	}
	return c.Serialize()
}

func (b *Builder) rebuildFile(old []byte, fill func(*sqlite.Conn) error) (data []byte, err error) {
	c, err := sqlite.Open(sqlite.Memory, `PRAGMA trusted_schema=OFF`)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := c.Close(); err == nil {
			err = closed
		}
	}()
	if err := c.Deserialize(old); err != nil {
		return nil, err
	}
	if err := c.Script(`PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;`); err != nil {
		return nil, err
	}
	if _, err := c.Exec(begin); err != nil {
		return nil, err
	}
	if err := fill(c); err != nil {
		return nil, err
	}
	if _, err := c.Exec(commit); err != nil {
		return nil, err
	}
	return c.Serialize()
}

// FreeMemory gives the memory back.
func (b *Builder) FreeMemory() {
	if b.empty != nil {
		_ = b.empty.Close() // it holds nothing but memory
		b.empty = nil
	}
}

// runOn runs the statement on a database.
func (b *statement) runOn(c *sqlite.Conn) error {
	switch {
	case b.delete != "":
		_, err := c.Exec(b.delete, b.rows[0]...)
		return err
	case b.count > 0:
		pace.Pause()
		_, err := c.Exec(b.table.siblingsText(), append([]driver.Value{int64(b.count)}, b.rows[0]...)...)
		return err
	}
	return b.table.insertRows(c, b.rows)
}

// chunks are the numbers of rows that one statement inserts.
var chunks = [...]int{50, 10, 3, 1}

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

// inserts has the statement that inserts n rows into each table.
var inserts = func() map[string]map[int]string {
	out := map[string]map[int]string{}
	for _, t := range []*table{
		metaTable, definitionTable, tokensTable, groupsTable, itemsTable,
		branchesTable, dataTable, journalTable, valsTable, eventsTable, signalsTable, stepsTable,
	} {
		out[t.name] = map[int]string{}
		row := "(" + strings.Repeat("?,", t.columns-1) + "?)"
		for _, n := range chunks {
			out[t.name][n] = t.verb + t.name + " VALUES " + strings.Repeat(row+",", n-1) + row
		}
	}
	return out
}()

func (t *table) insertText(n int) string { return inserts[t.name][n] }

// siblingsText returns the statement that inserts as many rows as its first
// parameter says, alike but for the columns that count up.
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
