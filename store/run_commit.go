package store

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// encodeRecords encodes the records of a commit and chains them.
//
// Each record carries the checksum of itself and of all before it, from the run's id on; row and
// file name the last one. So a record that is changed, missing, or of another run is noticed when
// the run is loaded, and no two histories of one run can be mixed. Values are sealed before the
// checksum is made: whether a directory is whole can be seen without the key.
//
// A record whose sequence does not follow is a fault of the caller; it is refused here, before
// anything is written.
func (r *Run) encodeRecords(records []decision.Record) error {
	r.pending = r.pending[:0]
	// They stay in memory until the file has them, and the log if that is so.
	entries := make([]runfile.Entry, len(records))
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	seq, sum := r.row.Seq, r.row.Sum
	for i, rec := range records {
		e, used, err := rec.EncodeWith(*scratch)
		if err != nil {
			return err
		}
		if cap(used) <= maxScratch {
			*scratch = used
		}
		if rec.Seq != seq+1 || rec.Seq > index.MaxSeq {
			return fmt.Errorf("record %d after record %d", rec.Seq, seq)
		}
		entry := &entries[i]
		entry.Encoded = e
		if r.dir.sealer.IsOn() {
			if err := r.dir.sealEntry(r.row.Run, entry); err != nil {
				return err
			}
		}
		seq, sum = rec.Seq, sum.SumAfter(&entry.Encoded)
		entry.Sum = sum
		r.pending = append(r.pending, entry)
	}
	return nil
}

// scratches has the memory in which records are encoded: how long one becomes is known only then.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// maxScratch bounds what is kept of it: few records are larger.
const maxScratch = 64 << 10

// finalArtifacts returns the artifacts of a run's outcome, and whether those that were
// staged are dropped.
//
// The artifacts of a completed run count; those that a failed one had staged are dropped, with
// their references to blobs, unless Options.KeepArtifacts says otherwise.
func finalArtifacts(s *state.State, keep bool) (out []workflow.Artifact, dropped bool) {
	switch {
	case !s.Status.Final():
		return nil, false
	case s.Status == workflow.RunCompleted || keep:
		return s.Artifacts, false
	}
	return nil, len(s.Artifacts) > 0
}

// setNext sets the row of the run after records, with s as the state after them.
//
// It is kept apart from row until the commit has succeeded. The first state gives the parts
// that never change after the first commit: when the run was started and from which run it was
// forked.
func (r *Run) setNext(s *state.State, records []decision.Record) {
	r.findRefs(records)
	r.next = r.row.Head
	r.next.Seq, r.next.Status, r.next.Alarm = records[len(records)-1].Seq, s.Status, s.Alarm()
	r.next.EndedAt, r.next.Output, r.next.Failure = s.EndedAt, s.Output, s.FailureOrIncident()
	if r.fresh {
		r.next.StartedAt, r.next.ForkedFrom = s.StartedAt, s.ForkedFrom
	}
}

// encodeNext encodes what may be large: nothing else can be committed while a commit
// is written.
//
// Most commits change the sequence and nothing else that the row says: then state stays nil, and
// the transaction writes the last part of the row only, with its own checksum. A change of the
// status, the alarm, the output or the failure rewrites the part that has them.
func (r *Run) encodeNext() (err error) {
	if r.fresh {
		if r.doc, err = r.dir.storedDocument(r.graph); err == nil {
			r.hash, err = r.dir.sealer.SealText(index.RunPlace(index.InputHashPlace, r.row.Run), r.next.InputHash)
		}
		if err != nil {
			return err
		}
	}
	r.state, r.texts, r.request.bytes = nil, make([]listed, len(r.listings)), 0
	if r.fresh || r.changesState() {
		output := column.ObjectText(r.next.Output)
		if r.state, err = r.stateValues(output); err != nil {
			return err
		}
		text, _ := output.(string)
		r.request.bytes = len(text)
	}
	for i := range r.listings {
		if r.texts[i], err = r.dir.sealListed(r.row.Run, &r.listings[i], r.listings[i].textsOf()); err != nil {
			return err
		}
		r.request.bytes += len(r.texts[i].input)
	}
	return nil
}

const (
	// A row has five parts, each with a checksum of its own: what never changes, the room, the
	// state, the last record, and the file. A statement that changes one part leaves the others
	// as they are, so that commits and flushes of one run do not have to know what the other
	// writes.
	insertRun = `INSERT INTO runs (num,
		id, workflow, version, definition, input_hash, parent, root, tenant, labels, nonce, started_at, forked_from, forked_record, start_crc, room, room_crc,
		status, alarm, ended_at, output, failure, artifacts, state_crc, seq, sum, at, last_crc,
		slot, filed, filed_sum, file_hash, file_size, file_crc)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
	getRoom    = `SELECT num, room, room_crc FROM runs WHERE id = ?`
	takeRoom   = `UPDATE runs SET room = ?, room_crc = ? WHERE num = ?`
	advanceRun = `UPDATE runs SET seq = ?, sum = ?, at = ?, last_crc = ? WHERE num = ? AND seq = ?`
	restateRun = `UPDATE runs SET seq = ?, sum = ?, at = ?, last_crc = ?,
		status = ?, alarm = ?, ended_at = ?, output = ?, failure = ?, artifacts = ?, state_crc = ? WHERE num = ? AND seq = ?`
)

// writeCommit runs the statements of a commit.
//
// The row comes first, because it is what refuses: a handle that is behind, or a new run whose id
// is taken, must not have written anything, since the transaction goes on with other requests.
// Lists, references to blobs, records and events follow, which all belong to the same instant:
// whoever looks at pawl.db sees all of it or none.
func (r *Run) writeCommit(db *sqlite.Conn) error {
	if err := r.dir.moveRunOf(db, r.row.Num, 0); err != nil {
		return err
	}
	if err := r.writeRow(db); err != nil {
		return err
	}
	r.dir.redo.noteStored(r)
	r.dir.tenants.countBytes(r.next.Tenant, r.pendingLogBytes())
	if err := r.writeListings(db); err != nil {
		return err
	}
	if err := r.writeRefs(db); err != nil {
		return err
	}
	r.dir.hook.Hit("commit.row")
	for _, e := range r.pending {
		if err := index.AppendLog(db, r.row.Num, e); err != nil {
			return err
		}
	}
	return r.writeTold(db)
}

// writeRow brings the run's row up to date, and refuses if that is not the one
// that the handle knows.
//
// The condition is the sequence of the last record that the handle knows. Two handles of one run
// can exist, since Load makes one whether or not there is another: of those the first that
// commits goes on, and the other one gets ErrFenced and loads the run again.
func (r *Run) writeRow(db *sqlite.Conn) error {
	end := r.pending[len(r.pending)-1]
	last := index.WithCRC(r.row.Num, end.Seq, end.Sum[:], column.Millis(end.At))
	if r.fresh {
		err := r.insertRow(db, last)
		if err == nil {
			r.dir.counts.noteIncident(r.row.Num, &r.row.Head, &r.next)
		}
		return err
	}
	text := advanceRun
	if r.state != nil {
		text = restateRun
	}
	n, err := db.Exec(text, slices.Concat(last, r.state, []driver.Value{r.row.Num, r.row.Seq})...)
	if err == nil && n == 0 {
		err = refuseRequest("%w: another handle has committed behind record %d", ErrFenced, r.row.Seq)
	}
	if err != nil {
		return err // and nothing is counted of it: others may be in the transaction
	}
	r.dir.counts.noteIncident(r.row.Num, &r.row.Head, &r.next)
	if r.next.Status != r.row.Status {
		r.dir.counts.countRun(r.next.Workflow, r.row.Status, -1)
		r.dir.counts.countRun(r.next.Workflow, r.next.Status, 1)
	}
	return nil
}

// changesState reports whether a commit changes more of the row than its sequence.
//
// Outputs are not compared, since they may be large; a run has one when it ends, and is written
// then.
func (r *Run) changesState() bool {
	a, b := &r.row.Head, &r.next
	return a.Status != b.Status || !a.Alarm.Equal(b.Alarm) || !a.EndedAt.Equal(b.EndedAt) ||
		!reflect.DeepEqual(a.Failure, b.Failure) || a.Output != nil || b.Output != nil
}

// insertRow writes the row of a new run; last is the last part of it but its file.
//
// An id is given once for as long as its run is not purged: of two starts at the same time one is
// refused with ErrRunExists, and its caller compares the definition and the input with those of
// the other. The root's room, the run that a fork comes from, the labels and the definition are
// looked at and written in the same transaction, so that a child whose root was purged, or a run
// whose definition was collected, cannot come to be.
func (r *Run) insertRow(db *sqlite.Conn, last []driver.Value) error {
	h, num := &r.next, r.row.Num
	root, room, err := r.readRoom(db, h.Root)
	if err == nil {
		err = r.checkForked(db)
	}
	if err != nil {
		return err
	}
	// The file part is that of a run without a file: slot 0, no record.
	n, err := db.Exec(insertRun, slices.Concat(
		index.RowWithCRC(num, string(h.Run), h.Workflow, int64(h.Version), h.Definition, r.hash,
			string(h.Parent), string(h.Root), h.Tenant, index.LabelsText(h.Labels), int64(r.row.Nonce), column.Millis(h.StartedAt), string(h.ForkedFrom.Run), h.ForkedFrom.Record),
		index.WithCRC(num, int64(h.Room)), r.state, last, index.WithCRC(num, int64(0), int64(0), nil, nil, int64(0)),
	)...)
	if err != nil {
		return err
	}
	if n == 0 {
		return &refusal{workflow.ErrRunExists}
	}
	if err := putLabels(db, num, h.Labels); err != nil {
		return err
	}
	r.dir.counts.countRun(h.Workflow, h.Status, 1)
	if root != 0 {
		if _, err := db.Exec(takeRoom, append(index.WithCRC(root, room-1), root)...); err != nil {
			return err
		}
	}
	return r.dir.storeDefinition(db, h.Definition, r.doc)
}

// stateValues returns what the row says of the run as it will be.
//
// Texts are sealed each for its own place, so that nobody can move one to another column or run.
func (r *Run) stateValues(output driver.Value) ([]driver.Value, error) {
	h := &r.next
	texts, err := r.dir.sealState(h.Run, [3]driver.Value{output, column.FailureText(h.Failure), index.ArtifactsText(h.Artifacts)})
	return index.WithCRC(r.row.Num, int64(h.Status), alarmValue(h), column.Millis(h.EndedAt), texts[0], texts[1], texts[2]), err
}

// alarmValue returns the alarm of a run that can still change.
//
// A run that has ended keeps none: nothing may wake it.
func alarmValue(h *Head) any {
	if h.Status.Final() {
		return nil
	}
	return column.Millis(h.Alarm)
}
