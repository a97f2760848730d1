package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A checksum chains the records of a run: each is of a record and of the
// checksum before. Large values are covered through their hashes, which stand
// in the record.
type checksum [sha256.Size]byte

// firstSum returns the checksum before the first record of a run.
func firstSum(id workflow.RunID) checksum { return sha256.Sum256([]byte("pawl run " + string(id))) }

func (c *checksum) setBytes(b []byte) bool { return copy(c[:], b) == len(c) && len(b) == len(c) }

// sumAfter returns the checksum of the record after c. Lengths make it unambiguous.
func (c checksum) sumAfter(e *decision.Encoded) checksum {
	var numbers [6 * 8]byte
	for i, n := range [...]uint64{
		uint64(e.Seq), uint64(e.At.UnixMilli()), uint64(e.Epoch), uint64(e.Planner),
		uint64(len(e.Message)), uint64(len(e.Decisions)),
	} {
		binary.BigEndian.PutUint64(numbers[8*i:], n)
	}
	h := sha256.New()
	h.Write(c[:])
	h.Write(numbers[:])
	pace.Write(h, e.Message)
	pace.Write(h, e.Decisions)
	var out checksum
	h.Sum(out[:0])
	return out
}

// An entry is a record as the log and the journal keep it.
type entry struct {
	decision.Encoded
	sum   checksum
	spill int64  // number of its spill; 0 without
	vals  []byte // its large values as the log has them, until completeEntries
}

// byteSize returns about how many bytes the entry takes.
func (e *entry) byteSize() int64 {
	n := len(e.Message) + len(e.Decisions) + 100
	for hash, raw := range e.Values.All() {
		n += len(hash) + len(raw)
	}
	return int64(n)
}

// maxSeq is the largest sequence that fits a key of the log.
const maxSeq = 1<<32 - 1

func logKey(num, seq int64) int64 { return num<<32 | seq }

const (
	putLog    = `INSERT INTO log (key, at, epoch, planner, parts, message, decisions, vals, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	getLog    = `SELECT key & 4294967295, at, epoch, planner, parts, message, decisions, vals, sum FROM log WHERE key BETWEEN ? AND ? ORDER BY key`
	deleteLog = `DELETE FROM log WHERE key BETWEEN ? AND ?`
)

// appendLog inserts a record of run num into the log.
func appendLog(db *sqlite.Conn, num int64, e *entry) error {
	var parts, vals any
	message, decisions := e.Message, e.Decisions
	switch {
	case e.spill != 0:
		parts, message, decisions = e.spill, []byte{}, []byte{}
	case e.Values.Len() > 0:
		vals = packValues(e.Values)
	}
	_, err := db.Exec(putLog, logKey(num, e.Seq), e.At.UnixMilli(), int64(e.Epoch), int64(e.Planner), parts, message, decisions, vals, e.sum[:])
	return err
}

// readLog returns all records of run num behind a sequence as the log has them, for
// completeEntries. If a row of the log is not a record, damage says why: it is the last
// one returned, and the rows behind it are not read.
func readLog(db *sqlite.Conn, num, after int64) (out []entry, damage, err error) {
	err = db.Each(getLog, func(r *sqlite.Row) error {
		if damage != nil {
			return nil
		}
		var e entry
		e, damage = readEntry(r)
		out = append(out, e)
		return nil
	}, logKey(num, after+1), logKey(num, maxSeq))
	return out, damage, err
}

// completeEntries adds large values and spills to the records that readLog has returned. It
// holds the lock for a few parts of a spill at a time, for the records may be large. found is
// the damage that readLog has found; damage is of the last record returned.
func (d *Dir) completeEntries(entries []entry, found error) (out []entry, damage, err error) {
	for i := range entries {
		e := &entries[i]
		switch {
		case found != nil && i == len(entries)-1: // it is not a record
		case e.spill != 0:
			damage, err = d.readSpilled(e)
		default:
			e.Values, damage = unpackValues(e.vals)
			e.vals = nil
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

func readEntry(r *sqlite.Row) (entry, error) {
	e := entry{Encoded: decision.Encoded{
		Seq: r.Int64(0), At: time.UnixMilli(r.Int64(1)).UTC(), Epoch: workflow.Epoch(r.Int64(2)),
		Planner: r.Int(3), Message: r.Bytes(5), Decisions: r.Bytes(6),
	}}
	if !r.Null(4) {
		e.spill = r.Int64(4)
	}
	if !e.sum.setBytes(r.Bytes(8)) {
		return e, errors.New("its checksum has the wrong size")
	}
	e.vals = r.Bytes(7)
	return e, nil
}

// checkFollows checks that e comes next after the record with the given sequence and
// checksum.
func (e *entry) checkFollows(seq int64, sum checksum) error {
	if e.Seq != seq+1 {
		return fmt.Errorf("record %d follows record %d", e.Seq, seq)
	}
	if want := sum.sumAfter(&e.Encoded); !bytes.Equal(want[:], e.sum[:]) {
		return fmt.Errorf("record %d does not have its checksum", e.Seq)
	}
	return nil
}
