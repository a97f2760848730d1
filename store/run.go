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
