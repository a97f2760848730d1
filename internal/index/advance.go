package index

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
)

// An Advance is a commit that adds records to the log of a run and moves the run's row on, and
// changes nothing else in pawl.db. The redo log has such commits before pawl.db has them.
type Advance struct {
	Num     int64
	State   []driver.Value   // the part RowState of the row, with its checksum; nil if it stays
	Entries []*runfile.Entry // at least one
}

// stateColumns is how many columns the part RowState has, with its checksum.
const stateColumns = 7

// StateAlarm is where the part RowState has the alarm.
const StateAlarm = 1

// Last returns the part RowLast of the row, with its checksum.
func (a *Advance) Last() []driver.Value { return LastColumns(a.Num, a.Entries[len(a.Entries)-1]) }

// LastColumns returns the part RowLast of the row of run num whose last record is e, with its checksum.
func LastColumns(num int64, e *runfile.Entry) []driver.Value {
	return WithCRC(num, e.Seq, e.Sum[:], column.Millis(e.At))
}

// Append appends the advance as the redo log has it. After an error it returns what it was given.
func (a *Advance) Append(to []byte) ([]byte, error) {
	to = binary.AppendVarint(to, a.Num)
	to = binary.AppendUvarint(to, uint64(len(a.State)))
	var err error
	for _, v := range a.State {
		if to, err = sqlite.AppendValue(to, v); err != nil {
			return to, err
		}
	}
	to = binary.AppendUvarint(to, uint64(len(a.Entries)))
	for _, e := range a.Entries {
		to = binary.AppendVarint(to, e.Seq)
		to = binary.AppendVarint(to, e.At.UnixMilli())
		to = binary.LittleEndian.AppendUint64(to, uint64(e.Epoch)) //nolint:gosec // its 64 bits
		to = binary.AppendVarint(to, int64(e.Planner))
		for _, text := range [][]byte{e.Message, e.Decisions} {
			to = append(binary.AppendUvarint(to, uint64(len(text))), text...)
		}
		to = append(appendPackedValues(to, e), e.Sum[:]...)
	}
	return to, nil
}

// appendPackedValues appends the large values of a record, with their length before them.
func appendPackedValues(to []byte, e *runfile.Entry) []byte {
	if e.Values == nil {
		return append(binary.AppendUvarint(to, uint64(len(e.Packed))), e.Packed...)
	}
	size := 0
	for _, raw := range e.Values.All() {
		size += uvarintSize(len(raw)) + len(raw)
	}
	to = pace.Grow(binary.AppendUvarint(to, uint64(size)), size)
	for _, raw := range e.Values.All() {
		to = pace.Append(binary.AppendUvarint(to, uint64(len(raw))), raw...)
	}
	return to
}

// uvarintSize returns how many bytes a length takes as an uvarint.
func uvarintSize(n int) int {
	var buf [binary.MaxVarintLen64]byte
	return binary.PutUvarint(buf[:], uint64(n)) //nolint:gosec // a length
}

// packedValues returns the large values of a record, whether they are packed or not.
func packedValues(e *runfile.Entry) []byte {
	if e.Values == nil {
		return e.Packed
	}
	return PackValues(e.Values)
}

// errBadAdvance says that bytes are no advance.
var errBadAdvance = errors.New("it holds something that is no commit")

// CutAdvance cuts an advance off that Append has appended. The large values of its records are in Packed.
func CutAdvance(data []byte) (a Advance, rest []byte, err error) {
	r := sqlite.ValueReader{Rest: data}
	a.Num = r.ReadVarint()
	if n := r.ReadUvarint(); n == stateColumns {
		for range n {
			a.State = append(a.State, r.ReadValue())
		}
	} else if n != 0 {
		r.Bad = true
	}
	for n := r.ReadUvarint(); n > 0 && !r.Bad; n-- {
		a.Entries = append(a.Entries, readEntryOf(&r))
	}
	if r.Bad || len(a.Entries) == 0 {
		return Advance{}, nil, errBadAdvance
	}
	return a, r.Rest, nil
}

// readEntryOf reads a record of an advance. The record does not keep the bytes that it is read from.
func readEntryOf(r *sqlite.ValueReader) *runfile.Entry {
	e := &runfile.Entry{}
	e.Seq = r.ReadVarint()
	e.At = time.UnixMilli(r.ReadVarint()).UTC()
	if len(r.Rest) < 8 {
		r.Bad = true
		return e
	}
	e.Epoch, r.Rest = state.Epoch(binary.LittleEndian.Uint64(r.Rest)), r.Rest[8:]
	e.Planner = int(r.ReadVarint())
	for _, text := range []*[]byte{&e.Message, &e.Decisions, &e.Packed} {
		*text = bytes.Clone(r.ReadBytes())
	}
	if !e.Sum.SetBytes(r.Rest[:min(len(e.Sum), len(r.Rest))]) {
		r.Bad = true
		return e
	}
	r.Rest = r.Rest[len(e.Sum):]
	return e
}

// PatchRow returns a row of RunColumns with other parts RowLast and RowState, each with its checksum; a nil part stays.
func PatchRow(r *sqlite.Row, last, state []driver.Value) *sqlite.Row {
	values := slices.Clone(r.Values())
	copy(values[rowParts[RowLast].first:], last)
	copy(values[rowParts[RowState].first:], state)
	return sqlite.NewRow(values)
}

const (
	putAdvanced  = `INSERT INTO log (key, at, epoch, planner, message, decisions, vals, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	getAdvanced  = `SELECT num, seq, sum, at, last_crc, filed FROM runs WHERE num = ?`
	moveRow      = `UPDATE runs SET seq = ?, sum = ?, at = ?, last_crc = ? WHERE num = ?`
	moveAndState = `UPDATE runs SET seq = ?, sum = ?, at = ?, last_crc = ?,
		status = ?, alarm = ?, ended_at = ?, output = ?, failure = ?, artifacts = ?, state_crc = ? WHERE num = ?`
	getStatus = `SELECT workflow, status FROM runs WHERE num = ?`

	getRedo  = `SELECT value FROM meta WHERE key = 'redo'`
	putRedo  = `INSERT INTO meta (key, value) VALUES ('redo', ?) ON CONFLICT DO UPDATE SET value = excluded.value`
	dropRedo = `DELETE FROM meta WHERE key = 'redo'`
)

// A RedoMark names the redo log that may have commits which a pawl.db lacks.
type RedoMark struct {
	Life   uint64 // of the file; 0: no redo log
	Purged int64  // the highest number of a run that was purged in this life
}

// ReadRedoMark returns the mark of a pawl.db. It fails with ErrDamagedSecret.
func ReadRedoMark(db *sqlite.Conn) (m RedoMark, err error) {
	_, err = db.One(getRedo, func(r *sqlite.Row) error {
		value := r.Bytes(0)
		if len(value) != metaCRCSize+16 || !bytes.Equal(withCRC(value[metaCRCSize:]), value) {
			return ErrDamagedSecret
		}
		m.Life = binary.BigEndian.Uint64(value[metaCRCSize:])
		m.Purged = int64(binary.BigEndian.Uint64(value[metaCRCSize+8:])) //nolint:gosec // as it was written
		return nil
	})
	return m, err
}

// KeepRedoMark writes the mark, or removes it if it names no redo log.
func KeepRedoMark(db *sqlite.Conn, m RedoMark) (err error) {
	if m.Life == 0 {
		_, err = db.Exec(dropRedo)
		return err
	}
	value := binary.BigEndian.AppendUint64(nil, m.Life)
	value = binary.BigEndian.AppendUint64(value, uint64(m.Purged)) //nolint:gosec // it is positive
	_, err = db.Exec(putRedo, withCRC(value))
	return err
}

// PutRecords inserts the records behind a sequence into the log, but for those that are there.
func (a *Advance) PutRecords(db *sqlite.Conn, after int64) error {
	for _, e := range a.Entries {
		if e.Seq <= after {
			continue
		}
		var vals driver.Value
		if packed := packedValues(e); len(packed) > 0 {
			vals = packed
		}
		if _, err := db.Exec(putAdvanced, LogKey(a.Num, e.Seq), e.At.UnixMilli(), int64(e.Epoch), int64(e.Planner), e.Message, e.Decisions, vals, e.Sum[:]); err != nil {
			return err
		}
	}
	return nil
}

// MoveRow has the row of a run say what the parts RowLast and RowState are now; the latter stays if state is nil.
func MoveRow(db *sqlite.Conn, num int64, last, state []driver.Value) error {
	text := moveRow
	if state != nil {
		text = moveAndState
	}
	args := slices.Concat(last, state, []driver.Value{num})
	n, err := db.Exec(text, args...)
	if err == nil && n != 1 {
		err = errors.New("the row of a run is gone")
	}
	return err
}

// A Replay executes the advances of a redo log in a pawl.db, in their order. Records that are there already stay, so that
// the replay can be made again from the beginning, also if a part of it stands in pawl.db by itself.
type Replay struct {
	DB *sqlite.Conn
	// Whole says that nothing that was committed is missing before what was committed later. Otherwise a loss of power may
	// have taken commits of a run from pawl.db, behind which those of the redo log do not count.
	Whole bool
	// All has records put there also if the row says that they are, which may be damaged: a repair wants all there are.
	All  bool
	runs map[int64]*replayedRun
}

// A replayedRun is what the row of a run says.
type replayedRun struct {
	found  bool
	sound  bool  // its part RowLast is
	broken bool  // its commits do not count any more
	seq    int64 // of the last record
	filed  int64 // of the last one that its file has
}

// runOf returns what the row of a run says, which is read once.
func (r *Replay) runOf(num int64) (*replayedRun, error) {
	if run := r.runs[num]; run != nil {
		return run, nil
	}
	if r.runs == nil {
		r.runs = map[int64]*replayedRun{}
	}
	run := &replayedRun{}
	r.runs[num] = run
	_, err := r.DB.One(getAdvanced, func(x *sqlite.Row) error {
		run.found, run.sound, run.seq, run.filed = true, CRCMatches(x, 1, 4), x.Int64(1), x.Int64(5)
		return nil
	}, num)
	return run, err
}

// Execute executes the advances of one frame.
func (r *Replay) Execute(data []byte) error { return eachAdvance(data, r.executeAdvance) }

// ErrLacksCommits says that pawl.db lacks commits of a run that it has.
var ErrLacksCommits = errors.New("pawl.db lacks commits")

// CheckPresent fails with ErrLacksCommits if the row of a run is behind an advance of a frame. It changes nothing.
func (r *Replay) CheckPresent(data []byte) error {
	return eachAdvance(data, func(a *Advance) error {
		run, err := r.runOf(a.Num)
		if err == nil && run.found && run.sound && run.seq < a.Entries[len(a.Entries)-1].Seq {
			err = ErrLacksCommits
		}
		return err
	})
}

// CheckRows returns a function for the frames of a redo log, which fails with ErrLacksCommits if there is no row of a
// run that was not purged, as far as the highest number of one that was tells. It changes nothing.
func (r *Replay) CheckRows(purged int64) func(data []byte) error {
	return func(data []byte) error {
		return eachAdvance(data, func(a *Advance) error {
			run, err := r.runOf(a.Num)
			if err == nil && !run.found && a.Num > purged {
				err = ErrLacksCommits
			}
			return err
		})
	}
}

// CheckFrame fails if a frame has anything but advances.
func CheckFrame(data []byte) error { return eachAdvance(data, func(*Advance) error { return nil }) }

func eachAdvance(data []byte, f func(*Advance) error) error {
	for len(data) > 0 {
		a, rest, err := CutAdvance(data)
		if err == nil {
			err = f(&a)
		}
		if err != nil {
			return err
		}
		data = rest
	}
	return nil
}

// executeAdvance executes one advance. A run without a row was purged, or, where a loss of power takes commits, was never
// started.
//
// Records behind the last one that the row names are not in pawl.db, or were on their way there, and all before it are
// there or in the run's file. With Whole, records that do not follow the last one are put there all the same: a load of
// the run finds that one is missing. A damaged row is not believed, and stays as it is.
func (r *Replay) executeAdvance(a *Advance) error {
	run, err := r.runOf(a.Num)
	if err != nil || !run.found || run.broken {
		return err
	}
	if !run.sound {
		return a.PutRecords(r.DB, 0)
	}
	if !r.Whole && a.Entries[0].Seq > run.seq+1 {
		run.broken = true
		return nil
	}
	if r.All {
		if err := a.PutRecords(r.DB, run.filed); err != nil {
			return err
		}
	}
	last := a.Entries[len(a.Entries)-1].Seq
	if last <= run.seq {
		return nil
	}
	if err := a.PutRecords(r.DB, run.seq); err != nil {
		return err
	}
	run.seq = last
	return r.moveRow(a)
}

// moveRow brings the row up to date, with the counts of runs.
func (r *Replay) moveRow(a *Advance) error {
	if a.State != nil {
		var name string
		var before int64
		if _, err := r.DB.One(getStatus, func(x *sqlite.Row) error { name, before = x.Text(0), x.Int64(1); return nil }, a.Num); err != nil {
			return err
		}
		if after, _ := a.State[0].(int64); after != before {
			if err := countOne(r.DB, name, before, -1); err != nil {
				return err
			}
			if err := countOne(r.DB, name, after, 1); err != nil {
				return err
			}
		}
	}
	return MoveRow(r.DB, a.Num, a.Last(), a.State)
}

const (
	getCount  = `SELECT runs FROM run_counts WHERE workflow = ? AND status = ?`
	putCount  = `INSERT INTO run_counts (workflow, status, runs, crc) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET runs = excluded.runs, crc = excluded.crc`
	dropCount = `DELETE FROM run_counts WHERE workflow = ? AND status = ?`
)

// countOne counts one more run of a workflow and a status, or with -1 one less.
func countOne(db *sqlite.Conn, name string, status, n int64) error {
	runs := n
	if _, err := db.One(getCount, func(x *sqlite.Row) error { runs += x.Int64(0); return nil }, name, status); err != nil {
		return err
	}
	var err error
	if runs > 0 {
		_, err = db.Exec(putCount, RowWithCRC(name, status, runs)...)
	} else {
		_, err = db.Exec(dropCount, name, status)
	}
	return err
}
