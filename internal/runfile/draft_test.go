package runfile

import (
	"bytes"
	"database/sql/driver"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

func openBytes(t require.TestingT, data []byte) *sqlite.Conn {
	c, err := sqlite.Open(sqlite.Memory, `PRAGMA trusted_schema=OFF`)
	require.NoError(t, err)
	require.NoError(t, c.Deserialize(data))
	return c
}

func queryAll(t require.TestingT, c *sqlite.Conn, query string) (out [][]driver.Value) {
	require.NoError(t, c.Each(query, func(r *sqlite.Row) error { out = append(out, slices.Clone(r.Values())); return nil }))
	return out
}

// A drawn statement is one as fileStatements makes them, and what SQLite would be told.
type drawn struct {
	statement
	text string
	args []driver.Value
	rows [][]driver.Value
}

// rowsInto returns a statement that inserts rows.
func rowsInto(t *table, rows ...[]driver.Value) drawn {
	put := func(w *rowWriter, i int) {
		for _, v := range rows[i] {
			switch v := v.(type) {
			case nil:
				w.putNull()
			case int64:
				w.putInts(v)
			case string:
				w.putTexts(v)
			case []byte:
				w.putBlob(v)
			}
		}
	}
	key := func(i int) rowKey {
		var w rowWriter
		put(&w, i)
		return keyOf(w.columns[:max(t.keys, 1)])
	}
	text := t.verb + t.name + " VALUES (" + strings.Repeat("?,", t.columns-1) + "?)"
	return drawn{statement{table: t, count: len(rows), put: put, key: key}, text, nil, rows}
}

// runOn has SQLite do what the statement does.
func (d *drawn) runOn(t require.TestingT, c *sqlite.Conn) {
	if len(d.rows) == 0 {
		_, err := c.Exec(d.text, d.args...)
		require.NoError(t, err)
	}
	for _, row := range d.rows {
		_, err := c.Exec(d.text, row...)
		require.NoError(t, err)
	}
}

// drawStatement draws a statement with at most so many rows.
func drawStatement(t *rapid.T, most int) drawn {
	small := func(name string) int64 { return rapid.Int64Range(0, 3).Draw(t, name) }
	path := func() string {
		return rapid.SampledFrom([]string{"", "/a", "/a/b", "/a0", "/a\x00", "/ab", "/b"}).Draw(t, "path")
	}
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		g, b := small("group"), small("branch")
		return drawn{
			statement: statement{table: dataTable, deleted: []keyRange{scopeRange(g, b)}},
			text:      `DELETE FROM data WHERE grp = ? AND branch = ?`, args: []driver.Value{g, b},
		}
	case 1:
		g, b, p := small("group"), small("branch"), path()
		ranges := pathRanges(g, b, p)
		return drawn{
			statement: statement{table: dataTable, deleted: ranges[:]},
			text:      `DELETE FROM data WHERE grp = ? AND branch = ? AND (path = ? OR path >= ? AND path < ?)`,
			args:      []driver.Value{g, b, p, p + "/", p + "0"},
		}
	case 2:
		var rows [][]driver.Value
		g, first := small("group"), small("first")
		for i := range rapid.Int64Range(1, int64(most)).Draw(t, "rows") {
			rows = append(rows, []driver.Value{g, first + i, "s", nil})
		}
		return rowsInto(branchesTable, rows...)
	case 3:
		return rowsInto(valsTable, []driver.Value{rapid.StringMatching(`[ab]{1,3}`).Draw(t, "hash"), rapid.StringN(0, 3000, -1).Draw(t, "value")})
	case 4:
		return rowsInto(stepsTable, []driver.Value{rapid.StringMatching(`[ab\x00]{0,3}`).Draw(t, "node"), small("phase"), small("resolved"), int64(-5)})
	case 5:
		var rows [][]driver.Value
		first, due := small("seq"), rapid.Int64().Draw(t, "due")
		for i := range rapid.Int64Range(1, int64(most)).Draw(t, "rows") {
			rows = append(rows, []driver.Value{first + 2*i, "name", "", nil, due, small("done") % 2})
		}
		return rowsInto(signalsTable, rows...)
	}
	var rows [][]driver.Value
	for range rapid.IntRange(1, most).Draw(t, "rows") {
		rows = append(rows, []driver.Value{small("group"), small("branch"), path(), small("index") - 1, rapid.SampledFrom([]string{"1", "null"}).Draw(t, "value")})
	}
	return rowsInto(dataTable, rows...)
}

// A memoryFile is a file in memory.
type memoryFile []byte

func (f *memoryFile) WriteAt(b []byte, at int64) (int, error) {
	if more := int(at) + len(b) - len(*f); more > 0 {
		*f = append(*f, make([]byte, more)...)
	}
	return copy((*f)[at:], b), nil
}

// written returns the file that WriteFile makes from another one, nil for a new file.
func written(t require.TestingT, data []byte, fill func(Target) error) []byte {
	var old *File
	var err error
	if data != nil {
		old, err = OpenAt(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
	}
	var file memoryFile
	require.NoError(t, WriteFile(&file, old, fill))
	return file
}

// A file that is made here has what SQLite would have put into it, and is read the same,
// whoever reads, and whichever way it is made: in memory, or row by row from the file before.
func TestAFileHasWhatSQLiteWouldWrite(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		db, err := sqlite.OpenMemory(fileSchema, largePage, ID, Version)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		var data []byte
		var b Builder
		most := rapid.SampledFrom([]int{4, 40, 400}).Draw(t, "most")
		for range rapid.IntRange(1, 3).Draw(t, "builds") {
			statements := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) drawn { return drawStatement(t, most) }), 0, 30).Draw(t, "statements")
			fill := func(to Target) error {
				for i := range statements {
					if err := to.runStatement(&statements[i].statement); err != nil {
						return err
					}
				}
				return nil
			}
			if rapid.Bool().Draw(t, "large") {
				data = written(t, data, fill)
			} else {
				data, err = b.Build(slices.Clone(data), fill)
				require.NoError(t, err)
			}
			for i := range statements {
				statements[i].runOn(t, db)
			}
		}
		requireAlike(t, db, data)
	})
}

// requireAlike requires that a file has what a database has.
func requireAlike(t require.TestingT, db *sqlite.Conn, data []byte) {
	got := openBytes(t, data)
	require.Equal(t, [][]driver.Value{{"ok"}}, queryAll(t, got, `PRAGMA integrity_check`))
	for _, x := range allTables {
		want := queryAll(t, db, "SELECT * FROM "+x.name+" ORDER BY "+x.key)
		require.Equal(t, want, queryAll(t, got, "SELECT * FROM "+x.name+" ORDER BY "+x.key), x.name)
		file, err := Open(data)
		require.NoError(t, err)
		var read [][]driver.Value
		require.NoError(t, file.eachRow(selection{table: x}, func(r *rowReader) { read = append(read, slices.Clone(r.Values())) }))
		require.Equal(t, want, read, x.name)
	}
	require.NoError(t, got.Close())
}

// A second row is refused where SQLite would, within a flush and behind the file.
func TestASecondRecordIsRefused(t *testing.T) {
	row := func(seq int64) []driver.Value {
		return []driver.Value{seq, int64(0), "1", int64(1), "{}", "[]", []byte{1}}
	}
	fill := func(statements ...drawn) func(Target) error {
		return func(to Target) error {
			for i := range statements {
				if err := to.runStatement(&statements[i].statement); err != nil {
					return err
				}
			}
			return nil
		}
	}
	one, more := rowsInto(journalTable, row(1)), rowsInto(journalTable, row(1), row(2))
	_, err := new(Builder).Build(nil, fill(one, more))
	require.ErrorContains(t, err, "journal: a second row 1")
	require.ErrorContains(t, WriteFile(&memoryFile{}, nil, fill(one, more)), "journal: a second row 1")
	data, err := new(Builder).Build(nil, fill(one))
	require.NoError(t, err)
	old, err := Open(data)
	require.NoError(t, err)
	require.ErrorContains(t, WriteFile(&memoryFile{}, old, fill(more)), "journal: a second row 1")
	require.ErrorContains(t, WriteFile(&memoryFile{}, old, fill(rowsInto(journalTable, row(3), row(2)))), "does not come behind")
}

// The schema is the one of file.sql, and views that stand in for empty tables have the
// columns of those, however a file is made.
func TestTheSchemaIsThatOfTheFile(t *testing.T) {
	want, err := sqlite.OpenMemory(fileSchema, largePage, ID, Version)
	require.NoError(t, err)
	defer func() { require.NoError(t, want.Close()) }()
	require.Len(t, objects, len(allTables)+1)
	nothing := func(Target) error { return nil }
	oneRow := func(to Target) error {
		for _, x := range allTables {
			var row []driver.Value
			for _, column := range queryAll(t, want, "SELECT type FROM pragma_table_info('"+x.name+"')") {
				row = append(row, map[driver.Value]driver.Value{"INTEGER": int64(1), "TEXT": "x", "BLOB": []byte{1}}[column[0]])
			}
			d := rowsInto(x, row)
			require.NoError(t, to.runStatement(&d.statement))
		}
		return nil
	}
	for columns, fill := range map[string]func(Target) error{"name": nothing, "name, type": oneRow} {
		small, err := new(Builder).Build(nil, fill)
		require.NoError(t, err)
		for _, data := range [][]byte{small, written(t, nil, fill)} {
			got := openBytes(t, data)
			for _, o := range objects {
				query := "SELECT " + columns + " FROM pragma_table_info('" + o.Name + "')"
				require.Equal(t, queryAll(t, want, query), queryAll(t, got, query))
			}
			require.NoError(t, got.Close())
		}
	}
}
