package image

import (
	"encoding/binary"
)

// A branch is a page of a tree under construction, as the level above sees it.
type branch struct {
	page uint32
	last int64  // of a table: the largest rowid in it
	next []byte // of an index: the cell that follows it, without a child; nil behind the last
}

// writeTable writes the tree of a table with rowids and returns its root: the page that is
// given, or a new one for 0.
func (w *Writer) writeTable(rows []Row, root uint32) uint32 {
	cells := w.cells[:0]
	for i := range rows {
		record := rows[i].Record
		cell := w.newCell(min(len(record), maxLocalTable(w.size)) + cellOverhead)
		cell = appendVarint(cell, uint64(len(record)))
		cell = appendVarint(cell, uint64(rows[i].ID))
		cells = append(cells, w.appendPayload(cell, record, maxLocalTable(w.size)))
	}
	w.cells = cells
	if root == 0 && w.fitsPage(cells, w.roomIn(0, leafHeader)) {
		root = w.addPage()
	}
	if root != 0 && w.fitsPage(cells, w.roomIn(root, leafHeader)) {
		w.writeCells(root, leafTable, cells, 0)
		return root
	}
	var level []branch
	for done := 0; done < len(cells); {
		n := w.countFitting(cells[done:], w.roomIn(0, leafHeader))
		page := w.addPage()
		w.writeCells(page, leafTable, cells[done:done+n], 0)
		done += n
		level = append(level, branch{page: page, last: rows[done-1].ID})
	}
	return w.writeAbove(level, interiorTable, root)
}

// writeKeyed writes the tree of a table without rowids and returns its root. Each row is in
// it once, also in interior pages.
func (w *Writer) writeKeyed(rows []Row) uint32 {
	cells := w.cells[:0]
	for i := range rows {
		record := rows[i].Record
		cell := w.newCell(min(len(record), maxLocalIndex(w.size)) + cellOverhead)
		cell = appendVarint(cell, uint64(len(record)))
		cells = append(cells, w.appendPayload(cell, record, maxLocalIndex(w.size)))
	}
	w.cells = cells
	var level []branch
	for done := 0; ; {
		n := w.countFitting(cells[done:], w.roomIn(0, leafHeader))
		if done+n == len(cells)-1 {
			n-- // the last row would go above, and the page behind it be empty
		}
		page := w.addPage()
		w.writeCells(page, leafIndex, cells[done:done+n], 0)
		if done += n; done == len(cells) {
			level = append(level, branch{page: page})
			break
		}
		level = append(level, branch{page: page, next: cells[done]})
		done++
	}
	return w.writeAbove(level, interiorIndex, 0)
}

// writeAbove writes the levels above some pages and returns the root.
func (w *Writer) writeAbove(level []branch, kind byte, root uint32) uint32 {
	for len(level) > 1 || root != 0 {
		cells := make([][]byte, len(level))
		for i := range level {
			cells[i] = w.interiorCell(&level[i], kind)
		}
		last := len(cells) - 1
		if root != 0 && w.fitsPage(cells[:last], w.roomIn(root, interiorHeader)) {
			w.writeCells(root, kind, cells[:last], level[last].page)
			return root
		}
		var above []branch
		for done := 0; done < len(level); {
			n := w.countFitting(cells[done:last], w.roomIn(0, interiorHeader)) // cells; one more page is the right child
			if done+n == last-1 {
				n-- // the page behind it would have one child
			}
			page := w.addPage()
			right := &level[done+n]
			w.writeCells(page, kind, cells[done:done+n], right.page)
			above = append(above, branch{page: page, last: right.last, next: right.next})
			done += n + 1
		}
		level = above
	}
	return level[0].page
}

// interiorCell returns the cell of a page in the level above.
func (w *Writer) interiorCell(b *branch, kind byte) []byte {
	cell := binary.BigEndian.AppendUint32(w.newCell(childBytes+max(9, len(b.next))), b.page)
	if kind == interiorTable {
		return appendVarint(cell, uint64(b.last))
	}
	return append(cell, b.next...)
}

func (w *Writer) fitsPage(cells [][]byte, room int) bool {
	return w.countFitting(cells, room) == len(cells)
}

// countFitting returns how many cells a page with some room holds.
func (w *Writer) countFitting(cells [][]byte, room int) int {
	for i, c := range cells {
		w.pacer.Spend(1)
		if room -= len(c) + pointerBytes; room < 0 {
			return i
		}
	}
	return len(cells)
}
