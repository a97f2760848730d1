package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A large record in the log would hold all other commits up while it is written,
// and again while its pages in the write-ahead log are moved into pawl.db. It is
// spilled first: written in parts, each with a commit of its own, between which others
// commit; the commit of the record then only names the spill. Spills that no record
// names, because that commit never came or the record was trimmed, are garbage and are
// dropped in the same way, or all at once by the next Open.

// Bounds of the parts.
const (
	partBytes   = 1 << 20 // of one, and of a record that is not spilled
	droppedOnce = 1       // parts in one transaction
	readOnce    = 1       // parts for which the lock is held
)

// partBits are the bits of a part's key that count the parts of one spill.
//
// A part is a MB, so that a record of any size that a run may have finds numbers for its
// parts.
const partBits = 20

const (
	putPart      = `INSERT INTO parts (key, data) VALUES (?, ?)`
	getParts     = `SELECT key, data FROM parts WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?`
	dropSomePart = `DELETE FROM parts WHERE key IN (SELECT key FROM parts WHERE key BETWEEN ? AND ? LIMIT ?)`
	namedSpills  = `SELECT parts FROM log WHERE key BETWEEN ? AND ? AND parts IS NOT NULL`
	dropStray    = `DELETE FROM parts WHERE key >> 20 NOT IN (SELECT parts FROM log WHERE parts IS NOT NULL)`
	maxSpill     = `SELECT max(0, coalesce(max(key) >> 20, 0)) FROM parts`
)

// spillKeys returns the first and the last key that the parts of a spill may have.
//
// For example, the parts of spill 3 have the keys 3<<20, 3<<20 + 1 and so on: one after another,
// so that a part which is missing shows as a gap.
func spillKeys(spill int64) (first, last int64) {
	return spill << partBits, (spill+1)<<partBits - 1
}

// spillLarge spills the large records among some, and numbers the spills. Garbage that
// could not be dropped before, on a full disk, is dropped first, so that it does not add up.
//
// It is called before the commit of the records, by its caller's goroutine, and takes as many
// transactions as there are parts; the commit itself then adds a row that names the spill. After
// an error none of the spills is named by anything, and they are dropped.
func (d *Dir) spillLarge(entries []*runfile.Entry) error {
	// A number of an earlier attempt, or of another directory, means nothing here.
	for _, e := range entries {
		e.Spill = 0
	}
	for _, e := range entries {
		if e.ByteSize() <= d.hook.PartBytes(partBytes) {
			continue
		}
		err := d.clearGarbage()
		var text []byte
		if err == nil {
			text = index.PackSpill(e)
			e.SpillBytes = int64(len(text))
			err = d.reserveSpace(e.SpillBytes + min(e.SpillBytes, longLog*index.PageSize))
		}
		if err == nil {
			e.Spill = d.lastSpill.Add(1)
			err = d.writeParts(e.Spill, text)
		}
		if err != nil {
			if !errors.Is(err, ErrFailed) && !errors.Is(err, ErrClosed) {
				d.unspillExcept(entries, nil) // no record names them
			}
			return err
		}
	}
	return nil
}

// reserveSpace fails with ErrNoSpace if the disk lacks room for so many bytes. A record
// without room would otherwise take all space that is left, and more than its parts give
// back when they are dropped: the write-ahead log only grows, and is not emptied
// while pawl.db cannot grow. Then no run could commit any more.
//
// The file is made and removed at once: the room is not kept, it is only seen to be there. Where
// that cannot be told nothing is refused.
func (d *Dir) reserveSpace(bytes int64) error {
	name := path.Join(tmpDir, fmt.Sprintf("%v-spare-%d", d.epoch, d.reserved.Add(1)))
	f, err := d.createFile(name, os.O_EXCL)
	if err == nil {
		err = errors.Join(allocateBlocks(f, bytes), f.Close(), d.root.Remove(name))
	}
	if err = typedError(err); errors.Is(err, ErrNoSpace) {
		return err
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		d.options.Logger.Warn("how much room the disk has cannot be told", "file", d.pathOf(name), "error", err)
	}
	return nil
}

// writeParts writes the text of a record that is too large for one transaction, in one transaction for each part. The
// record refers to the parts by the number spill; until it does, nobody reads them.
//
// Each part is durable before the next one is written, and all before the record: a record never
// names a spill that a crash may take a part of.
func (d *Dir) writeParts(spill int64, data []byte) error {
	for key, _ := spillKeys(spill); len(data) > 0; key++ {
		part := data[:min(int(d.hook.PartBytes(partBytes)), len(data))]
		data = data[len(part):]
		err := d.updateIndexLarge(len(part), func(db *sqlite.Conn) error {
			_, err := db.Exec(putPart, key, part)
			return err
		})
		if err != nil {
			return err
		}
		d.hook.Hit("commit.part")
	}
	return nil
}

// unspillFailed drops the spills of records of run num whose commit has failed. Where it
// is not known whether the commit took place, pawl.db tells which spills are named.
//
// To drop a spill that is named would damage the run for ever, and to keep one that is not costs
// its space until the next Open. So in doubt they are kept.
func (d *Dir) unspillFailed(num int64, entries []*runfile.Entry, cause error) {
	if errors.Is(cause, ErrFailed) || errors.Is(cause, ErrClosed) {
		return // nothing works any more
	}
	named := map[int64]bool{}
	if errors.Is(cause, ErrUnknown) {
		err := d.readIndex(func(db *sqlite.Conn) error {
			return db.Each(namedSpills, func(r *sqlite.Row) error { named[r.Int64(0)] = true; return nil },
				index.LogKey(num, entries[0].Seq), index.LogKey(num, entries[len(entries)-1].Seq))
		})
		if err != nil {
			return
		}
	}
	d.unspillExcept(entries, named)
}

// unspillExcept drops the spills of records, except those that are named.
func (d *Dir) unspillExcept(entries []*runfile.Entry, named map[int64]bool) {
	var spills []int64
	for _, e := range entries {
		if n := e.Spill; n != 0 && !named[n] {
			spills = append(spills, n)
		}
	}
	d.dropSpills(spills)
}

// dropSpills drops some spills. If that fails they are dropped later.
func (d *Dir) dropSpills(spills []int64) {
	if len(spills) == 0 {
		return
	}
	d.garbage.addSpills(spills...)
	if err := d.clearGarbage(); err != nil {
		d.options.Logger.Warn("what was put aside for large records is not dropped yet", "file", d.pathOf(indexFile), "error", err)
	}
}

// clearGarbage drops all spills that are garbage, a few parts at a time.
//
// A spill that could only be dropped in part is taken up again from its first part that is left.
func (d *Dir) clearGarbage() error {
	for {
		spill, ok := d.garbage.takeSpill()
		if !ok {
			return nil
		}
		first, last := spillKeys(spill)
		for n := int64(droppedOnce); n == droppedOnce; {
			err := d.updateLocally(func(db *sqlite.Conn) (err error) {
				n, err = db.Exec(dropSomePart, first, last, int64(droppedOnce))
				return err
			})
			if err != nil {
				d.garbage.addSpills(spill)
				return err
			}
			d.hook.Hit("parts.drop")
		}
	}
}

// completeEntries adds large values and spills to the records that readLog has returned. It
// holds the lock for a few parts of a spill at a time, for the records may be large. found is
// the damage that readLog has found; damage is of the last record returned.
//
// Between two parts others commit, and a flush may drop the spill: what is missing then looks
// like damage. [Dir.readRunRecords] looks whether the run was flushed meanwhile before it says
// so.
func (d *Dir) completeEntries(entries []*runfile.Entry, found error) (out []*runfile.Entry, damage, err error) {
	for i, e := range entries {
		switch {
		case found != nil && i == len(entries)-1: // it is not a record
		case e.Spill != 0:
			damage, err = d.readSpilled(e)
		default:
			e.Values, damage = index.UnpackValues(e.Packed)
			e.Packed = nil
		}
		if err != nil {
			return entries[:i], nil, err
		}
		if damage != nil {
			return entries[:i+1], damage, nil
		}
	}
	return entries, found, nil
}

// readSpilled completes a record from its spill. damage says why the spill cannot be
// that record's.
//
// The bytes are not checked here but with the chain of checksums, which is of the whole record.
func (d *Dir) readSpilled(e *runfile.Entry) (damage, err error) {
	var parts [][]byte
	next, last := spillKeys(e.Spill)
	for n := readOnce; n == readOnce && damage == nil; {
		n = 0
		d.hook.ReadParts()
		err := d.readIndex(func(db *sqlite.Conn) error {
			return db.Each(getParts, func(r *sqlite.Row) error {
				if r.Int64(0) != next {
					damage = fmt.Errorf("record %d lacks a part", e.Seq)
				}
				parts = append(parts, r.Bytes(1))
				n++
				next++
				return nil
			}, next, last, int64(readOnce))
		})
		if err != nil {
			return nil, err
		}
	}
	text := bytes.Join(parts, nil)
	if e.SpillBytes = int64(len(text)); damage == nil {
		if damage = index.UnpackSpill(e, text); damage != nil {
			damage = fmt.Errorf("record %d: %w", e.Seq, damage)
		}
	}
	return damage, nil
}
