package runfile

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/pace"
)

// A draft is the content of a file in memory: the rows of its tables in the order of their keys. It does what SQLite
// would with the statements of this package. Tables are few and their rows mostly come in order, so that sorted
// slices are enough. An error leaves a draft in between: whoever has it drops it.
type draft struct {
	tables map[*table]*draftTable
	arena  []byte // of records; what is full is left to the rows that have slices of it
	bytes  int    // of all records that were added
}

type draftTable struct {
	// rows is sorted by key, no two alike. written is room for writeTo, which passes the rows on without their keys.
	rows    []*draftRow
	written []image.Row
}

type draftRow struct {
	key string // in the order of the keys in the table
	image.Row
}

// newDraft returns a draft in which each table has no rows.
func newDraft() *draft {
	d := &draft{tables: map[*table]*draftTable{}}
	for _, t := range allTables {
		d.tables[t] = &draftTable{}
	}
	return d
}

// clearRows makes the draft empty. It keeps the memory for the next file, but for what the rows refer to, which the
// garbage collector takes.
func (d *draft) clearRows() {
	for _, t := range d.tables {
		clear(t.rows)
		clear(t.written)
		t.rows, t.written = t.rows[:0], t.written[:0]
	}
	d.arena, d.bytes = d.arena[:0], 0
}

// loadImage adds all rows of a file. The rows are in the order of their keys in a file too, so that they need only be
// added at the end. Their records are shared with data.
func (d *draft) loadImage(data []byte) error {
	m, err := image.Open(data)
	if err != nil {
		return err
	}
	for _, t := range allTables {
		rows := d.tables[t]
		var columns []driver.Value
		err := m.Rows(t.name, image.Start{}, func(id int64, record []byte) (bool, error) {
			if columns, err = image.DecodeKey(columns[:0], record, t.keys); err != nil {
				return false, err
			}
			// The key of such a table is its rowid, which is not in the record.
			if t.keys == 0 {
				columns = append(columns, id)
			}
			d.bytes += len(record)
			rows.rows = append(rows.rows, &draftRow{keyOf(columns), image.Row{ID: id, Record: record}})
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// runStatement does what SQLite would.
func (d *draft) runStatement(s *statement) error {
	switch {
	// All keys of the scope begin with its group and branch.
	case s.delete == deleteScope:
		scope := keyOf(s.rows[0])
		d.tables[dataTable].deleteRange(scope, keyEnd(scope))
		return nil
	case s.delete == deleteBelow:
		d.deletePath(s.rows[0])
		return nil
	// addRow encodes the row before it returns, so that one slice serves for all.
	case s.count > 0:
		row := slices.Clone(s.rows[0])
		for i := range int64(s.count) {
			pace.Each(int(i))
			row[s.table.first] = s.rows[0][s.table.first].(int64) + i
			row[s.table.second] = s.rows[0][s.table.second].(int64) + i
			if err := d.addRow(s.table, row); err != nil {
				return err
			}
		}
		return nil
	}
	for i, row := range s.rows {
		pace.Each(i)
		if err := d.addRow(s.table, row); err != nil {
			return err
		}
	}
	return nil
}

// deletePath deletes the data at a path of a scope, and below it. What is below the path has keys of the same scope
// whose text begins with the path and a slash; "0" is the byte behind the slash. These keys do not all follow on that
// of the path itself: /a-b lies between /a and /a/b, and stays.
func (d *draft) deletePath(args []driver.Value) {
	data := d.tables[dataTable]
	path := args[2].(string)
	at := keyOf([]driver.Value{args[0], args[1], path})
	data.deleteRange(at, keyEnd(at))
	scope := keyOf(args[:2])
	data.deleteRange(scope+escapeText(path+"/"), scope+escapeText(path+"0"))
}

// addRow inserts a row by the rule of the table's verb. A table replaces its rows, or takes a second one with the
// same key for an error, or ignores it.
func (d *draft) addRow(t *table, columns []driver.Value) error {
	rows, n := d.tables[t], max(t.keys, 1)
	key := keyOf(columns[:n])
	i, found := rows.findKey(key)
	if found && t.verb != replace {
		// Two records or events with one number: the file would no longer say what happened.
		if t.verb == once {
			return fmt.Errorf("%s: a second row %v", t.name, columns[:n])
		}
		return nil
	}
	row := &draftRow{key: key}
	if t.keys == 0 {
		// SQLite keeps NULL in the record where the rowid is.
		row.ID = columns[0].(int64)
		columns = slices.Concat([]driver.Value{nil}, columns[1:])
	}
	// Most records fit into this; one that does not makes append allocate, which is as well.
	if cap(d.arena)-len(d.arena) < 512 {
		d.arena = make([]byte, 0, max(16<<10, 2*cap(d.arena)))
	}
	start := len(d.arena)
	d.arena = image.AppendRecord(d.arena, columns)
	// The slice ends where the record does, so that nobody appends into the next one.
	row.Record = d.arena[start:len(d.arena):len(d.arena)]
	// What was replaced or deleted is not taken off: bytes only choose the size of pages, and a little too much does
	// no harm.
	d.bytes += len(row.Record)
	if found {
		rows.rows[i] = row
	} else {
		rows.rows = slices.Insert(rows.rows, i, row)
	}
	return nil
}

// findKey returns where a row with a key is, or would be.
func (t *draftTable) findKey(key string) (int, bool) {
	if n := len(t.rows); n == 0 || t.rows[n-1].key < key {
		return n, false // rows mostly come in their order
	}
	return slices.BinarySearchFunc(t.rows, key, func(r *draftRow, key string) int { return strings.Compare(r.key, key) })
}

// deleteRange deletes the rows with keys from one on and before another. With it DELETE takes two searches, however
// many rows go.
func (t *draftTable) deleteRange(from, before string) {
	i, _ := t.findKey(from)
	j, _ := t.findKey(before)
	t.rows = slices.Delete(t.rows, i, j)
}

// keyOf returns a string that is ordered as the columns of a key are: integers by their size, texts by their bytes.
// The draft can so compare keys of any columns as strings. The sign of an integer is flipped, since its bytes would
// put negative ones behind the others; a text ends with the bytes 0 and 1, so that a text comes before those that it
// begins, whatever column follows.
func keyOf(columns []driver.Value) string {
	out := make([]byte, 0, 32)
	for _, v := range columns {
		switch v := v.(type) {
		case int64:
			out = binary.BigEndian.AppendUint64(out, uint64(v)^(1<<63))
		case string:
			out = append(append(out, escapeText(v)...), 0, 1)
		default:
			panic(fmt.Sprintf("runfile: a %T in a key", v))
		}
	}
	return string(out)
}

// escapeText leaves zero bytes for the end of a text. A zero byte in the text is followed by 0xff, which is more than
// the 1 at the end of one.
func escapeText(text string) string { return strings.ReplaceAll(text, "\x00", "\x00\xff") }

// keyEnd returns what comes behind all keys that begin with some columns: no column begins with that byte. A text is
// UTF-8, which has no byte 0xff, and no integer here is as large.
func keyEnd(key string) string { return key + "\xff" }

// Sizes of pages, and up to how many bytes of records a file has small ones.
const (
	// smallPage is for files with up to smallContent bytes of records, middlePage for those with up to maxSmall. A
	// file grows into the next size when it is written anew, and does not shrink back to it while its rows only
	// become more.
	smallPage    = 512
	middlePage   = 1024
	largePage    = 4096
	smallContent = 16 << 10
	maxSmall     = 256 << 10
)

// writeTo returns the file with the rows of the draft, which is good until w is used again. In a file with small
// pages a table without rows is a view. A database takes at least a page for each table, whatever is in it. With
// pages of 4,096 bytes, 12 tables would make a file of 48 KB of the few KB that most runs have; with small pages, on
// the other hand, large records are chains of many pages.
func (d *draft) writeTo(w *image.Writer, large bool) []byte {
	page := smallPage
	switch {
	case large || d.bytes > maxSmall:
		page = largePage
	case d.bytes > smallContent:
		page = middlePage
	}
	out := make([]image.Object, len(objects))
	for i := range objects {
		out[i] = objects[i].Object
		if objects[i].table == nil {
			continue
		}
		t := d.tables[objects[i].table]
		for _, r := range t.rows {
			t.written = append(t.written, r.Row)
		}
		out[i].Rows = t.written
		// Whoever queries the file with SQLite finds the columns all the same. SQLite will write to a file with large
		// pages, and needs tables.
		if len(t.rows) == 0 && page != largePage {
			out[i].Type, out[i].SQL = "view", objects[i].empty
		}
	}
	return w.Write(image.Header{ApplicationID: ID, UserVersion: Version}, page, out)
}
