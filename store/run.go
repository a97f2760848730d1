package store

import (
	"crypto/rand"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Run is the handle of a run for the one goroutine that owns it. It keeps the
// records that are not flushed yet, no descriptor and no goroutine. If a run
// has several handles, the first that commits lives on.
//
// The owner is the actor of the run, which plans on the state in memory and has the handle make
// each step durable. row is what the index says after the last commit of this handle; every
// commit states that as its condition, so that a handle which is behind, because another one has
// committed, is refused and writes nothing.
//
// The invariants between two calls: row.Seq and row.Sum are of the last durable record; unflushed
// are exactly the records that the handle has loaded or committed and not handed to a flush,
// without a gap; what pending, next and the fields behind them have is of no use. dead is set by
// the first error and stays: after it, nobody knows whether row is true, and the state in memory
// has records that may not be on the disk. The owner loads the run again.
type Run struct {
	dir     *Dir
	graph   *workflow.Graph
	row     index.Row
	doc     string // of the definition, before the first commit
	fresh   bool   // the index does not know the run
	adopted bool   // it comes from another directory
	forked  int64  // number of the run that it is a fork of, which must be there at its first commit; 0 if none
	dead    error  // why the handle cannot be used any more

	unflushed []*runfile.Entry // committed since the last Flush
	appended  int              // records that the redo log may have and pawl.db not, at most
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
	told     []OutboxRow      // the events that it adds to the outbox
	advance  *[]byte          // the commit as the redo log has it; nil if it does not go there
}

// New returns the handle of a run that does not exist yet. Nothing is written
// before its first Commit, which fails with workflow.ErrRunExists if the id is
// taken by then. The parts of head that do not change with commits are kept;
// Run must be set.
//
// The number and the nonce are drawn here, and are the run's own from now on, whether or not it
// comes to a commit. Only the root of a family has room for descendants; a child takes from its
// root's. Every part of its row counts as sound, since nothing was read.
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

// newHandle makes what New and Load have in common. The request is made once and used for all
// commits: a commit allocates nothing for it.
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
//
// It is the point at which a message counts: before it returns nil no effect of the records may
// leave the actor and no caller may be told, and after that nothing may take them back. The
// records of one call are committed together or not at all. s must be the state after all of them
// and is not kept.
func (r *Run) Commit(s *state.State, records []decision.Record) error {
	return r.CommitAndTell(s, records, nil)
}

// CommitAndTell is Commit that puts events into the outbox in the same transaction, to be
// published. While that is full it waits before it begins.
//
// An event in the outbox is committed with the record that it comes from, so that the feed
// neither publishes what was not committed, nor forgets what was.
//
// Everything that takes time is done before the request is submitted: the records are encoded,
// chained and sealed, the row and the lists are encoded. The transaction has only to write
// them, while all other runs wait.
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
	if err := r.dir.spillLarge(r.pending); err != nil {
		return err
	}
	// A spilled record adds a row of a few bytes to the transaction, whatever its size.
	for _, e := range r.pending {
		if e.Spill == 0 {
			r.request.bytes += int(e.ByteSize())
		}
	}
	err := r.encodeAdvance()
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
		r.fresh, r.doc, r.hash = false, "", ""
		r.dir.definitions.markStored(r.next.Definition)
	}
	// The next commit of this handle states these as its condition.
	r.row.Head, r.row.Sum = r.next, r.pending[len(r.pending)-1].Sum
	n := r.pendingBytes()
	r.bytes += n
	r.total += n
	r.unflushed = append(r.unflushed, r.pending...)
	if r.appended += len(r.pending); r.request.run == nil {
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

// Unflushed returns how many records were committed since the last Flush,
// and about how many bytes of the log they take.
//
// By them its owner decides when a flush is worth its cost: the file is written anew each time.
func (r *Run) Unflushed() (records int, bytes int64) { return len(r.unflushed), r.bytes }

// Bytes returns about how many bytes the run takes: its file as it was when
// the handle was made, with the records that were not in it, and those committed since.
//
// The engine ends a run that has more than the limit runBytes of its definition allows.
func (r *Run) Bytes() int64 { return r.total }

// Flush has the run's file brought up to date: ch is what has changed in the state
// since the last call, events what has happened. Both belong to the store from now on.
// It returns at once. done, which may be nil and must not block, is called when the
// file is durable and the records are read from it, or with an error; usually from
// another goroutine, but before Flush returns if the handle is dead. After an error the
// next Flush tries again.
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
	r.unflushed, r.bytes = nil, 0
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
	return nil
}
