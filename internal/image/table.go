package image

import (
	"encoding/binary"

	"github.com/pawl-run/pawl/internal/pace"
)

// A TableWriter makes the tree of a table from its rows, with one page of each level in memory.
type TableWriter struct {
	stream *Stream
	keyed  bool
	spare  int // bytes that stay free on each page, since the root goes behind the header of the file
	leaf   block
	last   int64  // the rowid of the last row
	held   []byte // of a table without rowids: the cell that came when the leaf was full
	levels []*interior
	used   int // of these, from the one above the leaves
	pacer  pace.Pacer
}

// An interior is the page under construction of a level above the leaves.
//
// A page ends with a child without a cell, its right one. So a child waits until the next one comes, to become either a
// cell or the right child; if it is the right child, the next one waits as well. For it may be the last, and a
// page with one child would have no cell.
type interior struct {
	block
	waiting [2]child
	count   int // of those that wait
}

// A child is a page of a tree as the level above sees it.
type child struct {
	page uint32
	key  []byte // what its cell has in it: the largest rowid, or the cell that follows the child; none behind the last
}

// beginTree starts the tree of another table.
func (w *TableWriter) beginTree(s *Stream, keyed bool, spare int) {
	w.stream, w.keyed, w.spare, w.used, w.held = s, keyed, spare, 0, w.held[:0]
	w.leaf.beginPage(s.size, w.kindOf(leafTable, leafIndex), spare)
}

func (w *TableWriter) kindOf(table, index byte) byte {
	if w.keyed {
		return index
	}
	return table
}

// Add adds a row, whose key is larger than those before. The rowid means nothing in a table without.
func (w *TableWriter) Add(id int64, record []byte) error {
	w.pacer.Spend(2)
	most, size := maxLocalTable(w.stream.size), varintLen(uint64(len(record)))
	if w.keyed {
		most = maxLocalIndex(w.stream.size)
	} else {
		size += varintLen(uint64(id))
	}
	local := localBytes(len(record), most, w.stream.size)
	if size += local; local < len(record) {
		size += 4
	}
	switch {
	case len(w.held) > 0:
		if err := w.closeLeaf(w.held); err != nil {
			return err
		}
		w.held = w.held[:0]
	case w.leaf.fitsCell(size):
	case w.keyed:
		var err error
		w.held, err = w.stream.appendCell(w.held, true, id, record, local)
		return err
	default:
		var key [9]byte
		if err := w.closeLeaf(appendVarint(key[:0], uint64(w.last))); err != nil {
			return err
		}
	}
	w.last = id
	_, err := w.stream.appendCell(w.leaf.addCell(size), w.keyed, id, record, local)
	return err
}

// isEmpty reports whether there are no rows.
func (w *TableWriter) isEmpty() bool { return w.used == 0 && w.leaf.cells == 0 }

// closeLeaf adds the leaf to the file, and begins another one. key is what the level above says of it.
func (w *TableWriter) closeLeaf(key []byte) error {
	number, err := w.stream.addPage(&w.leaf)
	w.leaf.clearCells()
	if err != nil {
		return err
	}
	return w.addChild(0, number, key)
}

// addChild adds a page to the level above it.
func (w *TableWriter) addChild(depth int, page uint32, key []byte) error {
	if depth == w.used {
		if w.used++; len(w.levels) < w.used {
			w.levels = append(w.levels, &interior{})
		}
		w.levels[depth].count = 0
		w.levels[depth].beginPage(w.stream.size, w.kindOf(interiorTable, interiorIndex), w.spare)
	}
	l := w.levels[depth]
	if l.count == len(l.waiting) {
		number, err := w.closeInterior(l)
		if err == nil {
			err = w.addChild(depth+1, number, l.waiting[0].key)
		}
		if err != nil {
			return err
		}
		l.waiting[0], l.waiting[1] = l.waiting[1], l.waiting[0]
		l.count = 1
	}
	if l.count == 1 && l.fitsCell(childBytes+len(l.waiting[0].key)) {
		l.addWaiting()
	}
	c := &l.waiting[l.count]
	c.page, c.key = page, append(c.key[:0], key...)
	l.count++
	return nil
}

// addWaiting makes a cell of the first child that waits.
func (l *interior) addWaiting() {
	c := &l.waiting[0]
	_ = append(binary.BigEndian.AppendUint32(l.addCell(childBytes+len(c.key)), c.page), c.key...)
	l.waiting[0], l.waiting[1] = l.waiting[1], l.waiting[0]
	l.count--
}

// closeInterior adds a page to the file, with the first child that waits as its right one.
func (w *TableWriter) closeInterior(l *interior) (uint32, error) {
	l.right = l.waiting[0].page
	number, err := w.stream.addPage(&l.block)
	l.clearCells()
	return number, err
}

// finishTree completes the tree, but for its root, which it returns: the highest page.
func (w *TableWriter) finishTree() (*block, error) {
	if len(w.held) > 0 { // it is the last row, and the page behind it would be empty: the row before goes above
		if err := w.closeLeaf(w.leaf.takeLast()); err != nil {
			return nil, err
		}
		copy(w.leaf.addCell(len(w.held))[:len(w.held)], w.held)
	}
	if w.used == 0 {
		return &w.leaf, nil
	}
	if err := w.closeLeaf(nil); err != nil {
		return nil, err
	}
	for depth := 0; ; depth++ {
		l := w.levels[depth]
		if l.count == len(l.waiting) {
			if err := w.splitLast(depth, l); err != nil {
				return nil, err
			}
		}
		if depth+1 == w.used {
			l.right = l.waiting[0].page
			return &l.block, nil
		}
		number, err := w.closeInterior(l)
		if err == nil {
			err = w.addChild(depth+1, number, nil)
		}
		if err != nil {
			return nil, err
		}
	}
}

// splitLast moves a child of a page that is full to the last page of its level, which would have one child otherwise.
func (w *TableWriter) splitLast(depth int, l *interior) error {
	cell := l.takeLast()
	first := l.waiting[0]
	l.waiting[0] = child{page: binary.BigEndian.Uint32(cell), key: append([]byte(nil), cell[childBytes:]...)}
	number, err := w.closeInterior(l)
	if err == nil {
		err = w.addChild(depth+1, number, l.waiting[0].key)
	}
	l.waiting[0] = first
	l.addWaiting()
	return err
}
