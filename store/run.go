package store

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/redo"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Run is the handle of a run for the one goroutine that owns it. It keeps the records that are not flushed yet, no descriptor
// and no goroutine. If a run has several handles, the first that commits lives on.
//
// The owner is the actor of the run, which plans on the state in memory and has the handle make each step durable. row is what
// the index says after the last commit of this handle; every commit states that as its condition, so that a handle which is
// behind, because another one has committed, is refused and writes nothing.
//
// The invariants between two calls: row.Seq and row.Sum are of the last durable record; unflushed are exactly the records that
// the handle has loaded or committed and not handed to a flush, without a gap; what pending, next and the fields behind them have
// is of no use. dead is set by the first error and stays: after it, nobody knows whether row is true, and the state in memory has
// records that may not be on the disk. The owner loads the run again.
type Run struct {
	dir     *Dir
	graph   *compiled.Graph
	row     index.Row
	doc     string // of the definition, before the first commit
	fresh   bool   // the index does not know the run
	adopted bool   // it comes from another directory
	forked  int64  // number of the run that it is a fork of, which must be there at its first commit; 0 if none
	dead    error  // why the handle cannot be used any more

	unflushed []*runfile.Entry // committed since the last Flush
	appended  int              // weight of the records that the redo log may have and pawl.db not, at most
	shown     []driver.Value   // the part RowState of the row as this handle has made it last; nil if it has not
	bytes     int64            // that they take
	total     int64            // bytes of the file as it was loaded, and of all records since
	size      atomic.Int64     // of the file

	request commitRequest
	// The commit under way:
	pending  []*runfile.Entry // its records
	next     Head             // the head of the run after it
	dropped  bool             // it drops the artifacts of the run
	listings []listing        // the tokens that it changes in the lists of all runs
	state    []driver.Value   // the columns of next, if they change
	hash     string           // hash of the input, before the first commit
	texts    []listed         // the encoded texts of listings, one for each
	refs     []index.BlobRef  // the blobs to which its records refer
	kept     []keptRow        // the values that its first commit keeps
	told     []OutboxRow      // the events that it adds to the outbox
	advance  *[]byte          // the commit as the redo log has it; nil if it does not go there
}

// New returns the handle of a run that does not exist yet. Nothing is written before its first Commit, which fails with
// state.ErrRunExists if the id is taken by then. The parts of head that do not change with commits are kept; Run must be set.
//
// The number and the nonce are drawn here, and are the run's own from now on, whether or not it comes to a commit. Only the root
// of a family has room for descendants; a child takes from its root's. Every part of its row counts as sound, since nothing was
// read.
func (d *Dir) New(head Head, g *compiled.Graph) *Run {
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

// newHandle makes what New and Load have in common. The request is made once and used for all
// commits: a commit allocates nothing for it.
func (d *Dir) newHandle(row index.Row, g *compiled.Graph) *Run {
	r := &Run{dir: d, graph: g, row: row}
	r.size.Store(row.FileSize)
	r.total = row.FileSize
	r.request = commitRequest{apply: r.writeCommit, answer: make(chan error, 1)}
	return r
}

// Commit makes records durable, with s as the state after them. Their sequences must go on from the last commit. It blocks until
// that is done. After any error the handle is dead; with ErrUnknown it may have been done: load the run again. It fails with
// ErrNoSpace, ErrFenced, ErrClosed, or, at the first commit, with state.ErrRunExists.
//
// It is the point at which a message counts: before it returns nil no effect of the records may leave the actor and no caller may
// be told, and after that nothing may take them back. The records of one call are committed together or not at all. s must be the
// state after all of them and is not kept.
func (r *Run) Commit(s *state.State, records []decision.Record) error {
	return r.CommitAndTell(s, records, nil)
}

// CommitAndTell is Commit that puts events into the outbox in the same transaction, to be published. While that is full it waits
// before it begins.
//
// An event in the outbox is committed with the record that it comes from, so that the feed neither publishes what was not
// committed, nor forgets what was.
//
// Everything that takes time is done before the request is submitted: the records are encoded, chained and sealed, the row and
// the lists are encoded. The transaction has only to write them, while all other runs wait.
func (r *Run) CommitAndTell(s *state.State, records []decision.Record, events []decision.Event) error {
	if r.dead != nil {
		return r.dead
	}
	if len(records) == 0 {
		return nil
	}
	// The head after the commit depends on the records, the listings on the state; both are
	// encoded last.
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
	// The records are durable now: the handle goes on behind them.
	r.advanceHandle()
	return nil
}

// commitPending makes the batch durable.
//
// It waits first, for the flusher if thousands of runs wait for their files, and for the feed if
// the outbox is full: the log of an engine whose disk or whose reader is slower than its runs
// would otherwise grow without bound. Waiting comes before spilling, so that no spill lies in
// the log whose record may not come for a while.
//
// A crash between the spills and the commit leaves parts that no record names, which Open drops.
func (r *Run) commitPending() error {
	r.dir.flusher.waitForBacklog()
	if len(r.told) > 0 {
		r.dir.outbox.waitForRoom(r.dir.failed)
	}
	large := r.advancesLarge()
	if !large {
		if err := r.dir.spillLarge(r.pending); err != nil {
			return err
		}
	}
	// A spilled record adds a row of a few bytes to the transaction, whatever its size.
	for _, e := range r.pending {
		if e.Spill == 0 {
			r.request.bytes += int(e.ByteSize())
		}
	}
	err := r.encodeAdvance(large)
	if err == nil && r.request.run == nil {
		err = r.dir.movePieces(r.row.Num, r.appended)
	}
	if err == nil {
		err = r.dir.submitRequest(&r.request)
	}
	r.dropAdvance()
	if err != nil {
		r.dir.unspillFailed(r.row.Num, r.pending, err)
	}
	return err
}

// advanceHandle makes the handle stand behind the records that are durable now.
//
// It is called after a commit that has succeeded, and nowhere else.
func (r *Run) advanceHandle() {
	if r.fresh {
		r.fresh, r.doc, r.hash, r.kept = false, "", "", nil
		r.dir.definitions.markStored(r.next.Definition)
	}
	// The next commit of this handle states these as its condition.
	r.row.Head, r.row.Sum = r.next, r.pending[len(r.pending)-1].Sum
	n := r.pendingBytes()
	r.addUnflushed(n)
	r.total += n
	r.dir.unfiled.NoteCommitted(r.row.Num, r.pending[0].Seq, r.row.Seq, r.pending[0].At)
	r.unflushed = append(r.unflushed, r.pending...)
	if r.appended += weighRecords(r.pending); r.request.run == nil {
		r.appended = 0
	}
	if r.state != nil {
		r.shown = r.state
	}
	clear(r.pending)
	r.state, r.texts, r.listings = nil, nil, nil
	r.countTold()
}

// pendingBytes returns about how many bytes the records have that are being committed.
func (r *Run) pendingBytes() (n int64) {
	for _, e := range r.pending {
		n += e.ByteSize()
	}
	return n
}

// pendingLogBytes returns about how many bytes they take in the log.
//
// The same measure is used by the SQL that counts the bytes of a tenant anew when the directory is opened: see logSize.
func (r *Run) pendingLogBytes() (n int64) {
	for _, e := range r.pending {
		n += e.LogSize()
	}
	return n
}

// Head returns the run's row as the last commit left it.
func (r *Run) Head() Head { return r.row.Head }

// Unflushed returns how many records were committed since the last Flush, and about how many bytes of the log they take.
//
// By them its owner decides when a flush is worth its cost: the file is written anew each time.
//
// Where the redo log has most of what all runs together have not flushed, it is roomy: a flush can wait.
func (r *Run) Unflushed() (records int, bytes int64, roomy bool) {
	return len(r.unflushed), r.bytes, r.dir.redo.on && r.dir.unflushed.Load() <= roomyBytes
}

// roomyBytes is how many bytes of records all runs together may have in memory before their usual bounds hold.
const roomyBytes = 2 * redo.RegionBytes

// addUnflushed counts bytes of records that the file lacks.
func (r *Run) addUnflushed(n int64) {
	r.bytes += n
	r.dir.unflushed.Add(n)
}

// Bytes returns about how many bytes the run takes: its file as it was when
// the handle was made, with the records that were not in it, and those committed since.
//
// The engine ends a run that has more than the limit runBytes of its definition allows.
func (r *Run) Bytes() int64 { return r.total }

// Flush has the run's file brought up to date: ch is what has changed in the state
// since the last call, events what has happened. Both belong to the store from now on.
// It returns at once. done, which may be nil and must not block, is called when the
// file is durable and the records are read from it, or when a backup holds the file back, behind
// which it is written; or with an error. That is usually from another goroutine, but before
// Flush returns if the handle is dead. After an error the next Flush tries again.
//
// Nothing depends on a flush but the time that loading takes and the size of the log: the records
// are durable already. So an owner asks for one when enough has come together, and when it
// passivates the run. From several requests for a run the worker makes one file.
//
// A flush that fails keeps its records and its changes in memory, in front of the next one of the
// same handle, since the state does not tell the same changes twice.
func (r *Run) Flush(ch state.Changes, events []decision.Event, done func(error)) {
	r.FlushTold(ch, [][]decision.Told{decision.TellEvents(events)}, done)
}

// FlushTold is Flush with the events of each commit, whose data are made when the file is written.
func (r *Run) FlushTold(ch state.Changes, told [][]decision.Told, done func(error)) {
	err := r.queueFlush(&flushRequest{changes: ch, told: told, entries: r.unflushed, seq: r.row.Seq, sum: r.row.Sum, state: r.shown, status: r.row.Status, done: done, size: &r.size})
	if err != nil && done != nil {
		done(fmt.Errorf("flush run %q: %w", string(r.row.Run), err))
	}
}

// queueFlush hands the records over to the flusher. A run that was never committed has no row
// that could name a file.
func (r *Run) queueFlush(f *flushRequest) error {
	switch {
	case r.dead != nil:
		return r.dead
	case r.fresh:
		return fmt.Errorf("%w: %q", ErrRunNotFound, string(r.row.Run))
	}
	f.estimateAdded(r.bytes)
	r.unflushed = nil
	r.addUnflushed(-r.bytes)
	return r.dir.flusher.addRequest(&r.row, f)
}

// Close ends the use of the handle. Flushes that it asked for are still made.
//
// Committed records are in the log, so nothing is lost if the last ones were not flushed.
func (r *Run) Close() error {
	if r.dead == nil {
		r.dead = ErrClosed
	}
	r.unflushed, r.pending = nil, nil
	r.addUnflushed(-r.bytes)
	return nil
}

// Load returns a handle of a run, its state as of the last commit, and the
// events that its file lacks. The state's TakeChanges returns what the file
// lacks as well: both go into the next Flush. It waits for flushes of the run that
// were asked for. It fails with ErrRunNotFound, and with ErrCorrupt or
// ErrVersion if the run cannot be trusted.
//
// It is the recovery of a run, after a crash as well as after it was passivated: the state of the
// file, with each record behind it applied as it was applied when it was planned. Nothing is
// planned anew, so the outcome does not depend on the version of the program or on the clock.
//
// The records that were applied are unflushed as far as the new handle is concerned. If a flush
// of an earlier handle is under way Load waits for it: the new handle would otherwise hand the
// same records to a flush once more, which refuses them because the file has them by then.
func (d *Dir) Load(id workflow.RunID) (*Run, *state.State, []decision.Event, error) {
	d.flusher.waitForRun(id, true)
	var events []decision.Event
	snap, s, err := d.loadState(context.Background(), id, func(es []decision.Event) { events = append(events, es...) })
	if err != nil {
		return nil, nil, nil, explainLoad("load", err)
	}
	r := d.newHandle(snap.Row, s.Graph)
	r.unflushed, r.appended = snap.entries, weighRecords(snap.entries)
	for _, e := range r.unflushed {
		r.addUnflushed(e.ByteSize())
	}
	r.total += r.bytes
	since := time.Time{}
	if len(r.unflushed) > 0 {
		since = r.unflushed[0].At
	}
	d.unfiled.NoteLoaded(snap.Row.Num, snap.Row.Flushed, snap.Row.Seq, since)
	return r, s, events, nil
}

// State returns the state of a run as of its last commit. It is the caller's
// own and independent of whoever owns the run.
//
// It neither waits for a flush nor makes a handle, so it disturbs nobody.
func (d *Dir) State(id workflow.RunID) (*state.State, error) {
	_, s, err := d.HeadAndState(context.Background(), id)
	return s, err
}

// HeadAndState returns the row of a run, and the state that State returns, as of one commit. It fails with the error of ctx when that is done.
func (d *Dir) HeadAndState(ctx context.Context, id workflow.RunID) (Head, *state.State, error) {
	snap, s, err := d.loadState(ctx, id, func([]decision.Event) {})
	if err != nil {
		return Head{}, nil, explainLoad("state", err)
	}
	return snap.Head, s, nil
}

// explainLoad says what was done to the error of a run that is there.
//
// That there is no such run is no failure, and stays as it is.
func explainLoad(what string, err error) error {
	if errors.Is(err, ErrRunNotFound) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// loadState makes the state of a run from its snapshot, whose file is closed when it returns.
func (d *Dir) loadState(ctx context.Context, id workflow.RunID, happened func([]decision.Event)) (*Snapshot, *state.State, error) {
	snap, err := d.openSnapshot(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer snap.Close()
	if _, err := d.GraphUntil(ctx, snap.Definition); err != nil { // Replay has it at hand
		return nil, nil, err
	}
	s, err := snap.Replay(happened)
	return snap, s, err
}

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
	last := &records[len(records)-1]
	r.next.Seq, r.next.At, r.next.Status, r.next.Alarm = last.Seq, last.At, s.Status, s.Alarm()
	r.next.EndedAt, r.next.Output, r.next.Failure = s.EndedAt, s.Output, s.FailureOrIncident()
	if r.fresh {
		r.next.StartedAt, r.next.ForkedFrom = s.StartedAt, s.ForkedFrom
	}
}

// encodeNext encodes what may be large: nothing else can be committed while a commit is written.
//
// Most commits change the sequence and nothing else that the row says: then state stays nil, and the transaction writes the last
// part of the row only, with its own checksum. A change of the status, the alarm, the output or the failure rewrites the part
// that has them.
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
	for _, k := range r.kept {
		r.request.bytes += len(k.text)
	}
	if r.fresh || r.changesState() {
		output := column.ObjectText(r.next.Output)
		if r.state, err = r.stateValues(output); err != nil {
			return err
		}
		text, _ := output.(string)
		r.request.bytes += len(text)
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
// The row comes first, because it is what refuses: a handle that is behind, or a new run whose id is taken, must not have written
// anything, since the transaction goes on with other requests. Lists, references to blobs, records and events follow, which all
// belong to the same instant: whoever looks at pawl.db sees all of it or none.
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

// writeRow brings the run's row up to date, and refuses if that is not the one that the handle knows.
//
// The condition is the sequence of the last record that the handle knows. Two handles of one run can exist, since Load makes one
// whether or not there is another: of those the first that commits goes on, and the other one gets ErrFenced and loads the run
// again.
func (r *Run) writeRow(db *sqlite.Conn) error {
	end := r.pending[len(r.pending)-1]
	last := index.WithCRC(r.row.Num, end.Seq, end.Sum[:], column.Millis(end.At))
	if r.fresh {
		err := r.insertRow(db, last)
		if err == nil {
			err = writeKept(db, r.kept)
		}
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
// Outputs are not compared, since they may be large; a run has one when it ends, and is written then.
func (r *Run) changesState() bool {
	a, b := &r.row.Head, &r.next
	return a.Status != b.Status || !a.Alarm.Equal(b.Alarm) || !a.EndedAt.Equal(b.EndedAt) ||
		!reflect.DeepEqual(a.Failure, b.Failure) || a.Output != nil || b.Output != nil
}

// insertRow writes the row of a new run; last is the last part of it but its file.
//
// An id is given once for as long as its run is not purged: of two starts at the same time one is refused with ErrRunExists, and
// its caller compares the definition and the input with those of the other. The root's room, the run that a fork comes from, the
// labels and the definition are looked at and written in the same transaction, so that a child whose root was purged, or a run
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
		return &refusal{state.ErrRunExists}
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
