package sqlite

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"modernc.org/sqlite"
)

// The write-ahead log is a header and frames, each a header and a page. See
// section 4 of SQLite's "Database File Format".
const (
	walHeader   = 32
	frameHeader = 24
	walMagic    = 0x377f0682 // the lowest bit says that checksums are big-endian
)

// CheckWAL looks for damage in the middle of a write-ahead log whose every
// transaction was synced before the next was written. SQLite takes the first
// frame that does not have its checksum for the end, which is right after a
// crash; but if a later transaction stands behind that frame's, it was in order
// once, and everything since would be lost without a word.
//
// Damage of the last transaction looks like a crash and is not found, nor is that of
// the header of the frame that ends the one before: the two look like one. Frames that
// have no end are of a transaction that was rolled back, and larger than the one over it.
func CheckWAL(log []byte) error {
	w, ok := parseWAL(log)
	if !ok {
		return nil // SQLite takes it for empty
	}
	n := w.validFrames()
	commit := -1
	for i := n; i < w.frames; i++ {
		switch {
		case !w.hasOurSalt(i): // of the time before the last checkpoint, or damaged
		case commit >= 0 && w.isChained(i) && w.isCommit(i):
			return fmt.Errorf("frame %d of the write-ahead log is damaged: transactions follow it", n)
		case commit < 0 && w.isCommit(i):
			commit = i
		}
	}
	return nil
}

// WALChanges reports whether the transactions in a write-ahead log, which SQLite
// takes for newer than the database file, of some size, would change it.
func WALChanges(log []byte, db io.ReaderAt, size int64) (bool, error) {
	w, ok := ReadWAL(log)
	if !ok || w.Count == 0 {
		return false, nil
	}
	if int64(w.Count)*int64(w.size) != size {
		return true, nil
	}
	page := make([]byte, w.size)
	for number, data := range w.Pages {
		at := (int64(number) - 1) * int64(w.size)
		if at < 0 || at >= size { // of before the database became smaller
			continue
		}
		if _, err := db.ReadAt(page, at); err != nil {
			return false, err
		}
		if !bytes.Equal(page, data) {
			return true, nil
		}
	}
	return false, nil
}

// A WAL is what the transactions in a write-ahead log make of the database file.
type WAL struct {
	Salt  [2]uint32         // of the log: the first is one more whenever the log begins anew
	Pages map[uint32][]byte // the last of every number, which count from 1
	Count uint32            // pages of the database; 0 if there is no transaction

	size int // of a page
}

// ReadWAL reads the transactions in a write-ahead log that SQLite takes. It reports false
// if SQLite takes the log for empty.
func ReadWAL(log []byte) (WAL, bool) {
	w, ok := parseWAL(log)
	if !ok {
		return WAL{}, false
	}
	out := WAL{Salt: saltIn(log), Pages: map[uint32][]byte{}, size: w.page}
	n := w.validFrames()
	for n > 0 && !w.isCommit(n-1) {
		n--
	}
	for i := range n {
		f := w.frameAt(i)
		out.Pages[binary.BigEndian.Uint32(f)] = f[frameHeader:]
	}
	if n > 0 {
		out.Count = binary.BigEndian.Uint32(w.frameAt(n - 1)[4:])
	}
	return out, true
}

func saltIn(header []byte) [2]uint32 {
	return [2]uint32{binary.BigEndian.Uint32(header[16:]), binary.BigEndian.Uint32(header[20:])}
}

// WALSalt returns the salt of a write-ahead log that has at least its header.
func WALSalt(log io.ReaderAt) (salt [2]uint32, err error) {
	var header [walHeader]byte
	_, err = log.ReadAt(header[:], 0)
	return saltIn(header[:]), err
}

// A FrameReader reads the frames of a write-ahead log piece by piece, also while its writer
// appends to it. The zero value begins with the first frame.
type FrameReader struct {
	header [walHeader]byte
	next   int64    // offset of the first frame of the next transaction
	sum    checksum // of everything before it
}

// ReadOn calls take with the frames that have come since the last call, in their order, until
// those of the time before the log began anew. Frames of a transaction that has not ended yet
// come again at the next call. It begins with the first frame, and reports true, if that is
// the first call, or if the log has begun anew since the last one. count is not 0 in the last
// frame of a transaction: how many pages the database has. The page is the next one's after
// take.
func (r *FrameReader) ReadOn(log io.ReaderAt, pageSize int, take func(number, count uint32, page []byte)) (anew bool, err error) {
	var header [walHeader]byte
	if _, err := log.ReadAt(header[:], 0); err != nil {
		return false, noEnd(err)
	}
	if anew = header != r.header; anew {
		r.header, r.next, r.sum = header, walHeader, readSum(header[24:])
	}
	w := wal{order: binary.LittleEndian}
	if header[3]&1 == 1 {
		w.order = binary.BigEndian
	}
	size := frameHeader + pageSize
	in := bufio.NewReaderSize(io.NewSectionReader(log, r.next, math.MaxInt64-r.next), readFrames*size)
	sum, end := r.sum, r.next
	for {
		frame, err := in.Peek(size)
		if err != nil {
			return anew, noEnd(err)
		}
		if string(frame[8:16]) != string(header[16:24]) {
			return anew, nil
		}
		if sum = w.sumWords(w.sumWords(sum, frame[:8]), frame[frameHeader:]); sum != readSum(frame[16:]) {
			return anew, nil // it is being written, of a transaction that was rolled back, or damaged
		}
		count := binary.BigEndian.Uint32(frame[4:])
		take(binary.BigEndian.Uint32(frame), count, frame[frameHeader:])
		_, _ = in.Discard(size) // they are there
		if end += int64(size); count != 0 {
			r.next, r.sum = end, sum
		}
	}
}

// readFrames is how many frames are read at once.
const readFrames = 32

// Salt returns the salt of the log that was read, which changes whenever it begins anew.
func (r *FrameReader) Salt() [2]uint32 { return saltIn(r.header[:]) }

// noEnd returns an error that is not of the end of a file.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// KeepWAL says whether the write-ahead log stays when the connection is closed.
// SQLite removes it otherwise, if it could move everything into the database. See
// SQLITE_FCNTL_PERSIST_WAL.
func (c *Conn) KeepWAL(keep bool) error {
	mode := 0
	if keep {
		mode = 1
	}
	_, err := c.conn.FileControlPersistWAL("main", mode)
	return err
}

// Written returns how many pages were written since the last call: with a
// write-ahead log, frames of it. See SQLITE_DBSTATUS_CACHE_WRITE.
func (c *Conn) Written() (int, error) {
	n, _, err := c.conn.Status(sqlite.DBStatusCacheWrite, true)
	return n, err
}

type wal struct {
	log    []byte
	page   int
	frames int
	order  binary.ByteOrder // of the words that checksums add up
}

func parseWAL(log []byte) (wal, bool) {
	if len(log) < walHeader || binary.BigEndian.Uint32(log)&^1 != walMagic {
		return wal{}, false
	}
	w := wal{log: log, page: int(binary.BigEndian.Uint32(log[8:])), order: binary.LittleEndian}
	if log[3]&1 == 1 {
		w.order = binary.BigEndian
	}
	if w.page < 512 || w.page > 65536 || w.page&(w.page-1) != 0 {
		return wal{}, false
	}
	w.frames = (len(log) - walHeader) / (frameHeader + w.page)
	return w, w.sumWords(checksum{}, log[:24]) == readSum(log[24:])
}

// A checksum is the pair of sums of the format.
type checksum [2]uint32

func readSum(b []byte) checksum {
	return checksum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

func (w *wal) sumWords(s checksum, data []byte) checksum {
	if w.order == binary.LittleEndian { // without a call for each word
		for ; len(data) >= 8; data = data[8:] {
			s[0] += binary.LittleEndian.Uint32(data) + s[1]
			s[1] += binary.LittleEndian.Uint32(data[4:]) + s[0]
		}
		return s
	}
	for ; len(data) >= 8; data = data[8:] {
		s[0] += w.order.Uint32(data) + s[1]
		s[1] += w.order.Uint32(data[4:]) + s[0]
	}
	return s
}

func (w *wal) frameAt(i int) []byte {
	size := frameHeader + w.page
	return w.log[walHeader+i*size:][:size]
}

// storedSum returns the checksum that frame i, or with -1 the header, holds.
func (w *wal) storedSum(i int) checksum {
	if i < 0 {
		return readSum(w.log[24:])
	}
	return readSum(w.frameAt(i)[16:])
}

// isChained reports whether frame i has its checksum, taken on from the one that
// the frame before holds.
func (w *wal) isChained(i int) bool {
	f := w.frameAt(i)
	return w.sumWords(w.sumWords(w.storedSum(i-1), f[:8]), f[frameHeader:]) == w.storedSum(i)
}

// hasOurSalt reports whether frame i was written since the log was last begun anew.
func (w *wal) hasOurSalt(i int) bool { return string(w.frameAt(i)[8:16]) == string(w.log[16:24]) }

// isCommit reports whether frame i ends a transaction.
func (w *wal) isCommit(i int) bool { return binary.BigEndian.Uint32(w.frameAt(i)[4:]) != 0 }

// validFrames returns how many frames SQLite accepts.
func (w *wal) validFrames() int {
	n := 0
	for n < w.frames && w.hasOurSalt(n) && w.isChained(n) {
		n++
	}
	return n
}
