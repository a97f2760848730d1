package image_test

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

var header = image.Header{ApplicationID: 7, UserVersion: 9}

const (
	numberedSQL = `CREATE TABLE numbered (id INTEGER PRIMARY KEY, a, b) STRICT`
	keyedSQL    = `CREATE TABLE keyed (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID`
	viewSQL     = `CREATE VIEW two (a, b) AS SELECT id, a FROM numbered`
)

// A content is what a database has in it, by the keys.
type content struct {
	numbered [][]driver.Value
	keyed    [][]driver.Value
}

func drawContent(t *rapid.T) (c content) {
	number := rapid.OneOf(rapid.Int64Range(-2, 300), rapid.Int64())
	length := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 600), rapid.IntRange(0, 9000))
	value := rapid.Custom(func(t *rapid.T) driver.Value {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return number.Draw(t, "number")
		case 2:
			return strings.Repeat("x", length.Draw(t, "length"))
		}
		return bytes.Repeat([]byte{1}, 1+length.Draw(t, "length"))
	})
	ids := rapid.SliceOfNDistinct(rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Min(0)), 0, 300, rapid.ID).Draw(t, "ids")
	slices.Sort(ids)
	for _, id := range ids {
		c.numbered = append(c.numbered, []driver.Value{id, value.Draw(t, "a"), value.Draw(t, "b")})
	}
	keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,5}([x]{50}|[y]{300})?`), 0, 200, rapid.ID).Draw(t, "keys")
	slices.Sort(keys)
	for _, key := range keys {
		c.keyed = append(c.keyed, []driver.Value{key, strings.Repeat("v", length.Draw(t, "length"))})
	}
	return c
}

// rows returns the rows of both tables.
func (c content) rows() (numbered, keyed []image.Row) {
	for _, r := range c.numbered {
		numbered = append(numbered, image.Row{ID: r[0].(int64), Record: recordOf(nil, r[1], r[2])})
	}
	for _, r := range c.keyed {
		keyed = append(keyed, image.Row{Record: recordOf(r...)})
	}
	return numbered, keyed
}

func recordOf(columns ...driver.Value) []byte {
	var values []image.Value
	for _, v := range columns {
		switch v := v.(type) {
		case nil:
			values = append(values, image.Value{})
		case int64:
			values = append(values, image.Int(v))
		case string:
			values = append(values, image.Text(v))
		case []byte:
			values = append(values, image.Blob(v))
		}
	}
	return image.AppendRecord(nil, values)
}

// objects returns the schema, and the rows in it.
func (c content) objects() []image.Object {
	numbered, keyed := c.rows()
	return []image.Object{
		{Type: "table", Name: "numbered", SQL: strings.Replace(numberedSQL, "STRICT", "", 1), Rows: numbered},
		{Type: "view", Name: "two", SQL: viewSQL},
		{Type: "table", Name: "keyed", SQL: keyedSQL, Keyed: true, Rows: keyed},
	}
}

// bytesOf returns the database of a content.
func (c content) bytesOf(page int) []byte {
	return new(image.Writer).Write(header, page, c.objects())
}

// streamed returns the same, written row by row.
func (c content) streamed(t require.TestingT, page int) []byte {
	var file memoryFile
	s := image.NewStream(&file, page)
	for _, o := range c.objects() {
		require.NoError(t, s.WriteObject(&o, func(to *image.TableWriter) error {
			for _, r := range o.Rows {
				if err := to.Add(r.ID, r.Record); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	require.NoError(t, s.Finish(header))
	return file
}

// A memoryFile is a file in memory.
type memoryFile []byte

func (f *memoryFile) WriteAt(b []byte, at int64) (int, error) {
	if more := int(at) + len(b) - len(*f); more > 0 {
		*f = append(*f, make([]byte, more)...)
	}
	return copy((*f)[at:], b), nil
}

// readBack returns the rows of a table, from some row on, whether they are read from memory or from a file.
func readBack(t require.TestingT, data []byte, table string, from image.Start) (out [][]driver.Value) {
	m, err := image.Open(data)
	require.NoError(t, err)
	out = rowsOf(t, m, table, from)
	m, err = image.OpenAt(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, out, rowsOf(t, m, table, from))
	return out
}

func rowsOf(t require.TestingT, m *image.Image, table string, from image.Start) (out [][]driver.Value) {
	err := m.Rows(table, from, func(id int64, record []byte) (bool, error) {
		row, err := image.DecodeRecord(nil, record)
		if table == "numbered" {
			row[0] = id
		}
		out = append(out, row)
		return true, err
	})
	require.NoError(t, err)
	return out
}

func openBytes(t require.TestingT, data []byte) *sqlite.Conn {
	c, err := sqlite.Open(sqlite.Memory, `PRAGMA cell_size_check=ON`)
	require.NoError(t, err)
	require.NoError(t, c.Deserialize(data))
	return c
}

func allRows(t require.TestingT, c *sqlite.Conn, query string) (out [][]driver.Value) {
	require.NoError(t, c.Each(query, func(r *sqlite.Row) error { out = append(out, slices.Clone(r.Values())); return nil }))
	return out
}

// A written database is in order, for SQLite and for us, and can be read after SQLite has
// changed it.
func TestSQLiteReadsWhatIsWritten(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		c := drawContent(t)
		page := rapid.SampledFrom([]int{512, 1024, 4096, 32768}).Draw(t, "page")
		data := c.bytesOf(page)
		if rapid.Bool().Draw(t, "streamed") {
			data = c.streamed(t, page)
		}
		db := openBytes(t, data)
		defer func() { require.NoError(t, db.Close()) }()
		require.Equal(t, [][]driver.Value{{"ok"}}, allRows(t, db, `PRAGMA integrity_check`))
		require.Equal(t, [][]driver.Value{{int64(7)}}, allRows(t, db, `PRAGMA application_id`))
		require.Equal(t, [][]driver.Value{{int64(9)}}, allRows(t, db, `PRAGMA user_version`))
		require.Equal(t, c.numbered, allRows(t, db, `SELECT * FROM numbered ORDER BY id`))
		require.Equal(t, c.keyed, allRows(t, db, `SELECT * FROM keyed ORDER BY key`))
		require.Equal(t, [][]driver.Value{{int64(len(c.numbered))}}, allRows(t, db, `SELECT count(*) FROM two`))
		require.Equal(t, c.numbered, readBack(t, data, "numbered", image.Start{}))
		require.Equal(t, c.keyed, readBack(t, data, "keyed", image.Start{}))
		require.Empty(t, readBack(t, data, "two", image.Start{}))

		for i := range rapid.IntRange(0, 50).Draw(t, "changes") {
			text := []string{
				`INSERT OR REPLACE INTO numbered VALUES (%d, 'n', zeroblob(700))`, `DELETE FROM numbered WHERE id %% 7 = %d`,
				`INSERT OR REPLACE INTO keyed VALUES ('b%d', hex(zeroblob(400)))`, `UPDATE keyed SET value = '%d' WHERE key < 'b'`,
			}[i%4]
			_, err := db.Exec(fmt.Sprintf(text, i))
			require.NoError(t, err)
		}
		changed, err := db.Serialize()
		require.NoError(t, err)
		require.Equal(t, allRows(t, db, `SELECT * FROM numbered ORDER BY id`), readBack(t, changed, "numbered", image.Start{}))
		require.Equal(t, allRows(t, db, `SELECT * FROM keyed ORDER BY key`), readBack(t, changed, "keyed", image.Start{}))
	})
}

func TestRowsBeginWhereToldTo(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		c := drawContent(t)
		data := c.bytesOf(512)
		from := rapid.Int64Range(0, 1200).Draw(t, "from")
		at := slices.IndexFunc(c.numbered, func(r []driver.Value) bool { return r[0].(int64) >= from })
		if at < 0 {
			at = len(c.numbered)
		}
		require.Equal(t, append([][]driver.Value(nil), c.numbered[at:]...), readBack(t, data, "numbered", image.Start{From: from}))
		text := rapid.StringMatching(`[a-d]{1,6}`).Draw(t, "text")
		at = slices.IndexFunc(c.keyed, func(r []driver.Value) bool { return r[0].(string) >= text })
		if at < 0 {
			at = len(c.keyed)
		}
		require.Equal(t, append([][]driver.Value(nil), c.keyed[at:]...), readBack(t, data, "keyed", image.Start{Text: text}))
	})
}

// FuzzImage reads any bytes: it neither panics nor hangs.
func FuzzImage(f *testing.F) {
	c := content{keyed: [][]driver.Value{{"a", strings.Repeat("v", 2000)}, {"b", "w"}}}
	for i := range int64(40) {
		c.numbered = append(c.numbered, []driver.Value{i * i * i, "text", strings.Repeat("x", int(i))})
	}
	f.Add(c.bytesOf(512))
	f.Add(c.bytesOf(1024))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := image.Open(data)
		inFile, failed := image.OpenAt(bytes.NewReader(data), int64(len(data)))
		require.Equal(t, err == nil, failed == nil)
		if err != nil {
			return
		}
		for _, table := range []string{"numbered", "keyed", "two"} {
			for _, from := range []image.Start{{}, {From: 100}, {Text: "b"}} {
				var row []driver.Value
				read := func(m *image.Image) (rows int, err error) {
					err = m.Rows(table, from, func(_ int64, record []byte) (bool, error) {
						var err error
						row, err = image.DecodeRecord(row[:0], record)
						rows++
						return true, err
					})
					return rows, err
				}
				rows, err := read(m)
				again, failed := read(inFile)
				require.Equal(t, rows, again)
				require.Equal(t, err, failed)
			}
		}
	})
}
