package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/redo"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// maxAdvance is how many bytes a commit writes at most that goes into the redo log: a larger one leaves
// no room there for many others.
const maxAdvance = 512 << 10

// advances has the memory of commits that were encoded. A run that waits needs none.
var advances = sync.Pool{New: func() any { return new([]byte) }}

// encodeAdvance encodes a commit for the redo log, if it may go there: if it adds records and moves
// the row on, and changes nothing else in pawl.db. The memory is to be given back, by dropAdvance.
func (r *Run) encodeAdvance() (err error) {
	r.request.run = nil
	changesMore := r.fresh || r.dropped || len(r.listings) > 0 || len(r.refs) > 0 || len(r.told) > 0
	if !r.dir.redo.on || changesMore || r.request.bytes > maxAdvance {
		return nil
	}
	for _, e := range r.pending {
		if e.Spill != 0 {
			return nil
		}
	}
	a := index.Advance{Num: r.row.Num, State: r.state, Entries: r.pending}
	r.advance = advances.Get().(*[]byte)
	if *r.advance, err = a.Append((*r.advance)[:0]); err == nil {
		r.request.run = r
	}
	return err
}

// dropAdvance gives back what encodeAdvance has taken.
func (r *Run) dropAdvance() {
	if r.advance != nil {
		advances.Put(r.advance)
		r.advance = nil
	}
}

// splitBatch returns the requests of a batch that may go into the redo log, and the others, each in
// their order. Both are answered by themselves.
func (l *redoLog) splitBatch(batch []*commitRequest) (advances, others []*commitRequest) {
	if !l.isTaking() {
		return nil, batch
	}
	n := 0
	for _, r := range batch {
		if r.run != nil {
			n++
		}
	}
	switch n {
	case 0:
		return nil, batch
	case len(batch):
		return batch, nil
	}
	advances, others = make([]*commitRequest, 0, n), make([]*commitRequest, 0, len(batch)-n)
	for _, r := range batch {
		if r.run != nil {
			advances = append(advances, r)
		} else {
			others = append(others, r)
		}
	}
	return advances, others
}

// isTaking reports whether commits go into the redo log.
func (l *redoLog) isTaking() bool { return l.armed && l.paused == 0 }

// takesBatch reports whether the redo log takes all requests of a batch. Where a region is full and the
// other one not free yet, pawl.db takes them.
func (l *redoLog) takesBatch(batch []*commitRequest) bool {
	if !l.isTaking() {
		return false
	}
	bytes := 0
	for _, r := range batch {
		if r.run == nil {
			return false
		}
		bytes += len(*r.run.advance)
	}
	if l.file.HasRoom(bytes) {
		return true
	}
	if !l.file.IsFree() || !l.file.Fits(bytes) {
		return false
	}
	l.file.Switch()
	return true
}

// appendBatch commits a batch in the redo log. It leaves the refusals with the requests and returns an
// error that concerns all of them.
//
// [Dir.runTransaction] does the same with other batches. After an error, a frame that was not written whole does
// not count, and the next one is written over it; behind that, nobody can know, and the error is ErrUnknown.
// Another engine that takes the directory over writes its epoch into the file before it reads that: an engine
// that does not find such an epoch behind the frame therefore knows that the frame is seen.
//
// The epoch in the file is looked at before the frame and behind it, the lock file behind it alone: a look before it
// would keep from nothing that the epoch lets pass. An engine that has taken the directory over has either
// written its epoch into this file, or has a copy of it, and then this one leads nowhere any more. A frame that comes before
// the epoch is read by that engine, and is not acknowledged here.
func (d *Dir) appendBatch(batch []*commitRequest) error {
	l := &d.redo
	taken, err := d.checkAdvances(batch)
	defer func() {
		for _, r := range taken {
			l.runs[r.run.row.Num].busy = false
		}
	}()
	if err != nil || len(taken) == 0 {
		return err
	}
	if err := d.checkRedoOwner(); errors.Is(err, ErrFenced) {
		return d.failForGood(err)
	} else if err != nil {
		return err
	}
	l.parts = l.parts[:0]
	for _, r := range taken {
		l.parts = append(l.parts, *r.run.advance)
	}
	defer clear(l.parts)
	d.hook.Hit("redo.append")
	if err := l.file.Append(l.parts...); err != nil {
		return d.appendFailedRedo(fmt.Errorf("write %s: %w", d.pathOf(redoFile), err))
	}
	d.hook.Hit("redo.appended")
	if l.unsynced = d.options.Durability == ProcessCrash; !l.unsynced {
		if err := l.file.Sync(); err != nil {
			return d.failForGood(fmt.Errorf("%w: sync %s: %w", ErrUnknown, d.pathOf(redoFile), typedError(err)))
		}
	}
	clear(d.tenants.changed)
	for _, r := range taken {
		d.noteAdvance(r.run)
	}
	d.tenants.keepBytes()
	d.commits.Add(1)
	d.hook.Hit("commit.done")
	err = d.checkOwner()
	if err == nil {
		err = d.checkRedoOwner()
	}
	if err != nil {
		return d.failForGood(fmt.Errorf("%w: %w", ErrUnknown, err))
	}
	d.countStale(l.parts)
	return nil
}

// countStale counts what was appended for the length of the write-ahead log, if something was deleted that both have:
// with the checkpoint that comes by that, the redo log is emptied too.
func (d *Dir) countStale(parts [][]byte) {
	if !d.stale {
		return
	}
	l := &d.redo
	for _, p := range parts {
		l.stale += len(p)
	}
	d.checkpoints.frames += l.stale / walFrame
	l.stale %= walFrame
}

// appendFailedRedo returns the error of a frame that could not be written. On a full disk the engine goes on.
func (d *Dir) appendFailedRedo(err error) error {
	err = fmt.Errorf("%w: %w", ErrUnknown, typedError(err))
	if errors.Is(err, ErrNoSpace) {
		return err
	}
	return d.failForGood(err)
}

// checkRedoOwner fails with ErrFenced if another engine has taken the redo log over.
func (d *Dir) checkRedoOwner() error {
	switch err := d.redo.file.CheckOwner(); {
	case errors.Is(err, redo.ErrOwned):
		return fmt.Errorf("%w: its epoch is in %s", ErrFenced, d.pathOf(redoFile))
	case err != nil:
		return fmt.Errorf("cannot tell who owns the directory: %w", err)
	}
	return nil
}

// checkAdvances returns the requests whose handles know the last record of their runs, and refuses the others.
//
// Two handles of one run may commit at the same moment: the first goes on.
func (d *Dir) checkAdvances(batch []*commitRequest) (taken []*commitRequest, err error) {
	taken = make([]*commitRequest, 0, len(batch))
	for _, r := range batch {
		known, err := d.findRedoRun(r.run)
		if err != nil {
			return taken, err
		}
		if known == nil || known.busy || known.seq != r.run.row.Seq {
			r.err = fmt.Errorf("%w: another handle has committed behind record %d", ErrFenced, r.run.row.Seq)
			continue
		}
		known.busy, r.err = true, nil
		taken = append(taken, r)
	}
	return taken, nil
}

const getSeq = `SELECT seq FROM runs WHERE num = ?`

// findRedoRun returns what is known of the last commit of a run; nil if it was purged.
//
// It is read from pawl.db at the first of several commits, and known from then on.
func (d *Dir) findRedoRun(r *Run) (*redoRun, error) {
	l := &d.redo
	if known := l.runs[r.row.Num]; known != nil {
		return known, nil
	}
	known := &redoRun{num: r.row.Num, run: r.row.Run, workflow: r.row.Workflow, status: r.row.Status, was: r.row.Status}
	found, err := d.db.One(getSeq, func(x *sqlite.Row) error { known.seq = x.Int64(0); return nil }, r.row.Num)
	known.rowSeq = known.seq
	if err != nil || !found {
		return nil, d.indexError(err)
	}
	if known.seq == r.row.Seq { // the status is that of the handle
		l.runs[r.row.Num] = known
	}
	return known, nil
}

// noteAdvance notes a commit that is in the redo log now.
func (d *Dir) noteAdvance(r *Run) {
	l, known := &d.redo, d.redo.runs[r.row.Num]
	if gen, n := l.file.Generation(), len(known.regions); n == 0 || known.regions[n-1].gen != gen {
		known.regions = append(known.regions, redoRegion{r.pending[0].Seq, gen})
	}
	l.behind[known.num] = known
	known.entries = append(known.entries, r.pending...)
	end := r.pending[len(r.pending)-1]
	known.seq, known.sum, known.at = end.Seq, end.Sum, end.At
	if r.state != nil {
		if known.state == nil {
			known.changed = end.Seq
		}
		known.state, known.stateSeq = r.state, end.Seq
	}
	if r.next.Status != known.status {
		l.ahead[countKey{known.workflow, known.status}]--
		l.ahead[countKey{known.workflow, r.next.Status}]++
		known.status = r.next.Status
	}
	if has := hasIncident(&r.next); has {
		d.counts.incidents[r.row.Num] = true
	} else {
		delete(d.counts.incidents, r.row.Num)
	}
	d.tenants.countBytes(r.next.Tenant, r.pendingLogBytes())
}
