package index

import (
	"errors"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
)

// MaxSeq is the largest sequence that fits a key of the log.
const MaxSeq = 1<<32 - 1

// LogKey returns the key of a record of run num in the log.
func LogKey(num, seq int64) int64 { return num<<32 | seq }

const (
	putLog = `INSERT INTO log (key, at, epoch, planner, parts, message, decisions, vals, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	getLog = `SELECT key & 4294967295, at, epoch, planner, parts, message, decisions, vals, sum FROM log WHERE key BETWEEN ? AND ? ORDER BY key`
)

// DeadRecords is the part of a query that selects the records in the log that files of runs
// hold already.
const DeadRecords = `FROM log CROSS JOIN runs ON num = log.key >> 32 WHERE log.key & 4294967295 <= filed`

// AppendLog inserts a record of run num into the log.
func AppendLog(db *sqlite.Conn, num int64, e *runfile.Entry) error {
	var parts, vals any
	message, decisions := e.Message, e.Decisions
	switch {
	case e.Spill != 0:
		parts, message, decisions = e.Spill, []byte{}, []byte{}
	case e.Values.Len() > 0:
		vals = PackValues(e.Values)
	}
	_, err := db.Exec(putLog, LogKey(num, e.Seq), e.At.UnixMilli(), int64(e.Epoch), int64(e.Planner), parts, message, decisions, vals, e.Sum[:])
	return err
}

// ReadLog returns all records of run num behind a sequence as the log has them: without
// their large values, which are in Packed, or in the parts of a spill. If a row of the log is not a record, damage says why: it is the last
// one returned, and the rows behind it are not read.
func ReadLog(db *sqlite.Conn, num, after int64) (out []*runfile.Entry, damage, err error) {
	err = db.Each(getLog, func(r *sqlite.Row) error {
		if damage != nil {
			return nil
		}
		var e *runfile.Entry
		e, damage = readEntry(r)
		out = append(out, e)
		return nil
	}, LogKey(num, after+1), LogKey(num, MaxSeq))
	return out, damage, err
}

// readEntry returns the record that a row of the log holds, as its bytes. The error says what shows already here that
// the row is damaged; whether the checksum fits is for the caller to find out.
func readEntry(r *sqlite.Row) (*runfile.Entry, error) {
	e := &runfile.Entry{Encoded: decision.Encoded{
		Seq: r.Int64(0), At: time.UnixMilli(r.Int64(1)).UTC(), Epoch: state.Epoch(r.Int64(2)),
		Planner: r.Int(3), Message: r.Bytes(5), Decisions: r.Bytes(6),
	}}
	if !r.Null(4) {
		e.Spill = r.Int64(4)
	}
	if !e.Sum.SetBytes(r.Bytes(8)) {
		return e, errors.New("its checksum has the wrong size")
	}
	e.Packed = r.Bytes(7)
	return e, nil
}
