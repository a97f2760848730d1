package image

import "encoding/binary"

// A block is a page of a tree under construction. Its cells are added in their order, from the end of the page.
type block struct {
	buf    []byte
	kind   byte
	header int
	spare  int // bytes that stay free
	cells  int
	end    int // of the room: where the cells begin
	last   int // size of the last cell
	right  uint32
}

// beginPage makes it an empty page.
func (b *block) beginPage(size int, kind byte, spare int) {
	if len(b.buf) != size {
		b.buf = make([]byte, size)
	}
	b.kind, b.spare, b.header = kind, spare, leafHeader
	if kind == interiorTable || kind == interiorIndex {
		b.header = interiorHeader
	}
	b.clearCells()
}

func (b *block) clearCells() { b.cells, b.end, b.last, b.right = 0, len(b.buf), 0, 0 }

// fitsCell reports whether there is room for a cell of some size.
func (b *block) fitsCell(size int) bool {
	return b.spare+b.header+pointerBytes*(b.cells+1)+size <= b.end
}

// addCell returns room for a cell that fits, to append to.
func (b *block) addCell(size int) []byte {
	b.end -= size
	binary.BigEndian.PutUint16(b.buf[b.header+pointerBytes*b.cells:], uint16(b.end))
	b.cells++
	b.last = size
	return b.buf[b.end : b.end : b.end+size]
}

// takeLast takes the cell that was added last away again. It is good until the page is used.
func (b *block) takeLast() []byte {
	cell := b.buf[b.end : b.end+b.last]
	b.cells--
	b.end += b.last
	return append([]byte(nil), cell...)
}

// completePage completes the page. Nothing is left of the one before in the bytes that are free.
func (b *block) completePage() {
	b.buf[0], b.buf[1], b.buf[2], b.buf[7] = b.kind, 0, 0, 0
	binary.BigEndian.PutUint16(b.buf[3:], uint16(b.cells))
	binary.BigEndian.PutUint16(b.buf[5:], uint16(b.end))
	if b.header == interiorHeader {
		binary.BigEndian.PutUint32(b.buf[8:], b.right)
	}
	clear(b.buf[b.header+pointerBytes*b.cells : b.end])
}

// putRoot puts the page, which has spare bytes for it, behind the header of a file.
func (b *block) putRoot(first []byte) {
	b.completePage()
	copy(first[fileHeader:], b.buf[:b.header+pointerBytes*b.cells])
	copy(first[b.end:], b.buf[b.end:])
}
