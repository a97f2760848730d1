package store

import (
	"context"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// History returns the journal of a run as of one commit: the file's part, then
// the log's, from record 1 without a gap. Its checksums are verified on the
// way. An error ends it.
//
// It is what a run can be replayed from, and is read without its owner.
func (d *Dir) History(id workflow.RunID) decision.History {
	return d.HistoryUntil(context.Background(), id, 0)
}

// HistoryUntil is History without the records up to a sequence, which are read but not decoded, and until ctx is done, with whose error it
// ends then.
//
// The records before are read because the chain of checksums begins with the first one.
func (d *Dir) HistoryUntil(ctx context.Context, id workflow.RunID, after int64) decision.History {
	return func(yield func(decision.Record, error) bool) {
		snap, err := d.openSnapshot(ctx, id)
		if err != nil {
			yield(decision.Record{}, err)
			return
		}
		defer snap.Close()
		for e, err := range snap.Journal() {
			if err == nil && e.Seq <= after {
				continue
			}
			var r decision.Record
			if err == nil {
				if r, err = snap.DecodeEntry(&e); err != nil {
					err = snap.damageOf(snap.sourceOf(e.Seq), "a record cannot be read", err)
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Events returns what has happened in a run behind a sequence, as of one
// commit: the file's events, then those of the log's records. An error ends it.
//
// The events of flushed records are rows of the file; those of records in the log are derived
// again, by applying these.
func (d *Dir) Events(id workflow.RunID, after int64) iter.Seq2[decision.Event, error] {
	return d.EventsUntil(context.Background(), id, after)
}

// EventsUntil is Events until ctx is done, with whose error it ends then.
func (d *Dir) EventsUntil(ctx context.Context, id workflow.RunID, after int64) iter.Seq2[decision.Event, error] {
	return func(yield func(decision.Event, error) bool) {
		snap, err := d.openSnapshot(ctx, id)
		if err != nil {
			yield(decision.Event{}, err)
			return
		}
		defer snap.Close()
		flushed := runfile.ReadEvents(snap.Content, after)
		for e, err := range flushed {
			if err != nil {
				err = snap.damageOf(snap.File, "its events are damaged", err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		if len(snap.entries) > 0 {
			if _, err := d.GraphUntil(ctx, snap.Definition); err != nil { // which they are derived with
				yield(decision.Event{}, err)
				return
			}
		}
		later, err := snap.laterEvents()
		if err != nil {
			yield(decision.Event{}, err)
			return
		}
		for _, e := range later {
			if e.Seq > after && !yield(e, nil) {
				return
			}
		}
	}
}

// laterEvents derives the events of the log's records.
func (s *Snapshot) laterEvents() (out []decision.Event, err error) {
	if len(s.entries) == 0 {
		return nil, nil
	}
	_, err = s.Replay(func(es []decision.Event) { out = append(out, es...) })
	return out, err
}

// maxForked bounds how much of a run is read for a fork, which is in memory as a whole:
// the bytes of its file and of the records behind it.
const maxForked = 128 << 20

// A ForkSource is a run that is to be forked, as of one commit.
//
// It is independent of the run, which goes on and may be purged. Records are decoded and in
// order.
type ForkSource struct {
	Head    Head
	Records []decision.Record // all, from the first on
	num     int64
	graph   *compiled.Graph // that it began with
}

// NewForkSource returns a run that is not in a directory, with its records from the first on. It fails with a
// *workflow.LimitError if it is too large. Their planner must have decided them so: nothing is checked here.
func NewForkSource(head Head, g *compiled.Graph, records []decision.Record) (*ForkSource, error) {
	size := int64(0)
	for i := range records {
		e, err := records[i].Encode()
		if err != nil {
			return nil, fmt.Errorf("fork: %w", err)
		}
		size += int64(len(e.Message) + len(e.Decisions))
		for _, raw := range e.Values.All() {
			size += int64(len(raw))
		}
	}
	if size > maxForked {
		return nil, &workflow.LimitError{Limit: "bytes of a run that is forked", Max: maxForked, Got: size}
	}
	return &ForkSource{Head: head, Records: records, graph: g}, nil
}

// BlobRefs returns the hashes of the blobs that some records of the run refer to.
func (f *ForkSource) BlobRefs(records []decision.Record) []string {
	return BlobRefs(f.graph, records...)
}

// BlobRefs returns the hashes of the blobs that some records of a run that began with g refer to.
func BlobRefs(g *compiled.Graph, records ...decision.Record) (hashes []string) {
	var refs []index.BlobRef
	for i := range records {
		refs = index.AppendRefs(refs, &records[i], g)
	}
	for _, r := range refs {
		hashes = append(hashes, r.Hash)
	}
	return hashes
}

// ReadForkSource reads a run that is to be forked. It fails with ErrRunNotFound, with
// ErrCorrupt if its journal is damaged, with a *workflow.LimitError if it is too large, and with the error of ctx.
//
// A fork copies records and holds all of them in memory, which the bound limits.
func (d *Dir) ReadForkSource(ctx context.Context, id workflow.RunID) (*ForkSource, error) {
	snap, err := d.openSnapshot(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	defer snap.Close()
	size := snap.FileSize
	for _, e := range snap.entries {
		size += e.ByteSize()
	}
	if size > maxForked {
		return nil, &workflow.LimitError{Limit: "bytes of a run that is forked", Max: maxForked, Got: size}
	}
	out := &ForkSource{Head: snap.Head, num: snap.Num}
	if out.graph, err = d.GraphUntil(ctx, snap.Definition); err != nil {
		return nil, err
	}
	for e, err := range snap.Journal() {
		if err != nil {
			return nil, fmt.Errorf("fork: %w", err)
		}
		r, err := snap.DecodeEntry(&e)
		if err != nil {
			return nil, snap.damageOf(snap.sourceOf(e.Seq), "a record cannot be read", err)
		}
		out.Records = append(out.Records, r)
	}
	return out, nil
}

// Replay returns the state of the run after some of its records, and calls each, unless that is
// nil, after every one. It fails with a *CorruptError.
//
// The state is as it was after the last of them, however the run went on.
func (f *ForkSource) Replay(records []decision.Record, each func(*state.State, *decision.Record)) (*state.State, error) {
	s := state.NewState(f.Head.Run, f.graph)
	for i := range records {
		if err := runfile.ApplyRecord(s, &records[i], func([]decision.Event) {}); err != nil {
			return nil, &CorruptError{Run: f.Head.Run, File: f.Head.File, What: "a record does not fit the state", Err: err}
		}
		if each != nil {
			each(s, &records[i])
		}
	}
	return s, nil
}

// NewFork is New for a fork of a run, with the same definition, input, tenant and labels. Its first
// Commit fails with ErrRunNotFound if that run was purged meanwhile, whose blobs may then be
// gone.
func (d *Dir) NewFork(id workflow.RunID, of *ForkSource) (*Run, error) {
	if of == nil || of.graph == nil {
		return nil, fmt.Errorf("fork: %w: it was not read", ErrRunNotFound)
	}
	r := d.New(Head{Run: id, InputHash: of.Head.InputHash, Tenant: of.Head.Tenant, Labels: of.Head.Labels}, of.graph)
	r.forked = of.num
	return r, nil
}

const hasRun = `SELECT 1 FROM runs WHERE num = ?`

// checkForked refuses a fork of a run that is not there any more.
//
// The blobs that the records refer to are kept as long as a run refers to them. If the run was
// purged before the fork refers to them as well, they may have been collected.
func (r *Run) checkForked(db *sqlite.Conn) error {
	if r.forked == 0 {
		return nil
	}
	found, err := db.One(hasRun, func(*sqlite.Row) error { return nil }, r.forked)
	if err == nil && !found {
		err = refuseRequest("%w: %q was purged", ErrRunNotFound, string(r.next.ForkedFrom.Run))
	}
	return err
}
