package runfile

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/pace"
)

// A draft is the content of a file in memory: the rows of its tables in the order of their keys. It does what SQLite
// would with the statements of this package. Tables are few and their rows mostly come in order, so that sorted
// slices are enough. An error leaves a draft in between: whoever has it drops it.
type draft struct {
	tables map[*table]*draftTable
	row    rowWriter
	arena  []byte     // of records; what is full is left to the rows that have slices of it
	block  []draftRow // from which rows are taken
	bytes  int        // of all records that were added
}

type draftTable struct {
	// rows is sorted by key, no two alike. written is room for writeTo, which passes the rows on without their keys.
	rows    []*draftRow
	written []image.Row
}

type draftRow struct {
	key rowKey
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
		var columns []image.Value
		err := m.Rows(t.name, image.Start{}, func(id int64, record []byte) (bool, error) {
			if columns, err = image.DecodeKey(columns[:0], record, t.keys); err != nil {
				return false, err
			}
			// The key of such a table is its rowid, which is not in the record.
			if t.keys == 0 {
				columns = append(columns, image.Int(id))
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
	for _, r := range s.deleted {
		d.tables[s.table].deleteRange(r)
	}
	for i := range s.count {
		pace.Each(i)
		d.row.beginRow()
		s.put(&d.row, i)
		if err := d.addRow(s.table, d.row.columns); err != nil {
			return err
		}
	}
	return nil
}

// addRow inserts a row by the rule of the table's verb. A table replaces its rows, or takes a second one with the
// same key for an error, or ignores it.
func (d *draft) addRow(t *table, columns []image.Value) error {
	rows := d.tables[t]
	if len(d.block) == 0 {
		d.block = make([]draftRow, 32)
	}
	row := &d.block[0]
	row.key = keyOf(columns[:max(t.keys, 1)])
	i, found := rows.findKey(&row.key)
	if found && t.verb != replace {
		if t.verb == once {
			return errTwice(t, &row.key)
		}
		return nil
	}
	if t.keys == 0 {
		// SQLite keeps NULL in the record where the rowid is.
		row.ID, columns[0] = row.key.a, image.Value{}
	}
	// Most records fit into this; one that does not makes append allocate, which is as well.
	if cap(d.arena)-len(d.arena) < 512 {
		d.arena = make([]byte, 0, max(16<<10, 2*cap(d.arena)))
	}
	start := len(d.arena)
	d.arena = image.AppendRecord(d.arena, columns)
	// The slice ends where the record does, so that nobody appends into the next one.
	row.Record = d.arena[start:len(d.arena):len(d.arena)]
	// Replaced or deleted rows are not taken off: bytes only choose the size of pages, and a little too much does no
	// harm.
	d.bytes += len(row.Record)
	d.block = d.block[1:]
	if found {
		rows.rows[i] = row
	} else {
		rows.rows = slices.Insert(rows.rows, i, row)
	}
	return nil
}

// errTwice says that two records or events have one number: the file would no longer say what happened.
func errTwice(t *table, key *rowKey) error { return fmt.Errorf("%s: a second row %d", t.name, key.a) }

// findKey returns where a row with a key is, or would be.
func (t *draftTable) findKey(key *rowKey) (int, bool) {
	if n := len(t.rows); n == 0 || t.rows[n-1].key.compare(key) < 0 {
		return n, false // rows mostly come in their order
	}
	return slices.BinarySearchFunc(t.rows, key, func(r *draftRow, key *rowKey) int { return r.key.compare(key) })
}

// deleteRange deletes the rows of a range. With it DELETE takes two searches, however many rows go.
func (t *draftTable) deleteRange(r keyRange) {
	i, _ := t.findKey(&r.from)
	j, _ := t.findKey(&r.before)
	t.rows = slices.Delete(t.rows, i, j)
}

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

// writeTo returns the file with the rows of the draft, which is good until w is used again. With pages of 4,096 bytes
// 12 tables would make a file of 48 KB of the few KB that most runs have; with small pages, on the other hand, large
// records are chains of many pages.
func (d *draft) writeTo(w *image.Writer) []byte {
	page := smallPage
	switch {
	case d.bytes > maxSmall:
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
	}
	return w.Write(image.Header{ApplicationID: ID, UserVersion: Version}, page, out)
}
