package sqlite

import "encoding/binary"

// A LeafRow is a row that lies on a page, as far as the page tells without its schema.
type LeafRow struct {
	Key     int64 // the rowid
	Columns int   // of the record
}

// LeafRows returns the rows on a page, which is not the first, that is a leaf of a table
// with rowids; of other pages nothing, and of a damaged one what can be read. See section
// 1.6 of SQLite's "Database File Format".
func LeafRows(page []byte) (rows []LeafRow) {
	const leafOfTable, header = 0x0d, 8
	if len(page) < header || page[0] != leafOfTable {
		return nil
	}
	cells := int(binary.BigEndian.Uint16(page[3:]))
	for i := range cells {
		pointer := header + 2*i
		if pointer+2 > len(page) {
			break
		}
		at := int(binary.BigEndian.Uint16(page[pointer:]))
		if at >= len(page) {
			continue
		}
		if row, ok := readLeafRow(page[at:]); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// readLeafRow reads the start of a cell: the size of the record, its rowid, the size of its
// header, and in that a type for each column.
func readLeafRow(cell []byte) (row LeafRow, ok bool) {
	_, cell, ok = cutVarint(cell)
	if !ok {
		return row, false
	}
	key, cell, ok := cutVarint(cell)
	if !ok {
		return row, false
	}
	row.Key = int64(key)
	size, types, ok := cutVarint(cell)
	left := int64(size) - int64(len(cell)-len(types))
	if !ok || left < 0 || left > int64(len(types)) {
		return row, false
	}
	for types = types[:left]; len(types) > 0; row.Columns++ {
		if _, types, ok = cutVarint(types); !ok {
			return row, false
		}
	}
	return row, true
}

// cutVarint cuts a number off: 7 bits of each byte, the highest first, as long as the eighth
// is set; all bits of a ninth byte.
func cutVarint(b []byte) (n uint64, rest []byte, ok bool) {
	for i, c := range b {
		if i == 8 {
			return n<<8 | uint64(c), b[9:], true
		}
		n = n<<7 | uint64(c&0x7f)
		if c < 0x80 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}
