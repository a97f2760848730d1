package runfile

import (
	"database/sql/driver"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/harness"
	"github.com/pawl-run/pawl/internal/sqlite"
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

// drawStatement draws a statement as fileStatements makes them.
func drawStatement(t *rapid.T) statement {
	small := func(name string) int64 { return rapid.Int64Range(0, 3).Draw(t, name) }
	path := func() string {
		return rapid.SampledFrom([]string{"", "/a", "/a/b", "/a0", "/a\x00", "/ab", "/b"}).Draw(t, "path")
	}
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return statement{delete: deleteScope, rows: [][]driver.Value{{small("group"), small("branch")}}}
	case 1:
		p := path()
		return statement{delete: deleteBelow, rows: [][]driver.Value{{small("group"), small("branch"), p, p + "/", p + "0"}}}
	case 2:
		return statement{table: branchesTable, count: rapid.IntRange(1, 40).Draw(t, "count"), rows: [][]driver.Value{{small("group"), small("first"), "s", nil}}}
	case 3:
		return statement{table: valsTable, rows: [][]driver.Value{{rapid.StringMatching(`[ab]{1,3}`).Draw(t, "hash"), rapid.StringN(0, 3000, -1).Draw(t, "value")}}}
	case 4:
		return statement{table: stepsTable, rows: [][]driver.Value{{rapid.StringMatching(`[ab\x00]{0,3}`).Draw(t, "node"), small("phase"), small("resolved"), int64(-5)}}}
	case 5:
		return statement{table: signalsTable, rows: [][]driver.Value{{small("seq"), "name", "", nil, rapid.Int64().Draw(t, "due"), small("done") % 2}}}
	}
	var rows [][]driver.Value
	for range rapid.IntRange(1, 12).Draw(t, "rows") {
		rows = append(rows, []driver.Value{small("group"), small("branch"), path(), small("index") - 1, rapid.SampledFrom([]string{"1", "null"}).Draw(t, "value")})
	}
	return statement{table: dataTable, rows: rows}
}

// A file that is made here has what SQLite would have put into it, and is read the same,
// whoever reads.
func TestADraftDoesWhatSQLiteDoes(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		db := openBytes(t, New())
		defer func() { require.NoError(t, db.Close()) }()
		var data []byte
		var b Builder
		for range rapid.IntRange(1, 3).Draw(t, "builds") {
			statements := rapid.SliceOfN(rapid.Custom(drawStatement), 0, 30).Draw(t, "statements")
			var err error
			data, err = b.Build(slices.Clone(data), func(to Target) error {
				for i := range statements {
					if err := to.runStatement(&statements[i]); err != nil {
						return err
					}
					require.NoError(t, InDatabase(db).runStatement(&statements[i]))
				}
				return nil
			})
			require.NoError(t, err)
		}
		large, err := Enlarge(data)
		require.NoError(t, err)
		for _, made := range [][]byte{data, large} {
			got := openBytes(t, made)
			require.Equal(t, [][]driver.Value{{"ok"}}, queryAll(t, got, `PRAGMA integrity_check`))
			for _, x := range allTables {
				want := queryAll(t, db, "SELECT * FROM "+x.name+" ORDER BY "+x.key)
				require.Equal(t, want, queryAll(t, got, "SELECT * FROM "+x.name+" ORDER BY "+x.key), x.name)
				file, err := Open(made)
				require.NoError(t, err)
				var read [][]driver.Value
				require.NoError(t, file.eachRow(selection{table: x}, func(r *rowReader) { read = append(read, slices.Clone(r.Values())) }))
				require.Equal(t, want, read, x.name)
			}
			require.NoError(t, got.Close())
		}
	})
}

// A draft refuses a second row where SQLite would.
func TestADraftRefusesASecondRecord(t *testing.T) {
	row := []driver.Value{int64(1), int64(0), "1", int64(1), "{}", "[]", []byte{1}}
	_, err := new(Builder).Build(nil, func(to Target) error {
		return to.runStatement(&statement{table: journalTable, rows: [][]driver.Value{row, row}})
	})
	require.ErrorContains(t, err, "journal: a second row [1]")
}

// The schema is the one of file.sql, and views that stand in for empty tables have the
// columns of those.
func TestTheSchemaIsThatOfTheFile(t *testing.T) {
	want, err := sqlite.OpenMemory(fileSchema, largePage, ID, Version)
	require.NoError(t, err)
	defer func() { require.NoError(t, want.Close()) }()
	small, err := new(Builder).Build(nil, func(Target) error { return nil })
	require.NoError(t, err)
	for _, data := range [][]byte{New(), small} {
		got := openBytes(t, data)
		for _, o := range objects {
			query := "SELECT name, type FROM pragma_table_info('" + o.Name + "')"
			if len(data) == len(small) {
				query = "SELECT name FROM pragma_table_info('" + o.Name + "')"
			}
			require.Equal(t, queryAll(t, want, query), queryAll(t, got, query))
		}
		require.NoError(t, got.Close())
	}
	require.Len(t, objects, len(allTables)+1)
}
