package store

import (
	"crypto/rand"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Run is the handle of a run for the one goroutine that owns it. It keeps the
// records that are not flushed yet, no descriptor and no goroutine. Of several
// handles of one run the first that commits lives on.
type Run struct {
	dir     *Dir
	graph   *workflow.Graph
	row     index.Row
	doc     string // of the definition, before the first commit
	fresh   bool   // the index does not know the run
	adopted bool   // it comes from another directory
	forked  int64  // number of the run that it is a fork of, which must be there at its first commit; 0 if none
	dead    error  // why the handle cannot be used any more

	unflushed []runfile.Entry // committed since the last Flush
	bytes     int64           // that they take
	total     int64           // bytes of the file as it was loaded, and of all records since
	size      atomic.Int64    // of the file

	request commitRequest
	// The commit under way:
	pending  []runfile.Entry // its records
	next     Head            // the head of the run after it
	dropped  bool            // it drops the artifacts of the run
	listings []listing       // the tokens that it changes in the lists of all runs
	state    []driver.Value  // the columns of next, if they change
	hash     string          // hash of the input, before the first commit
	texts    []listed        // the encoded texts of listings, one for each
	refs     []index.BlobRef // the blobs to which its records refer
	told     []OutboxRow     // the events that it adds to the outbox
}

// New returns the handle of a run that does not exist yet. Nothing is written
// before its first Commit, which fails with workflow.ErrRunExists if the id is
// taken by then. Of head, what does not change with commits is kept; Run must
// be set.
func (d *Dir) New(head Head, g *workflow.Graph) *Run {
	d.definitions.addGraph(g)
	head.Workflow, head.Version, head.Definition = g.Definition.Name, runfile.VersionOf(g), g.Hash
	head.Status, head.Seq, head.File = workflow.RunCreated, 0, ""
	if head.Room = 0; head.Root == "" {
		head.Room = g.Limits.Descendants
	}
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	r := d.newHandle(index.Row{
		Head: head, Num: d.lastNum.Add(1), Nonce: binary.LittleEndian.Uint64(nonce[:]), Sum: runfile.FirstSum(head.Run),
		Sound: [index.RowPartCount]bool{true, true, true, true, true},
	}, g)
	r.fresh = true
	return r
}

func (d *Dir) newHandle(row index.Row, g *workflow.Graph) *Run {
	r := &Run{dir: d, graph: g, row: row}
	r.size.Store(row.FileSize)
	r.total = row.FileSize
	r.request = commitRequest{apply: r.writeCommit, answer: make(chan error, 1)}
	return r
}

// Commit makes records durable, with s as the state after them. Their sequences must go
// on from the last commit. It blocks until that is done. After any error the handle is
// dead; with ErrUnknown it may have been done: load the run again. It fails with
// ErrNoSpace, ErrFenced, ErrClosed, or, at the first commit, with workflow.ErrRunExists.
func (r *Run) Commit(s *state.State, records []decision.Record) error {
	return r.CommitAndTell(s, records, nil)
}

// CommitAndTell is Commit that puts events into the outbox in the same transaction, to be
// published. While that is full it waits before it begins.
func (r *Run) CommitAndTell(s *state.State, records []decision.Record, events []decision.Event) error {
	if r.dead != nil {
		return r.dead
	}
	if len(records) == 0 {
		return nil
	}
	err := r.encodeRecords(records)
	if err == nil {
		r.setNext(s, records)
		r.next.Artifacts, r.dropped = finalArtifacts(s, r.dir.options.KeepArtifacts)
		r.listings = listingsAt(s, records[len(records)-1].At)
		err = r.encodeNext()
	}
	if err == nil {
		err = r.encodeTold(events)
	}
	if err == nil {
		err = r.commitPending()
	}
	if err != nil {
		r.dead = fmt.Errorf("commit run %q: %w", string(r.row.Run), err)
		return r.dead
	}
	r.advanceHandle()
	return nil
}

// encodeRecords encodes the records of a commit and chains them.
func (r *Run) encodeRecords(records []decision.Record) error {
	r.pending = r.pending[:0]
	seq, sum := r.row.Seq, r.row.Sum
	for _, rec := range records {
		e, err := rec.Encode()
		if err != nil {
			return err
		}
		if rec.Seq != seq+1 || rec.Seq > index.MaxSeq {
			return fmt.Errorf("record %d after record %d", rec.Seq, seq)
		}
		entry := runfile.Entry{Encoded: e}
		if r.dir.sealer.IsOn() {
			if err := r.dir.sealEntry(r.row.Run, &entry); err != nil {
				return err
			}
		}
		seq, sum = rec.Seq, sum.SumAfter(&entry.Encoded)
		entry.Sum = sum
		r.pending = append(r.pending, entry)
	}
	return nil
}

// finalArtifacts returns the artifacts of a run's outcome, and whether those that were
// staged are dropped.
func finalArtifacts(s *state.State, keep bool) (out []workflow.Artifact, dropped bool) {
	switch {
	case !s.Status.Final():
		return nil, false
	case s.Status == workflow.RunCompleted || keep:
		return s.Artifacts, false
	}
	return nil, len(s.Artifacts) > 0
}

// commitPending makes the batch durable.
func (r *Run) commitPending() error {
	r.dir.flusher.waitForBacklog()
	if len(r.told) > 0 {
		r.dir.outbox.waitForRoom(r.dir.failed)
	}
	if err := r.dir.spillLarge(r.pending); err != nil {
		return err
	}
	for i := range r.pending {
		if r.pending[i].Spill == 0 {
			r.request.bytes += int(r.pending[i].ByteSize())
		}
	}
	err := r.dir.submitRequest(&r.request)
	if err != nil {
		r.dir.unspillFailed(r.row.Num, r.pending, err)
	}
	return err
}

// setNext sets the row of the run after records, with s as the state after them.
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
func (r *Run) writeCommit(db *sqlite.Conn) error {
	if err := r.writeRow(db); err != nil {
		return err
	}
	r.dir.tenants.countBytes(r.next.Tenant, r.pendingBytes())
	if err := r.writeListings(db); err != nil {
		return err
	}
	if err := r.writeRefs(db); err != nil {
		return err
	}
	r.dir.hook.Hit("commit.row")
	for i := range r.pending {
		if err := index.AppendLog(db, r.row.Num, &r.pending[i]); err != nil {
			return err
		}
	}
	return r.writeTold(db)
}

// writeRow brings the run's row up to date, and refuses if that is not the one
// that the handle knows.
func (r *Run) writeRow(db *sqlite.Conn) error {
	end := &r.pending[len(r.pending)-1]
	r.dir.counts.noteIncident(r.row.Num, &r.row.Head, &r.next)
	last := index.WithCRC(r.row.Num, end.Seq, end.Sum[:], column.Millis(end.At))
	if r.fresh {
		return r.insertRow(db, last)
	}
	text := advanceRun
	if r.state != nil {
		text = restateRun
	}
	n, err := db.Exec(text, slices.Concat(last, r.state, []driver.Value{r.row.Num, r.row.Seq})...)
	if err == nil && n == 0 {
		err = refuseRequest("%w: another handle has committed behind record %d", ErrFenced, r.row.Seq)
	}
	if err == nil && r.next.Status != r.row.Status {
		r.dir.counts.countRun(r.next.Workflow, r.row.Status, -1)
		r.dir.counts.countRun(r.next.Workflow, r.next.Status, 1)
	}
	return err
}

// changesState reports whether a commit changes more of the row than its sequence.
func (r *Run) changesState() bool {
	a, b := &r.row.Head, &r.next
	return a.Status != b.Status || !a.Alarm.Equal(b.Alarm) || !a.EndedAt.Equal(b.EndedAt) ||
		!reflect.DeepEqual(a.Failure, b.Failure) || a.Output != nil || b.Output != nil
}

// insertRow writes the row of a new run, of which last is the last part but its file.
func (r *Run) insertRow(db *sqlite.Conn, last []driver.Value) error {
	h, num := &r.next, r.row.Num
	root, room, err := r.readRoom(db, h.Root)
	if err == nil {
		err = r.checkForked(db)
	}
	if err != nil {
		return err
	}
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
func (r *Run) stateValues(output driver.Value) ([]driver.Value, error) {
	h := &r.next
	texts, err := r.dir.sealState(h.Run, [3]driver.Value{output, column.FailureText(h.Failure), index.ArtifactsText(h.Artifacts)})
	return index.WithCRC(r.row.Num, int64(h.Status), alarmValue(h), column.Millis(h.EndedAt), texts[0], texts[1], texts[2]), err
}

// alarmValue returns the alarm of a run that can still change.
func alarmValue(h *Head) any {
	if h.Status.Final() {
		return nil
	}
	return column.Millis(h.Alarm)
}

// advanceHandle makes the handle stand behind the records that are durable now.
func (r *Run) advanceHandle() {
	if r.fresh {
		r.fresh, r.doc, r.hash = false, "", ""
		r.dir.definitions.markStored(r.next.Definition)
	}
	r.row.Head, r.row.Sum = r.next, r.pending[len(r.pending)-1].Sum
	n := r.pendingBytes()
	r.bytes += n
	r.total += n
	r.unflushed = append(r.unflushed, r.pending...)
	clear(r.pending)
	r.state, r.texts, r.listings = nil, nil, nil
	r.countTold()
}

// pendingBytes returns about how many bytes the records take that are being committed.
func (r *Run) pendingBytes() (n int64) {
	for i := range r.pending {
		n += r.pending[i].ByteSize()
	}
	return n
}

// Head returns the run's row as the last commit left it.
func (r *Run) Head() Head { return r.row.Head }

// Unflushed returns how many records were committed since the last Flush,
// and about how many bytes of the log they take.
func (r *Run) Unflushed() (records int, bytes int64) { return len(r.unflushed), r.bytes }

// Bytes returns about how many bytes the run takes on the disk: its file as it was when
// the handle was made, with the records that were not in it, and those committed since.
func (r *Run) Bytes() int64 { return r.total }

// Flush has the run's file brought up to date: ch is what has changed in the state
// since the last call, events what has happened. Both belong to the store from now on.
// It returns at once. done, which may be nil and must not block, is called when the
// file is durable and the records are read from it, or with an error; usually from
// another goroutine, but before Flush returns if the handle is dead. After an error the
// next Flush tries again.
func (r *Run) Flush(ch state.Changes, events []decision.Event, done func(error)) {
	err := r.queueFlush(&flushRequest{changes: ch, events: events, entries: r.unflushed, seq: r.row.Seq, sum: r.row.Sum, done: done, size: &r.size})
	if err != nil && done != nil {
		done(fmt.Errorf("flush run %q: %w", string(r.row.Run), err))
	}
}

func (r *Run) queueFlush(f *flushRequest) error {
	switch {
	case r.dead != nil:
		return r.dead
	case r.fresh:
		return fmt.Errorf("%w: %q", ErrRunNotFound, string(r.row.Run))
	}
	r.unflushed, r.bytes = nil, 0
	return r.dir.flusher.addRequest(&r.row, f)
}

// Close ends the use of the handle. Flushes that it asked for are still made.
func (r *Run) Close() error {
	if r.dead == nil {
		r.dead = ErrClosed
	}
	r.unflushed, r.pending = nil, nil
	return nil
}
