package image

import (
	"encoding/binary"
	"io"

	"github.com/pawl-run/pawl/internal/pace"
)

// A Stream writes a database whose rows come one by one, and which is never in memory as a whole: of each level of
// a tree there is one page, and what is complete is written in chunks. Pages have numbers in the order in which they
// are complete, and so a tree's root is its last page. Only the first page, which has the schema with the numbers of
// the roots and the number of pages, is written out of turn, at the end.
type Stream struct {
	to     io.WriterAt
	size   int    // of a page
	chunk  []byte // complete pages that are not written yet
	before int64  // bytes in front of them
	schema TableWriter
	names  int64 // objects in the schema
	tree   TableWriter
	record []byte
}

// lockedAt is where a page begins that SQLite never uses, because it locks bytes there. Every page begins there whose
// size is a power of two.
const lockedAt = 1 << 30

// chunkBytes is how much is written at a time.
const chunkBytes = 64 << 10

// NewStream returns a stream to an empty file. The size of a page is a power of two from 512 to 32,768.
func NewStream(to io.WriterAt, page int) *Stream {
	s := &Stream{to: to, size: page, chunk: make([]byte, page, max(chunkBytes, page))}
	s.schema.beginTree(s, false, fileHeader)
	return s
}

// WriteObject writes a table or a view. rows gives the rows of a table to [TableWriter.Add], in the order of their
// keys; it is not called for a view. The object's Rows mean nothing here.
func (s *Stream) WriteObject(o *Object, rows func(*TableWriter) error) error {
	root := uint32(0)
	if o.Type == "table" {
		s.tree.beginTree(s, o.Keyed, 0)
		err := rows(&s.tree)
		if err == nil && (o.Empty == "" || !s.tree.isEmpty()) {
			root, err = s.addRoot()
		}
		if err != nil {
			return err
		}
	}
	s.names++
	s.record = o.appendSchema(s.record[:0], root)
	return s.schema.Add(s.names, s.record)
}

// addRoot completes the tree of a table and returns the number of its root.
func (s *Stream) addRoot() (uint32, error) {
	root, err := s.tree.finishTree()
	if err != nil {
		return 0, err
	}
	return s.addPage(root)
}

// Finish writes the schema and what is left. The file is complete then, and not synced.
func (s *Stream) Finish(h Header) error {
	root, err := s.schema.finishTree()
	if err == nil {
		err = s.writeChunk()
	}
	if err != nil {
		return err
	}
	first := make([]byte, s.size)
	root.putRoot(first)
	putHeader(first, h, s.size, uint32(s.before/int64(s.size)))
	_, err = s.to.WriteAt(first, 0)
	return err
}

// addPage adds a page to the file and returns its number, from 1.
func (s *Stream) addPage(b *block) (uint32, error) {
	b.completePage()
	page, err := s.nextPage()
	copy(page, b.buf)
	return s.lastPage(), err
}

// nextPage returns room for the next page, which is not cleared.
func (s *Stream) nextPage() ([]byte, error) {
	page, err := s.addRoom()
	if err == nil && s.bytesSoFar()-int64(s.size) == lockedAt {
		clear(page)
		page, err = s.addRoom()
	}
	return page, err
}

// addRoom returns room behind the last page.
func (s *Stream) addRoom() ([]byte, error) {
	if len(s.chunk)+s.size > cap(s.chunk) {
		if err := s.writeChunk(); err != nil {
			return nil, err
		}
	}
	s.chunk = s.chunk[:len(s.chunk)+s.size]
	return s.chunk[len(s.chunk)-s.size:], nil
}

// bytesSoFar returns where the last page ends.
func (s *Stream) bytesSoFar() int64 { return s.before + int64(len(s.chunk)) }

// lastPage returns the number of the page that was added last.
func (s *Stream) lastPage() uint32 { return uint32(s.bytesSoFar() / int64(s.size)) }

// pageAfter returns the number that the next page will have.
func (s *Stream) pageAfter() uint32 {
	if s.bytesSoFar() == lockedAt {
		return s.lastPage() + 2
	}
	return s.lastPage() + 1
}

func (s *Stream) writeChunk() error {
	_, err := s.to.WriteAt(s.chunk, s.before)
	s.before, s.chunk = s.before+int64(len(s.chunk)), s.chunk[:0]
	pace.Pause()
	return err
}

// addChain writes what does not fit into a cell to pages of its own, which follow each other, and returns the number
// of the first one.
func (s *Stream) addChain(rest []byte) (uint32, error) {
	first := s.pageAfter()
	for len(rest) > 0 {
		page, err := s.nextPage()
		if err != nil {
			return 0, err
		}
		n := copy(page[4:], rest)
		clear(page[4+n:])
		next := s.pageAfter()
		if rest = rest[n:]; len(rest) == 0 {
			next = 0
		}
		binary.BigEndian.PutUint32(page, next)
	}
	return first, nil
}

// appendCell appends a cell without a child to dst, with local bytes of the record in it, and writes the rest of the
// record.
func (s *Stream) appendCell(dst []byte, keyed bool, id int64, record []byte, local int) ([]byte, error) {
	dst = appendVarint(dst, uint64(len(record)))
	if !keyed {
		dst = appendVarint(dst, uint64(id))
	}
	dst = append(dst, record[:local]...)
	if local == len(record) {
		return dst, nil
	}
	first, err := s.addChain(record[local:])
	return binary.BigEndian.AppendUint32(dst, first), err
}
