package store

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

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
	graph   *workflow.Graph // that it began with
}

// NewForkSource returns a run that is not in a directory, with its records from the first on. It fails with a
// *workflow.LimitError if it is too large. Their planner must have decided them so: nothing is checked here.
func NewForkSource(head Head, g *workflow.Graph, records []decision.Record) (*ForkSource, error) {
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
func BlobRefs(g *workflow.Graph, records ...decision.Record) (hashes []string) {
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
