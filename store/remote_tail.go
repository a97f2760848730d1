package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
)

// A logTail keeps in the directory the entries that its log got last: when the log has lost its end, they are appended
// again, byte for byte. They are in two files, and the older one is removed when the newer one is full. A file is a
// line that says what it is, and records: the length of the entry, in four bytes, its flags, in one, and the entry.
// The order of entries is not a matter of their place, but of their sums.
//
// An entry is kept when the log has it, and before it is committed in pawl.db. So after the death of a process what pawl.db has
// is in the tail as well, and perhaps one entry more. It is not synced, which would cost a commit as much as pawl.db does: a loss of
// power may take its end, or leave a hole, which is noticed. Nothing depends on it but that a log can be
// mended: if it cannot be written it is removed, and begins anew with the next life.
type logTail struct {
	dir  *Dir
	file *os.File // the newer one; nil until something is kept
	size int64    // of it
	off  bool     // it could not be written
}

const (
	tailFile    = index.TailFile
	oldTailFile = index.OldTailFile
	tailMagic   = "pawl log tail 1\n"
	tailHeader  = 4 + 1     // bytes before an entry
	tailBytes   = 32 << 20  // of one file, after which the next one begins; it may be larger by one entry
	maxTailed   = 256 << 20 // bytes of an entry: what says that it has more is not a record
)

// A tailFlag is what is known of an entry in the tail.
type tailFlag byte

const (
	tailMine  tailFlag = 1 << iota // a life of this directory has appended it
	tailPurge                      // it deletes what nobody is to find any more, and what is before it may have
	tailFlags tailFlag = 1<<iota - 1
)

// flagOf returns the flag of an entry.
//
// It looks for the statements in the bytes of the tape, in which their text is as it was
// executed.
func flagOf(mine bool, tapes [][]byte) (f tailFlag) {
	if mine {
		f = tailMine
	}
	for _, tape := range tapes {
		for _, text := range purging {
			if bytes.Contains(tape, []byte(text)) {
				f |= tailPurge
			}
		}
	}
	return f
}

// purging is what the statements begin with in whose transactions [Dir.eraseSoon] is called.
var purging = []string{"DELETE FROM runs ", "DELETE FROM outcomes "}

// keepEntry keeps an entry that the log has.
//
// A failure costs the possibility to mend the log, and never a commit, which the log has.
func (t *logTail) keepEntry(entry []byte, flag tailFlag) {
	if t.off || len(entry) > maxTailed {
		return
	}
	if err := t.writeEntry(entry, flag); err != nil {
		t.off = true
		t.dir.options.Logger.Warn("the last entries of the log are not kept in the directory any more: should the log lose its end, they cannot be appended again", "file", t.dir.pathOf(tailFile), "error", err)
		t.removeFiles()
	}
}

func (t *logTail) writeEntry(entry []byte, flag tailFlag) error {
	if t.file == nil {
		if err := t.openNewer(); err != nil {
			return err
		}
	}
	if t.size > int64(len(tailMagic)) && t.size+int64(len(entry)) > t.dir.hook.TailBytes(tailBytes) {
		if err := t.beginNewer(); err != nil {
			return err
		}
	}
	record := make([]byte, tailHeader, tailHeader+len(entry))
	binary.LittleEndian.PutUint32(record, uint32(len(entry))) //nolint:gosec // at most maxTailed
	record[4] = byte(flag)
	if _, err := t.file.WriteAt(append(record, entry...), t.size); err != nil {
		return err
	}
	t.size += int64(tailHeader + len(entry))
	return nil
}

// openNewer opens the newer file behind the last record in it that is whole.
//
// A record that a crash has cut short is written over.
func (t *logTail) openNewer() error {
	if err := t.dir.checkTailName(tailFile); err != nil {
		return err
	}
	f, err := t.dir.root.OpenFile(tailFile, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return err
	}
	size, err := readTail(f, func(int64, []byte, tailFlag) {})
	if err == nil && size == 0 {
		size = int64(len(tailMagic))
		_, err = f.WriteAt([]byte(tailMagic), 0)
	}
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		_ = f.Close() // nothing that counts was written
		return err
	}
	t.file, t.size = f, size
	return nil
}

// beginNewer makes the newer file the older one.
//
// So there are always between one and two files' worth of entries, and none is copied.
func (t *logTail) beginNewer() error {
	if err := t.closeFile(); err != nil {
		return err
	}
	if err := t.dir.root.Rename(tailFile, oldTailFile); err != nil {
		return err
	}
	return t.openNewer()
}

func (t *logTail) closeFile() (err error) {
	if t.file != nil {
		err = t.file.Close()
		t.file = nil
	}
	return err
}

// removeFiles forgets what is kept.
func (t *logTail) removeFiles() {
	_ = t.closeFile() // what it could not write is not wanted any more
	t.dir.removeTail()
}

// removeTail removes the files of the tail, also those of an earlier life.
func (d *Dir) removeTail() {
	for _, name := range []string{oldTailFile, tailFile} {
		if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.options.Logger.Warn("a file of the last entries of the log is left behind", "file", d.pathOf(name), "error", err)
		}
	}
}

// checkTailName refuses what has the name of a tail, and is not a file.
func (d *Dir) checkTailName(name string) error {
	return checkName(d.pathOf(name), func(string) (os.FileInfo, error) { return d.root.Lstat(name) })
}

// readTail calls do with the records of a file, whose entries are valid until it returns, and where each entry begins. It returns
// where the last whole record ends, 0 if the file is not one of a tail.
//
// It stops at the first record that is not whole, and takes that for the end: after a loss of
// power there may be others behind a hole, which are not found. Since entries are put together by
// their sums, what is missing is noticed.
func readTail(f io.Reader, do func(at int64, entry []byte, flag tailFlag)) (end int64, err error) {
	r := bufio.NewReaderSize(f, 256<<10)
	magic := make([]byte, len(tailMagic))
	if _, err := io.ReadFull(r, magic); isShort(err) || string(magic) != tailMagic {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	end = int64(len(tailMagic))
	var header [tailHeader]byte
	var entry []byte
	for {
		if _, err := io.ReadFull(r, header[:]); isShort(err) {
			return end, nil
		} else if err != nil {
			return end, err
		}
		n := int(binary.LittleEndian.Uint32(header[:]))
		if n == 0 || n > maxTailed || tailFlag(header[4]) > tailFlags {
			return end, nil
		}
		if cap(entry) < n {
			entry = make([]byte, n)
		}
		entry = entry[:n]
		if _, err := io.ReadFull(r, entry); isShort(err) || err == nil && !checkCRC(entry) {
			return end, nil
		} else if err != nil {
			return end, err
		}
		do(end+tailHeader, entry, tailFlag(header[4]))
		end += int64(tailHeader + n)
	}
}

func isShort(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// A tailEntry is an entry in the tail.
//
// It says where the entry is; its bytes are read when they are appended.
type tailEntry struct {
	file        string
	at          int64
	size        int
	before, sum [32]byte
	flag        tailFlag
}

// eachRecord calls do with the records in the tail, in the order in which they were kept.
func (t *logTail) eachRecord(do func(file string, at int64, entry []byte, flag tailFlag)) error {
	for _, name := range []string{oldTailFile, tailFile} {
		f, err := t.dir.openRegular(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = readTail(f, func(at int64, entry []byte, flag tailFlag) { do(name, at, entry, flag) })
		_ = f.Close() // it was only read
		if err != nil {
			return err
		}
	}
	return nil
}

// erase removes the tail if something was purged in it, when the directory is closed: as pawl.db, it may have what nobody
// is to find.
func (t *logTail) erase() {
	purged := false
	err := t.eachRecord(func(_ string, _ int64, _ []byte, flag tailFlag) { purged = purged || flag&tailPurge != 0 })
	if err != nil || purged {
		t.removeFiles()
	}
}

// findLost returns the entries that come behind one in the history of the directory: up to the last one that is in pawl.db,
// whose sum is given, and the entries that the log had behind that. It fails if one of them is not in the tail any more, and
// if the last one is another directory's, which may have more of them.
//
// It goes back from the last entry that pawl.db has, by the sums, until it meets the one with
// which the log ends. For example, the log ends with entry 7, pawl.db has 9, and the tail has 6
// to 10: then 8 and 9 are lost, and 10, which the log had when the process died, before it was
// committed in pawl.db.
func (t *logTail) findLost(behind, last [32]byte) ([]tailEntry, error) {
	c, err := t.readChain()
	if err != nil {
		return nil, err
	}
	var back []tailEntry
	for sum := last; sum != behind; {
		e, has := c.bySum[sum]
		if !has {
			return nil, errNoTail
		}
		back = append(back, e)
		sum = e.before
	}
	slices.Reverse(back)
	return checkOwned(append(back, c.listBehind(last)...))
}

// findBehind returns the entries that come behind one in the history of the directory: none as a rule. It fails if the last one is
// another directory's.
func (t *logTail) findBehind(behind [32]byte) ([]tailEntry, error) {
	c, err := t.readChain()
	if err != nil {
		return nil, err
	}
	return checkOwned(c.listBehind(behind))
}

// A tailChain is the entries of a tail by their sums, and by those of the entries before them.
type tailChain struct{ bySum, byBefore map[[32]byte]tailEntry }

// readChain leaves out an entry that cannot be decoded; a search that needs it finds a gap.
func (t *logTail) readChain() (tailChain, error) {
	c := tailChain{map[[32]byte]tailEntry{}, map[[32]byte]tailEntry{}}
	err := t.eachRecord(func(file string, at int64, data []byte, flag tailFlag) {
		h, _, err := decodeHeader(data)
		if err != nil {
			return
		}
		e := tailEntry{file, at, len(data), h.before, PositionOf(0, data).Sum, flag}
		e.flag |= c.bySum[e.sum].flag // it may be there twice, got from the log after a crash
		c.bySum[e.sum], c.byBefore[e.before] = e, e
	})
	return c, err
}

// listBehind returns the entries behind one, in order.
//
// It ends where nothing names the last one: entries never form a circle, since each has the sum
// of the one before.
func (c tailChain) listBehind(sum [32]byte) (out []tailEntry) {
	for e, has := c.byBefore[sum]; has; e, has = c.byBefore[e.sum] {
		out = append(out, c.bySum[e.sum])
	}
	return out
}

// checkOwned fails if the last one of some entries is another directory's.
//
// Entries of another directory reached this one through the log, perhaps not all of them. To append them again would make the log
// go on from a point that its owner has passed.
func checkOwned(lost []tailEntry) ([]tailEntry, error) {
	if len(lost) > 0 && lost[len(lost)-1].flag&tailMine == 0 {
		return nil, errNotOwned
	}
	return lost, nil
}

// Why a lost end cannot be appended again.
var (
	errNoTail   = errors.New("the directory does not keep all of it any more, or somebody else has appended something since")
	errNotOwned = errors.New("the last one was another machine's, whose directory may have more: open that one, or recover this one")
)

// readEntry reads an entry.
//
// The sum proves that it is the entry which was found.
func (t *logTail) readEntry(e tailEntry) ([]byte, error) {
	f, err := t.dir.openRegular(e.file)
	if err != nil {
		return nil, err
	}
	data := make([]byte, e.size)
	_, err = f.ReadAt(data, e.at)
	_ = f.Close() // it was only read
	if err == nil && PositionOf(0, data).Sum != e.sum {
		err = &CorruptError{File: t.dir.pathOf(e.file), What: fmt.Sprintf("the entry at %d has changed while it was read", e.at)}
	}
	return data, err
}
