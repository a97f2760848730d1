package image_test

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/image"
)

// However many rows come, the last page of each level is one that SQLite takes: none is empty, or has one child.
func TestStreamsOfEveryLength(t *testing.T) {
	for n := 0; n < 700; n += 1 + n/50 {
		var c content
		for i := range n {
			c.numbered = append(c.numbered, []driver.Value{int64(i), strings.Repeat("x", 100), nil})
			c.keyed = append(c.keyed, []driver.Value{fmt.Sprintf("%06d%s", i, strings.Repeat("k", 80)), "value"})
		}
		data := c.streamed(t, 512)
		db := openBytes(t, data)
		require.Equal(t, [][]driver.Value{{"ok"}}, allRows(t, db, `PRAGMA integrity_check`), n)
		require.Equal(t, c.numbered, allRows(t, db, `SELECT * FROM numbered ORDER BY id`))
		require.Equal(t, c.keyed, allRows(t, db, `SELECT * FROM keyed ORDER BY key`))
		require.NoError(t, db.Close())
		require.Equal(t, c.keyed, readBack(t, data, "keyed", image.Start{}))
	}
}

// A schema that takes more than the first page is written like any other table.
func TestAStreamWithALongSchema(t *testing.T) {
	for _, tables := range []int{1, 2, 5, 40} {
		var file memoryFile
		s := image.NewStream(&file, 512)
		for i := range tables {
			o := image.Object{Type: "table", Name: fmt.Sprint("t", i), SQL: fmt.Sprintf("CREATE TABLE t%d (%s)", i, strings.Repeat("a", 50*i+1))}
			require.NoError(t, s.WriteObject(&o, func(to *image.TableWriter) error { return to.Add(1, recordOf("x")) }))
		}
		require.NoError(t, s.Finish(header))
		db := openBytes(t, file)
		require.Equal(t, [][]driver.Value{{"ok"}}, allRows(t, db, `PRAGMA integrity_check`), tables)
		require.Equal(t, [][]driver.Value{{"x"}}, allRows(t, db, fmt.Sprintf(`SELECT * FROM t%d`, tables-1)))
		require.NoError(t, db.Close())
	}
}

// errFull is what a disk says that has no room.
var errFull = errors.New("no space left")

// A fullDisk takes so many bytes.
type fullDisk struct {
	memoryFile
	room int
}

func (f *fullDisk) WriteAt(b []byte, at int64) (int, error) {
	if int(at)+len(b) > f.room {
		return 0, errFull
	}
	return f.memoryFile.WriteAt(b, at)
}

// Where the disk is full the stream says so, wherever that is.
func TestAStreamToAFullDisk(t *testing.T) {
	for room := 0; ; room += 30_000 {
		to := &fullDisk{room: room}
		s := image.NewStream(to, 512)
		err := s.WriteObject(&image.Object{Type: "table", Name: "keyed", SQL: keyedSQL, Keyed: true}, func(to *image.TableWriter) error {
			for i := range 2000 {
				if err := to.Add(0, recordOf(fmt.Sprintf("%06d", i), strings.Repeat("v", i))); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = s.Finish(header)
		}
		if err == nil {
			require.Len(t, readBack(t, to.memoryFile, "keyed", image.Start{}), 2000)
			return
		}
		require.ErrorIs(t, err, errFull)
	}
}

// A file that ends before its size, or is not a database, is refused as such.
func TestAFileThatIsCutShort(t *testing.T) {
	c := content{numbered: [][]driver.Value{{int64(1), strings.Repeat("x", 5000), nil}}}
	data := c.bytesOf(512)
	for _, size := range []int{0, 50, 512, len(data) - 512} {
		m, err := image.OpenAt(bytes.NewReader(data[:size]), int64(len(data)))
		if err == nil {
			err = m.Rows("numbered", image.Start{}, func(int64, []byte) (bool, error) { return true, nil })
		}
		require.Error(t, err, size)
	}
	_, err := image.OpenAt(bytes.NewReader(data), 50)
	require.ErrorIs(t, err, image.ErrMalformed)
}
