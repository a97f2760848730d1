package image

import (
	"encoding/binary"

	"github.com/pawl-run/pawl/internal/pace"
)

// Sizes of the parts of a page. See section 1.6 of "Database File Format".
const (
	fileHeader     = 100
	leafHeader     = 8
	interiorHeader = 12
	pointerBytes   = 2
	childBytes     = 4
)

// Kinds of pages.
const (
	interiorIndex = 2
	interiorTable = 5
	leafIndex     = 10
	leafTable     = 13
)

// writtenBy is the version of SQLite whose format this is: 3.37.0, the first that has
// STRICT tables.
const writtenBy = 3_037_000

// A Header has what programs tell a file by.
type Header struct {
	ApplicationID uint32
	UserVersion   uint32
}

// An Object is a table or view of a database.
type Object struct {
	Type  string // table or view
	Name  string
	SQL   string // that creates it, as SQLite keeps it: without the semicolon
	Empty string // that creates a view in place of the table if it has no rows; "" for none
	Keyed bool   // a table WITHOUT ROWID
	Rows  []Row  // of a table, in the order of their keys, no two of them with the same
}

// appendSchema appends the record of the object in the schema. A view has the root 0, and so has what stands in for a
// table without rows.
func (o *Object) appendSchema(dst []byte, root uint32) []byte {
	kind, text := o.Type, o.SQL
	if o.Empty != "" && root == 0 {
		kind, text = "view", o.Empty
	}
	return AppendRecord(dst, []Value{Text(kind), Text(o.Name), Text(o.Name), Int(int64(root)), Text(text)})
}

// A Row is a row of a table.
type Row struct {
	ID     int64  // the rowid, if the table has them
	Record []byte // see [AppendRecord]; the columns of the key come first if the table is Keyed
}

// A Writer writes databases, one after the other, into memory that it keeps. The zero value is
// ready.
type Writer struct {
	data   []byte
	size   int    // of a page
	arena  []byte // of cells; what is full is left to those who have slices of it
	cells  [][]byte
	schema []Row
	record []byte // of the schema
	pacer  pace.Pacer
}

// Write returns the bytes of a database with pages of some size, a power of two
// from 512 to 32,768. They are good until the next Write.
func (w *Writer) Write(h Header, page int, objects []Object) []byte {
	w.data, w.size, w.arena, w.schema, w.record = w.data[:0], page, w.arena[:0], w.schema[:0], w.record[:0]
	w.addPage() // of the schema, which names the roots of the others
	for i := range objects {
		o := &objects[i]
		root := uint32(0)
		switch {
		case o.Type != "table", o.Empty != "" && len(o.Rows) == 0:
		case o.Keyed:
			root = w.writeKeyed(o.Rows)
		default:
			root = w.writeTable(o.Rows, 0)
		}
		start := len(w.record)
		w.record = o.appendSchema(w.record, root)
		w.schema = append(w.schema, Row{ID: int64(i + 1), Record: w.record[start:]})
	}
	w.writeTable(w.schema, 1)
	putHeader(w.data, h, page, uint32(len(w.data)/page))
	return w.data
}

// addPage appends an empty page and returns its number, from 1.
func (w *Writer) addPage() uint32 {
	if cap(w.data)-len(w.data) < w.size {
		w.data = pace.Grow(w.data, max(16<<10, w.size, len(w.data)))
	}
	w.data = w.data[:len(w.data)+w.size]
	clear(w.data[len(w.data)-w.size:])
	return uint32(len(w.data) / w.size)
}

func (w *Writer) pageAt(number uint32) []byte {
	end := int(number) * w.size
	return w.data[end-w.size : end]
}

// putHeader puts the header of a file with so many pages into the first of them.
func putHeader(b []byte, h Header, size int, pages uint32) {
	copy(b, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(b[16:], uint16(size))
	b[18], b[19] = 1, 1                   // no write-ahead log
	b[21], b[22], b[23] = 64, 32, 32      // as the format has it
	binary.BigEndian.PutUint32(b[24:], 1) // changes
	binary.BigEndian.PutUint32(b[28:], pages)
	binary.BigEndian.PutUint32(b[40:], 1) // changes of the schema
	binary.BigEndian.PutUint32(b[44:], 4) // its format
	binary.BigEndian.PutUint32(b[56:], 1) // UTF-8
	binary.BigEndian.PutUint32(b[60:], h.UserVersion)
	binary.BigEndian.PutUint32(b[68:], h.ApplicationID)
	binary.BigEndian.PutUint32(b[92:], 1) // changes for which the version is
	binary.BigEndian.PutUint32(b[96:], writtenBy)
}

// roomIn returns how many bytes of cells and their pointers a page holds.
func (w *Writer) roomIn(number uint32, header int) int {
	if number == 1 {
		return w.size - fileHeader - header
	}
	return w.size - header
}

// writeCells fills a page. right is the last child of an interior one.
func (w *Writer) writeCells(number uint32, kind byte, cells [][]byte, right uint32) {
	page, at, header := w.pageAt(number), 0, leafHeader
	if number == 1 {
		at = fileHeader
	}
	if kind == interiorTable || kind == interiorIndex {
		header = interiorHeader
		binary.BigEndian.PutUint32(page[at+8:], right)
	}
	page[at] = kind
	binary.BigEndian.PutUint16(page[at+3:], uint16(len(cells)))
	pointers, end := page[at+header:], len(page)
	for i, c := range cells {
		end -= len(c)
		copy(page[end:], c)
		binary.BigEndian.PutUint16(pointers[pointerBytes*i:], uint16(end))
	}
	binary.BigEndian.PutUint16(page[at+5:], uint16(end))
}

// newCell returns room for a cell, to append to.
func (w *Writer) newCell(size int) []byte {
	if cap(w.arena)-len(w.arena) < size {
		w.arena = make([]byte, 0, max(size, 2*cap(w.arena), 16<<10))
	}
	start := len(w.arena)
	w.arena = w.arena[:start+size]
	return w.arena[start : start : start+size]
}

// cellOverhead is how many bytes a cell has at most beside those of its row: the length,
// the rowid, a child and the number of the page on which the row goes on.
const cellOverhead = 9 + 9 + childBytes + 4

// appendPayload appends the part of a record that stands in the cell, and moves the
// rest to pages of its own.
func (w *Writer) appendPayload(cell, record []byte, most int) []byte {
	local := localBytes(len(record), most, w.size)
	cell = append(cell, record[:local]...)
	if local == len(record) {
		return cell
	}
	rest := record[local:]
	number := w.addPage()
	cell = binary.BigEndian.AppendUint32(cell, number)
	for {
		page := w.pageAt(number)
		n := copy(page[4:], rest)
		if rest = rest[n:]; len(rest) == 0 {
			return cell
		}
		w.pacer.Spend(1)
		next := w.addPage()
		binary.BigEndian.PutUint32(w.pageAt(number), next)
		number = next
	}
}

// localBytes returns how much of a record of n bytes stands in its cell, where at most so
// many may.
func localBytes(n, most, page int) int {
	if n <= most {
		return n
	}
	least := (page-12)*32/255 - 23
	if local := least + (n-least)%(page-4); local <= most {
		return local
	}
	return least
}

// maxLocalTable and maxLocalIndex return how much of a record stands in a cell at most.
func maxLocalTable(page int) int { return page - 35 }
func maxLocalIndex(page int) int { return (page-12)*64/255 - 23 }
