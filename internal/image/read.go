package image

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"

	"github.com/pawl-run/pawl/internal/pace"
)

// An Image is a database that is read. Any number of goroutines may use it.
type Image struct {
	data  []byte      // all of it, or
	file  io.ReaderAt // where it is read from
	size  int64
	page  int
	trees []tree
}

// A tree is a table by its name.
type tree struct {
	name string
	root uint32 // 0 for a view
}

// Open returns the database that data holds, which must not change any more. It fails
// with ErrMalformed if its schema cannot be read; what else is damaged is found when it is
// read.
func Open(data []byte) (*Image, error) {
	return openImage(&Image{data: data, size: int64(len(data))}, data)
}

// OpenAt returns the database in a file of some size. No more than a few of its pages are in memory while it is
// read. It fails like [Open], or with the error of the file.
func OpenAt(file io.ReaderAt, size int64) (*Image, error) {
	head := make([]byte, min(size, fileHeader))
	if err := readFull(file, head, 0); err != nil {
		return nil, err
	}
	return openImage(&Image{file: file, size: size}, head)
}

// openImage reads the header and the schema.
func openImage(m *Image, head []byte) (*Image, error) {
	if len(head) < fileHeader || !bytes.HasPrefix(head, []byte("SQLite format 3\x00")) {
		return nil, malformed("no header")
	}
	m.page = int(binary.BigEndian.Uint16(head[16:]))
	if m.page == 1 {
		m.page = 1 << 16
	}
	if m.page < 512 || m.page&(m.page-1) != 0 || head[20] != 0 || binary.BigEndian.Uint32(head[56:]) > 1 {
		return nil, malformed("pages or texts of another kind")
	}
	var columns []Value
	err := m.eachCell(1, Start{}, func(_ int64, record []byte) (bool, error) {
		var err error
		if columns, err = DecodeKey(columns[:0], record, 4); err != nil {
			return false, err
		}
		if len(columns) < 4 {
			return false, malformed("a schema without roots")
		}
		m.trees = append(m.trees, tree{strings.Clone(columns[1].String()), uint32(columns[3].Int64())})
		return true, nil
	})
	return m, err
}

// PageSize returns the size of a page.
func (m *Image) PageSize() int { return m.page }

// A Start says where in a table to begin. The zero value is its first row.
type Start struct {
	From int64  // the smallest rowid; none is negative
	Text string // in a table without rowids of two columns: the smallest text in the first; "" for any
}

// Rows calls row with the rows of a table in the order of their keys until it says false, with
// the rowid, if the table has them, and the record. That is part of the image or of memory of its own; of a database
// in a file it is good until row returns. A view has no rows.
func (m *Image) Rows(table string, from Start, row func(id int64, record []byte) (more bool, err error)) error {
	for _, t := range m.trees {
		if t.name != table {
			continue
		}
		if t.root == 0 {
			return nil
		}
		return m.eachCell(t.root, from, row)
	}
	return malformed("no table %s", table)
}

// A walk goes through the pages of a tree.
type walk struct {
	*Image
	from  Start
	row   func(int64, []byte) (bool, error)
	pacer pace.Pacer
	left  int64 // pages that it may still visit: each is once, or twice where the start of a record is looked at first
	pages pageCache
}

func (m *Image) eachCell(root uint32, from Start, row func(int64, []byte) (bool, error)) error {
	w := walk{Image: m, from: from, row: row, left: 2 * (m.size / int64(m.page))}
	_, err := w.visitPage(root, 0)
	return err
}

// maxDepth is more than the levels of any tree.
const maxDepth = 40

// visitPage goes through a page and those below it, and reports whether to go on.
func (w *walk) visitPage(number uint32, depth int) (bool, error) {
	page, err := w.treePage(number, depth)
	if w.left--; w.left < 0 || depth > maxDepth {
		return false, malformed("a tree of pages that meet again")
	}
	if err != nil {
		return false, err
	}
	at, header := 0, leafHeader
	if number == 1 {
		at = fileHeader
	}
	kind, cells := page[at], int(binary.BigEndian.Uint16(page[at+3:]))
	if kind == interiorTable || kind == interiorIndex {
		header = interiorHeader
	} else if kind != leafTable && kind != leafIndex {
		return false, malformed("page %d of kind %d", number, kind)
	}
	if at+header+pointerBytes*cells > len(page) {
		return false, malformed("page %d with %d cells", number, cells)
	}
	for i := range cells {
		offset := int(binary.BigEndian.Uint16(page[at+header+pointerBytes*i:]))
		if offset >= len(page) {
			return false, malformed("a cell outside of page %d", number)
		}
		if more, err := w.visitCell(kind, page[offset:], depth); err != nil || !more {
			return false, err
		}
	}
	if header == interiorHeader {
		return w.visitPage(binary.BigEndian.Uint32(page[at+8:]), depth+1)
	}
	return true, nil
}

// visitCell goes through what is below a cell, and the row in it.
func (w *walk) visitCell(kind byte, cell []byte, depth int) (bool, error) {
	w.pacer.Spend(2)
	child, size, id := uint32(0), uint64(0), int64(0)
	if kind == interiorTable || kind == interiorIndex {
		if len(cell) < childBytes {
			return false, malformed("a cell that is cut short")
		}
		child, cell = binary.BigEndian.Uint32(cell), cell[childBytes:]
	}
	if kind != interiorTable {
		var n int
		if size, n = readVarint(cell); n == 0 {
			return false, malformed("a cell that is cut short")
		}
		cell = cell[n:]
	}
	if kind == interiorTable || kind == leafTable {
		v, n := readVarint(cell)
		if n == 0 {
			return false, malformed("a cell that is cut short")
		}
		id, cell = int64(v), cell[n:]
		if id < w.from.From {
			return true, nil
		}
	}
	record, isBefore, err := w.takeRecord(kind, cell, size)
	if err != nil || isBefore {
		return err == nil, err
	}
	if child != 0 {
		if more, err := w.visitPage(child, depth+1); err != nil || !more {
			return false, err
		}
	}
	if kind == interiorTable {
		return true, nil
	}
	return w.row(id, record)
}

// takeRecord returns the record of a cell, if it has one, and reports whether that lies before
// the row to begin with: so does then everything below the cell.
func (w *walk) takeRecord(kind byte, cell []byte, size uint64) (record []byte, isBefore bool, err error) {
	if kind == interiorTable {
		return nil, false, nil
	}
	w.pages.above = kind == interiorIndex
	most := maxLocalTable(w.page)
	if kind != leafTable {
		most = maxLocalIndex(w.page)
	}
	if kind != leafTable && w.from.Text != "" {
		start, err := w.payloadOf(cell, size, most, len(w.from.Text)+2*9)
		if err != nil {
			return nil, false, err
		}
		if isBefore, err := isTextBefore(start, w.from.Text); err != nil || isBefore {
			return nil, isBefore, err
		}
	}
	record, err = w.payloadOf(cell, size, most, int(w.size))
	return record, false, err
}

// isTextBefore reports whether the first column of a record that begins with start is a text before another.
func isTextBefore(start []byte, text string) (bool, error) {
	head, at := readVarint(start)
	if at == 0 || head > uint64(len(start)) || at >= len(start) {
		return false, malformed("a record without a header")
	}
	serial, n := readVarint(start[at:])
	if n == 0 || serial < serialText || serial%2 != serialText%2 {
		return false, malformed("a key of type %d", serial)
	}
	have := start[head:]
	have = have[:min(uint64(len(have)), (serial-serialText)/2)]
	return string(have) < text, nil
}

// payloadOf returns a record of some size, or, if it goes on behind the cell, at least so
// many bytes of it.
func (w *walk) payloadOf(cell []byte, size uint64, most, enough int) ([]byte, error) {
	if size > uint64(w.size) {
		return nil, malformed("a record of %d bytes", size)
	}
	n := int(size)
	local := localBytes(n, most, w.page)
	if local > len(cell) {
		return nil, malformed("a record that is cut short")
	}
	if local == n || local >= enough {
		return cell[:local], nil
	}
	if len(cell) < local+4 {
		return nil, malformed("a record that is cut short")
	}
	out := append(w.payloadRoom(min(n, enough+w.page)), cell[:local]...)
	for number := binary.BigEndian.Uint32(cell[local:]); len(out) < n && len(out) < enough; {
		w.pacer.Spend(5)
		if w.left--; w.left < 0 {
			return nil, malformed("records with pages that meet again")
		}
		page, err := w.takePage(number)
		if err != nil {
			return nil, err
		}
		out = append(out, page[4:min(len(page), 4+n-len(out))]...)
		number = binary.BigEndian.Uint32(page)
	}
	return out, nil
}
