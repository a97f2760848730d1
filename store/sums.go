package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// While an engine has a directory open, the file pawl.db-sums holds a mark: a checksum of
// every page of pawl.db as the last checkpoint left it. After a crash, the next engine compares
// the pages with their sums: if only the pages in the write-ahead log have changed since, it
// checks only the rows on those. If the sums do not fit, or are missing, it checks every row: bad
// sums cost time and nothing else. So the file is neither synced nor written as a whole.
//
// The first commit after a checkpoint begins the write-ahead log anew, and the sums are written
// between the two. So the log that belongs to a mark is the one at the checkpoint, or the next.

// The file begins with a header of four-byte numbers: sumsID twice, the size of a page, how
// many pages pawl.db has, the salt of the log, and the checksum of all that. The sum of each
// page follows. All are little-endian.
const (
	sumsID     = 0x736d7573 // "sums"
	sumsHeader = 28
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// zeroSum is the CRC-32C of a page of zeros: such a page, which no commit may ever have
// written, has the sum 0.
var zeroSum = crc32.Checksum(make([]byte, index.PageSize), castagnoli)

// A file of sums with a hole, which the system reads as zeros, so fits pages of zeros.
func sumPage(page []byte) uint32 { return crc32.Checksum(page, castagnoli) ^ zeroSum }

// A pageSummer takes the bytes of a pawl.db and makes the sums of its pages.
//
// Writes may be of any length; sums has the whole pages so far.
type pageSummer struct {
	sums []uint32
	crc  uint32 // of a page that has begun
	fill int    // bytes of it
}

func (s *pageSummer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), index.PageSize-s.fill)
		s.crc, s.fill = crc32.Update(s.crc, castagnoli, rest[:n]), s.fill+n
		if rest = rest[n:]; s.fill == index.PageSize {
			s.sums = append(s.sums, s.crc^zeroSum)
			s.crc, s.fill = 0, 0
		}
	}
	return len(p), nil
}

// sumIndex reads pawl.db, which SQLite must not have open, into to as well, and returns the
// sums of its pages, nil if it has no whole number of them.
func (d *Dir) sumIndex(to io.Writer) ([]uint32, error) {
	f, err := d.openRegular(indexFile)
	if err != nil {
		return nil, err
	}
	var s pageSummer
	_, err = pace.Copy(io.MultiWriter(to, &s), f)
	_ = f.Close() // it was only read
	if err != nil || s.fill != 0 {
		return nil, err
	}
	return s.sums, nil
}

// A mark is what the last checkpoint has left.
//
// The sums can be trusted only if nothing else was moved into pawl.db since. The salt tells:
// SQLite raises it by one whenever it begins the log anew.
type mark struct {
	salt [2]uint32 // of the log
	sums []uint32  // of the pages of pawl.db
}

// header returns the header of the file, whose checksum is of itself, and not of the sums.
func (m *mark) header() []byte {
	out := make([]byte, 0, sumsHeader)
	for _, n := range []uint32{sumsID, sumsID, index.PageSize, uint32(len(m.sums)), m.salt[0], m.salt[1]} { //nolint:gosec // SQLite counts pages so
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// appendSums appends sums as the file has them.
func appendSums(out []byte, sums []uint32) []byte {
	for _, s := range sums {
		out = binary.LittleEndian.AppendUint32(out, s)
	}
	return out
}

// readMark reads the sums. Damaged or missing sums are a mark of no pages.
//
// A mark that is not to be trusted costs a full check, so nothing about it is an error but that
// the disk cannot be read.
func (d *Dir) readMark() (mark, error) {
	f, err := d.openRegular(sumsFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	data, err := io.ReadAll(f)
	_ = f.Close() // it was only read
	if err != nil || len(data) < sumsHeader {
		return mark{}, err
	}
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(data[i:]) }
	m := mark{salt: [2]uint32{number(16), number(20)}, sums: make([]uint32, 0, (len(data)-sumsHeader)/4)}
	for i := sumsHeader; i+4 <= len(data); i += 4 {
		m.sums = append(m.sums, number(i))
	}
	if count := int64(number(12)); count < int64(len(m.sums)) {
		m.sums = m.sums[:count]
	}
	if string(m.header()) != string(data[:sumsHeader]) {
		return mark{}, nil
	}
	return m, nil
}

// changedSince returns the pages of the log if nothing else of pawl.db, whose pages have the
// given sums, has changed since the last mark. It reports false if more has, or if that
// cannot be told.
//
// Two logs may belong to a mark. If the log has the mark's salt it is the one that was moved:
// then pawl.db must have all of it, as the sums say. If it has the next salt it was begun after
// the mark, and its pages are those that may differ. Any other log was begun after a checkpoint
// that the mark does not cover.
//
// Pages that are neither in the log nor as the sums say were changed by somebody else, or by a
// disk that has lost a write. The caller then checks everything.
func (d *Dir) changedSince(sums []uint32) (changed map[uint32][]byte, marked bool, err error) {
	m, err := d.readMark()
	if err != nil || len(m.sums) == 0 {
		return nil, false, err
	}
	text, err := d.readFile(indexWAL)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	if log, ok := sqlite.ReadWAL(text); ok {
		if log.Salt != m.salt && log.Salt[0] != m.salt[0]+1 {
			return nil, false, nil
		}
		if log.Salt == m.salt && !m.hasAll(&log) {
			return nil, false, nil
		}
		changed = log.Pages
	}
	for i := range max(len(sums), len(m.sums)) {
		if changed[uint32(i+1)] == nil && (i >= len(sums) || i >= len(m.sums) || sums[i] != m.sums[i]) { //nolint:gosec // SQLite counts pages so
			return nil, false, nil
		}
	}
	return changed, true, nil
}

// hasAll reports whether a log that was moved into pawl.db as a whole still ends with the
// pages that were: SQLite would put older ones in their place.
//
// SQLite executes such a log again when it opens pawl.db, although it was moved before.
func (m *mark) hasAll(log *sqlite.WAL) bool {
	if log.Count != 0 && int64(log.Count) != int64(len(m.sums)) {
		return false
	}
	for number, page := range log.Pages {
		if int64(number) <= int64(len(m.sums)) && sumPage(page) != m.sums[number-1] {
			return false
		}
	}
	return true
}

// findSums makes the sums of pawl.db as it was found, unless a check has made them.
//
// SQLite must not have the file yet; of a new directory they are those of an empty pawl.db.
func (d *Dir) findSums() (err error) {
	if d.found == nil {
		d.found, err = d.sumIndex(io.Discard)
	}
	return err
}

// beginMark writes the sums of pawl.db as it was found, behind the first commit. If it
// cannot, the next Open after a crash takes longer.
//
// After it a mark says: pawl.db is as it was found, and the log that has just begun has
// everything since. A crash before it leaves a lock record without an epoch, with which no mark
// is asked for.
func (d *Dir) beginMark() {
	sums := d.found
	d.found = nil
	log, err := d.openRegular(indexWAL)
	if err == nil {
		d.mark = mark{sums: sums}
		d.mark.salt, err = sqlite.WALSalt(log)
		d.mark.salt[0]-- // pawl.db has nothing of this log yet
		_ = log.Close()  // it was only read
	}
	if err == nil {
		d.sums, err = d.root.OpenFile(sumsFile, os.O_RDWR|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	}
	if err == nil {
		_, err = d.sums.WriteAt(appendSums(d.mark.header(), sums), 0)
	}
	if err != nil {
		d.endMark(err)
	}
}

// endMark stops that marks are made in this life of the directory.
func (d *Dir) endMark(cause error) {
	d.options.Logger.Warn("the sums of the index cannot be written: an Open after a crash takes longer", "file", d.pathOf(sumsFile), "error", cause)
	if d.sums != nil {
		_ = d.sums.Close() // it is not used any more
	}
	d.sums, d.mark = nil, mark{}
}

// dropMark removes the sums: a directory that was closed has a hash of all of pawl.db.
func (d *Dir) dropMark() error {
	if d.sums == nil {
		return nil
	}
	err := d.sums.Close()
	if d.sums = nil; err == nil {
		err = d.root.Remove(sumsFile)
	}
	return err
}

// logSums are the sums of the pages in the log, as far as it was read.
//
// The log is read in pieces, while it grows: frames remembers where, and last has the newest sum
// of each page of the transactions that have ended. The zero value stands before its first frame.
type logSums struct {
	frames sqlite.FrameReader
	last   map[uint32]uint32 // of every page by its number
	count  uint32            // pages that pawl.db has with them; 0 if the log has no transaction
}

// readLog takes up what was committed since the last call. The log may grow meanwhile.
//
// A transaction counts when its last frame is read, which has the size of pawl.db; frames without
// such an end are those of a transaction that is under way, and come with the next call. If the
// log was begun anew since, what was read of the old one is forgotten.
func (s *logSums) readLog(d *Dir) error {
	log, err := d.openRegular(indexWAL)
	if err != nil {
		return err
	}
	type pageSum struct{ number, sum uint32 }
	var open []pageSum // of a transaction that has not ended
	var read logSums
	read.last = map[uint32]uint32{}
	anew, err := s.frames.ReadOn(log, index.PageSize, func(number, count uint32, page []byte) {
		if open = append(open, pageSum{number, sumPage(page)}); count == 0 {
			return
		}
		for _, p := range open {
			read.last[p.number] = p.sum
		}
		read.count, open = count, open[:0]
	})
	_ = log.Close() // it was only read
	if anew || s.last == nil {
		s.last, s.count = read.last, read.count
		return err
	}
	maps.Copy(s.last, read.last)
	if read.count != 0 {
		s.count = read.count
	}
	return err
}

// sumsGap is how many sums between two that have changed are written with them.
//
// A write of a few more bytes costs less than another write.
const sumsGap = 256

// writeMark makes a mark of the last one and of the pages that were moved since.
//
// The sums come before the header, whose salt makes them count. A crash in between leaves a
// header with the salt of the log before: the sums that changed are of pages in the log, which
// nobody compares, or the header does not fit, and everything is checked.
func (d *Dir) writeMark(moved *logSums) error {
	m := &d.mark
	m.salt = moved.frames.Salt()
	if grown := int(moved.count) - len(m.sums); grown > 0 {
		m.sums = append(m.sums, make([]uint32, grown)...)
	}
	m.sums = m.sums[:moved.count]
	var numbers []int
	for number, sum := range moved.last {
		if number == 0 || number > moved.count {
			continue // pawl.db ends before it
		}
		m.sums[number-1] = sum
		numbers = append(numbers, int(number-1))
	}
	slices.Sort(numbers)
	for len(numbers) > 0 {
		n := 1
		for n < len(numbers) && numbers[n]-numbers[n-1] <= sumsGap {
			n++
		}
		first, last := numbers[0], numbers[n-1]
		if _, err := d.sums.WriteAt(appendSums(nil, m.sums[first:last+1]), sumsHeader+4*int64(first)); err != nil {
			return err
		}
		numbers = numbers[n:]
	}
	_, err := d.sums.WriteAt(m.header(), 0)
	return err
}
